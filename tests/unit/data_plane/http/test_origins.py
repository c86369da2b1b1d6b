from typing import Any

import pytest

from data_plane.http.origins import ForeignPages, foreign, is_local
from tests.unit.repeatable import SeededEntropy

AGENT = "Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.1 Safari/605"
OLD = "Opera/9.80 (X11; Linux x86_64) Presto/2.12.388 Version/12.16"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost:9324", "a.b.localhost", "127.0.0.1:1", "10.1.2.3", "[::1]:9324"),
        *("tidegate", "queue_1:9324", "host.docker.internal", "host.containers.internal:80"),
        *("localhost.localstack.cloud:4566", "sqs.eu-west-1.localhost.localstack.cloud"),
        *("us-east-1.queue.localhost.localstack.cloud:4566", "Localhost.", "[fe80::1]"),
    ],
)
def test_names_of_this_machine(host: str) -> None:
    assert is_local(host)


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example:9324", "127.0.0.1.evil.example", "1.2.3.4.5"),
        *("localstack.cloud", "xlocalhost.localstack.cloud", "internal.example"),
        *("evil.internal.example", "", "ev!l.example", "a b", "[evil.example]", "localhost,evil.a"),
    ],
)
def test_names_that_lead_here_by_rebinding(host: str) -> None:
    assert not is_local(host)


def test_further_names() -> None:
    names = ("queues.test", "*.shop.test")
    assert is_local("queues.test:1", names)
    assert is_local("A.Shop.Test", names)
    assert not is_local("shop.test", names)
    assert not is_local("a.queues.test", names)


@pytest.mark.parametrize(
    ("headers", "shown"),
    [
        ([("origin", "https://evil.example")], "Origin: https://evil.example"),
        ([("origin", "null")], "Origin: null"),
        ([("origin", "")], "Origin: "),
        ([("origin", "http://localhost:9325")], "Origin: http://localhost:9325"),
        ([("origin", "http://localhost")], "Origin: http://localhost"),
        ([("origin", "file://localhost:9324")], "Origin: file://localhost:9324"),
        (
            [("origin", "http://localhost:9324"), ("origin", "http://a")],
            "Origin: http://a",
        ),
        ([("sec-fetch-site", "cross-site")], "Sec-Fetch-Site: cross-site"),
        ([("sec-fetch-site", "none,cross-site")], "Sec-Fetch-Site: none,cross-site"),
        ([("sec-fetch-site", "none"), ("sec-fetch-site", "x")], "Sec-Fetch-Site: x"),
        ([("sec-fetch-site", "none"), ("sec-purpose", "prefetch")], "Sec-Purpose: prefetch"),
        ([("sec-fetch-site", "same-origin"), ("purpose", "prefetch")], "Purpose: prefetch"),
        ([("user-agent", AGENT)], "a browser's User-Agent, no Sec-Fetch-Site"),
        ([("user-agent", FIREFOX)], "a browser's User-Agent, no Sec-Fetch-Site"),
        ([("user-agent", OLD)], "a browser's User-Agent, no Sec-Fetch-Site"),
        ([("user-agent", AGENT), ("sec-fetch-site", "none")], ""),
        ([("user-agent", "Boto3/1.44.0 md/Botocore#1.44.0 ua/2.1"), ("x", "y")], ""),
        ([("user-agent", "Mozilla/5.0 (Windows NT 10.0) PowerShell/7.4.0")], ""),
        ([("user-agent", "Mozilla/5.0 (compatible; pycurl)")], ""),
        ([("origin", "http://localhost:9324"), ("sec-fetch-site", "same-origin")], ""),
        ([("origin", "https://localhost:9324")], ""),
    ],
)
def test_what_shows_a_foreign_page(headers: list[tuple[str, str]], shown: str) -> None:
    assert foreign([("host", "localhost:9324"), *headers]) == shown


def test_ports_that_need_not_be_said() -> None:
    for origin, host in (
        ("http://localhost", "localhost:80"),
        ("https://localhost", "localhost:443"),
        ("https://localhost", "localhost"),
    ):
        assert not foreign([("host", host), ("origin", origin)])
    assert foreign([("host", "localhost:443"), ("origin", "http://localhost")])


def test_a_host_that_is_repeated_is_foreign_if_one_is() -> None:
    assert foreign([("host", "localhost"), ("host", "evil.example")]) == "Host: evil.example"


def test_a_refusal_is_told_once_and_counted() -> None:
    told: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    pages = ForeignPages(
        ("queues.test",),
        "https://Queues.example:8443/",
        SeededEntropy(1),
        lambda *words, **fields: told.append((words, fields)),
    )
    own = {"host": "127.0.0.1:9324", "origin": "https://queues.example:8443"}
    assert pages.refusal(own, "") is None
    assert pages.refusal({"host": "queues.example:8443"}, "") is None
    assert pages.refusal({"host": "queues.test"}, "") is None
    assert not told
    refused = pages.refusal({"host": "x", "origin": "http://" + "a" * 9000}, "10.0.0.1:5")
    assert refused is not None
    assert refused.status == 403
    ((words, fields),) = told
    assert words == ("warning", "foreign page refused")
    assert len(fields["shown"]) == 300
    assert fields["client"] == "10.0.0.1:5"
    assert fields["request_id"] in dict(refused.headers)["x-amzn-requestid"]
    assert pages.refused == 1
