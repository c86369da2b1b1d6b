from pathlib import Path
from typing import Any

import pytest

from data_plane.core.addresses import is_loopback
from data_plane.settings import ServerSettings, SettingError


@pytest.mark.parametrize(
    ("setting", "given"),
    [
        ("host", {"host": "a b"}),
        ("host", {"host": ""}),
        ("host", {"host": "0.0.0.0", "auth": "off"}),  # noqa: S104 - what is to be refused
        ("host", {"host": "example.com", "auth": "off"}),
        ("new-root-key", {"new_root_key": True, "auth": "off"}),
        ("port", {"port": -1}),
        ("port", {"port": 65536}),
        ("auth", {"auth": "maybe"}),
        ("account", {"account": "1234"}),
        ("region", {"region": "Mars 1"}),
        ("log-level", {"log_level": "loud"}),
        ("grace", {"grace_s": -1.0}),
        ("grace", {"grace_s": float("nan")}),
        ("grace", {"grace_s": float("inf")}),
        ("lag", {"lag_s_max": float("inf")}),
        ("request-deadline", {"request_deadline_s": float("inf")}),
        ("request-deadline", {"request_deadline_s": 86_401.0}),
        ("strict-streams", {"strict_streams_s": -1.0}),
        ("strict-streams", {"strict_streams_s": 3_601.0}),
        ("base-url", {"base_url": "ftp://host"}),
        ("base-url", {"base_url": "http://"}),
        ("base-url", {"base_url": "http://host/a//b"}),
        ("base-url", {"base_url": "http://host/path?query"}),
        ("base-url", {"base_url": "http://host/a b"}),
        ("base-url", {"base_url": "http://host:port"}),
        ("base-url", {"base_url": "http://[half"}),
        ("tls-certificate", {"tls_key": Path("key.pem")}),
        ("tls-key", {"tls_certificate": Path("certificate.pem")}),
        ("cells", {"cells": 0}),
        ("cells", {"cells": 10}),
        ("cells", {"cells": 3, "cell": "dynamodb"}),
        ("cell-data", {"cell_data": "a,b,c"}),
        ("cell-data", {"cells": 3, "cell_data": "a,b"}),
        ("cell-data", {"cells": 2, "cell_data": "a,./a"}),
        ("cell-data", {"cell_data": "a"}),
        ("cells-dynamodb", {"cells_dynamodb": "two=messages"}),
        ("cells-dynamodb", {"cells_dynamodb": "messages", "cell": "dynamodb"}),
        ("cells-dynamodb", {"cells_dynamodb": "two=ftp://host/messages", "cell": "dynamodb"}),
        ("cells-dynamodb", {"cells_dynamodb": "tidegate=messages", "cell": "dynamodb"}),
        ("cells-dynamodb", {"cells_dynamodb": "two=EU/messages", "cell": "dynamodb"}),
        ("cells-dynamodb", {"cells_dynamodb": "two=http://host/eu/messages", "cell": "dynamodb"}),
        ("cells-dynamodb", {"cells_dynamodb": "two=eu/us/messages", "cell": "dynamodb"}),
        ("cells-dynamodb", {"cells_dynamodb": "two=/messages", "cell": "dynamodb"}),
        ("cells-dynamodb", {"cells_dynamodb": "two=eu/http://h:0/table", "cell": "dynamodb"}),
        ("cells-dynamodb", {"cells_dynamodb": "two=us-east-1/tidegate", "cell": "dynamodb"}),
        ("cells-dynamodb", {"cells_dynamodb": "a-1=eu/one,a-2=eu/one", "cell": "dynamodb"}),
        ("allowed-hosts", {"allowed_hosts": "queues.test:9324"}),
        ("allowed-hosts", {"allowed_hosts": "queues.test,*"}),
        ("allowed-hosts", {"allowed_hosts": "http://queues.test"}),
        ("allowed-hosts", {"allowed_hosts": "a.*.test"}),
        ("allow-origin", {"allow_origin": "localhost:3000"}),
        ("allow-origin", {"allow_origin": "http://localhost:3000,*"}),
        ("allow-origin", {"allow_origin": "http://localhost:3000/page"}),
        ("allow-origin", {"allow_origin": "null"}),
        ("allow-origin", {"allow_origin": "http://localhost:3000", "auth": "off"}),
        ("metrics", {"metrics": "yes"}),
        ("metrics", {"metrics": "9325"}),
        ("metrics", {"metrics": "localhost:0"}),
        ("metrics", {"metrics": "::1:9325"}),
        ("metrics", {"metrics": "127.0.0.1:9324"}),
        ("metrics-key", {"metrics": "off", "metrics_key": Path("key")}),
        ("metadata-cache", {"metadata_cache": "one,two:0"}),
        ("metadata-cache", {"metadata_cache": "one:65536"}),
        ("metadata-cache", {"metadata_cache": "one,"}),
        ("metadata-cache", {"metadata_cache": "one,two,one:11211"}),
        ("metadata-cache", {"metadata_cache": "http://one:11211"}),
        ("metadata-cache", {"metadata_cache": "::1"}),
        ("metadata-cache", {"metadata_cache": "one:11211\r\nflush_all"}),
        ("metadata-cache", {"metadata_cache": ",".join(f"node-{n}" for n in range(33))}),
        ("metadata-cache-layout", {"metadata_cache_layout": "copied"}),
        ("metadata-cache-tls", {"metadata_cache_tls": "on"}),
        ("metadata-cache-layout", {"metadata_cache_layout": "whole-copy"}),
        ("table", {"table": "messages"}),
        ("cell-name", {"cell_name": "messages"}),
        ("connections", {"connections": 8}),
        ("cell-deadline", {"cell_deadline_s": 2.0}),
        ("blob-threshold", {"blob_threshold_bytes": 1000}),
        ("drop-pace", {"drop_items_per_s": 5}),
        ("cell", {"cell": "mongodb"}),
        ("cell-endpoint", {"endpoint": "http://127.0.0.1:4566"}),
        ("cell-endpoint", {"cell": "dynamodb", "endpoint": "127.0.0.1:4566"}),
        ("cell-endpoint", {"cell": "dynamodb", "endpoint": "http://127.0.0.1/path"}),
        ("table", {"cell": "dynamodb", "table": "a/b"}),
        ("table", {"cell": "dynamodb", "table": ""}),
        ("connections", {"cell": "dynamodb", "connections": 0}),
        ("connections", {"cell": "dynamodb", "connections": 1025}),
        ("cell-deadline", {"cell": "dynamodb", "cell_deadline_s": 0.0}),
        ("cell-deadline", {"cell": "dynamodb", "cell_deadline_s": float("nan")}),
        ("cell-deadline", {"cell": "dynamodb", "cell_deadline_s": float("inf")}),
        ("blobs", {"blobs": "somewhere"}),
        ("blobs", {"cell": "dynamodb", "blobs": "gs://bodies"}),
        ("blobs", {"cell": "dynamodb", "blobs": "s3://"}),
        ("blobs", {"cell": "dynamodb", "blobs": "s3://Bodies"}),
        ("blobs", {"cell": "dynamodb", "blobs": "s3://bodies//a"}),
        ("blobs-endpoint", {"cell": "dynamodb", "blobs_endpoint": "http://127.0.0.1:4566"}),
        (
            "blobs-endpoint",
            {"cell": "dynamodb", "blobs": "s3://bodies", "blobs_endpoint": "127.0.0.1:4566"},
        ),
        ("blob-threshold", {"cell": "dynamodb", "blob_threshold_bytes": -1}),
        ("blob-threshold", {"cell": "dynamodb", "blob_threshold_bytes": 400_000}),
    ],
)
def test_a_wrong_value_is_named_in_one_line(setting: str, given: dict[str, Any]) -> None:
    with pytest.raises(SettingError) as caught:
        ServerSettings(**given)
    assert caught.value.setting == setting
    assert str(caught.value).startswith(f"{setting}: ")
    assert "\n" not in str(caught.value)


def test_a_name_that_is_too_short_is_told_how_names_are() -> None:
    for given in ({"table": "a"}, {"cell_name": "a"}, {"cells_dynamodb": "a=tidegate"}):
        with pytest.raises(SettingError, match=r" 3 to 255 of a-z A-Z 0-9 _ \. -$"):
            ServerSettings(cell="dynamodb", **given)  # type: ignore[arg-type]


def test_only_with_authentication_others_are_served() -> None:
    assert ServerSettings().verifies
    assert ServerSettings(host="0.0.0.0").verifies  # noqa: S104 - what is to be allowed
    assert not ServerSettings(host="::1", auth="off").verifies


def test_what_is_right_passes() -> None:
    settings = ServerSettings(host="::1", port=65535, base_url="https://queues.example:8443/")
    assert settings.host == "::1"
    on_dynamodb = ServerSettings(cell="dynamodb", endpoint="http://127.0.0.1:4566", table="a.b-c")
    assert on_dynamodb.table == "a.b-c"
    for blobs in ("", "s3://bodies", "s3://bodies/", "s3://my.bodies-1/a/b", "data/blobs", "/srv"):
        assert ServerSettings(cell="dynamodb", blobs=blobs).blobs == blobs


def test_metrics_have_an_address_where_one_is_said() -> None:
    assert ServerSettings().metrics_at is None
    assert ServerSettings(metrics="off").metrics_at is None
    assert ServerSettings(metrics="0.0.0.0:9325").metrics_at == ("0.0.0.0", 9325)  # noqa: S104 - as said
    assert ServerSettings(metrics="[::1]:9324").metrics_at == ("::1", 9324)


def test_wake_ups_name_this_server_and_others() -> None:
    assert ServerSettings().wake_up_addresses == ()
    wake_ups = "127.0.0.1:9325,[::1]:9325,tidegate.internal:9326"
    settings = ServerSettings(cell="dynamodb", wake_ups=wake_ups)
    named = (("127.0.0.1", 9325), ("::1", 9325), ("tidegate.internal", 9326))
    assert settings.wake_up_addresses == named


@pytest.mark.parametrize("wake_ups", ["a:1", "a:1,", "a,b", "a:1,b:0", "a:1,b:70000", "a:1 b:2"])
def test_wrong_wake_ups_are_named(wake_ups: str) -> None:
    with pytest.raises(SettingError, match="wake-ups: "):
        ServerSettings(cell="dynamodb", wake_ups=wake_ups)


def test_nobody_else_is_woken_by_an_embedded_cell() -> None:
    with pytest.raises(SettingError, match="wake-ups: no other server"):
        ServerSettings(wake_ups="a:1,b:2")


def test_further_hosts_are_names_in_lower_case() -> None:
    assert ServerSettings().further_hosts == ()
    settings = ServerSettings(allowed_hosts=" Queues.test, *.shop.test,")
    assert settings.further_hosts == ("queues.test", "*.shop.test")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("::", False),
        ("localhost.example.com", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, *, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_nodes_of_the_metadata_cache_have_hosts_and_ports() -> None:
    assert ServerSettings().cache_nodes == ()
    settings = ServerSettings(metadata_cache="one.example, 10.0.0.2:11212,[::1],[fe80::1]:1")
    assert settings.cache_nodes == (
        ("one.example", 11211),
        ("10.0.0.2", 11212),
        ("::1", 11211),
        ("fe80::1", 1),
    )


def test_several_cells() -> None:
    assert not ServerSettings().has_several
    assert ServerSettings(cells=3).has_several
    settings = ServerSettings(cells=2, cell_data="a, /b")
    assert settings.cell_folders == (Path("a"), Path("/b"))
    tables = ServerSettings(
        cell="dynamodb",
        region="eu-west-1",
        cells_dynamodb="two=http://host:8000/messages, three=others, usa=us-east-1/tidegate,"
        "own=us-west-2/https://[::1]:8000/tidegate",
    )
    assert tables.has_several
    assert tables.further_tables == (
        ("two", "eu-west-1", "http://host:8000", "messages"),
        ("three", "eu-west-1", "", "others"),
        ("usa", "us-east-1", "", "tidegate"),
        ("own", "us-west-2", "https://[::1]:8000", "tidegate"),
    )
