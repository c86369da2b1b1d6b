import re
from pathlib import Path
from typing import Any

import pytest

from infra.option_checks import OptionError
from infra.options import StageOptions
from infra.stage_file import STAGES, parse_stage, read_stage

TOPIC = "arn:aws:sns:eu-west-1:123456789012:operators"
KEY = "arn:aws:kms:eu-west-1:123456789012:key/1b2c"


@pytest.mark.parametrize("path", sorted(STAGES.glob("*.toml")), ids=lambda path: str(path.stem))
def test_stages_at_hand_are_good(path: Path) -> None:
    assert read_stage(path.stem, email="operators@example.com").name == path.stem


@pytest.mark.parametrize("path", sorted(STAGES.glob("*.toml")), ids=lambda path: str(path.stem))
def test_what_stages_at_hand_suggest_is_good(path: Path, tmp_path: Path) -> None:
    """Lines that are comments of TOML are examples: they are read as if they were none."""
    lines = path.read_text(encoding="utf-8").splitlines()
    suggested = tmp_path / path.name
    suggested.write_text(
        "\n".join(re.sub(r"^# (?=\[|[a-z_]+ = )", "", line) for line in lines), encoding="utf-8"
    )

    assert read_stage(str(suggested)).name == path.stem
    if path.stem == "production":
        assert read_stage(str(suggested)).monitoring.queues
        assert read_stage(str(suggested)).monitoring.streams
        assert read_stage(str(suggested)).monitoring.groups


def test_who_keeps_messages_tells_somebody_of_alarms() -> None:
    with pytest.raises(OptionError, match=r"^monitoring\.topic: name a topic or an email"):
        read_stage("production")

    assert read_stage("production", topic=TOPIC).monitoring.topic == TOPIC
    assert not read_stage("development").monitoring.tells


def test_a_stage_can_be_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\n[state]\nkeeps = false\n[service]\nmemory_mb = 512\n', encoding="utf-8"
    )

    assert read_stage(str(path)).service.memory_mb == 512


def test_production_keeps_what_it_is_given() -> None:
    assert read_stage("production", topic=TOPIC).state.keeps


def test_no_options_are_the_defaults() -> None:
    assert parse_stage({"name": "s"}) == StageOptions("s")


def test_lists_are_tuples() -> None:
    queues = [{"queue": "orders", "growth_max": 5}, {"queue": "mail.fifo"}]
    stage = parse_stage(
        {"name": "s", "service": {"queue_keys": [KEY]}, "monitoring": {"queues": queues}}
    )

    assert stage.service.queue_keys == (KEY,)
    assert [one.queue for one in stage.monitoring.queues] == ["orders", "mail.fifo"]
    assert hash(stage)


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ({}, "name: missing"),
        ({"name": "Big"}, "name: 'Big' is not 1 to 20 of a-z 0-9 -, beginning with a letter"),
        ({"name": "s", "colour": 1}, "colour: unknown; there are name, account, region, "),
        ({"name": 1}, "name: 1 is not of type str"),
        ({"name": "s", "account": "1"}, "account: '1' is no account id of 12 digits"),
        ({"name": "s", "region": "Europe"}, "region: 'Europe' is no region's name"),
        ({"name": "s", "emulator": "yes"}, "emulator: 'yes' is not of type bool"),
        (
            {"name": "s", "further_regions": ["eu-west-1"]},
            "further_regions: not offered: definitions, big bodies and keys would stay in one",
        ),
        (
            {"name": "s", "monitoring": {"further_topics": [TOPIC]}},
            "monitoring.further_topics: not offered: a stage has one region",
        ),
        ({"name": "s", "state": 1}, "state: 1 is no table of options"),
        ({"name": "s", "state": {"table": "a"}}, "state.table: 'a' is no table's name"),
        ({"name": "s", "state": {"cells": ["a"]}}, "state.cells: 'a' is no table's name"),
        ({"name": "s", "state": {"cells": ["tidegate"]}}, "state.cells: 'tidegate' is there twice"),
        (
            {"name": "s", "state": {"cells": [f"cell-{number}" for number in range(9)]}},
            "state.cells: 10 cells are more than 9",
        ),
        ({"name": "s", "cluster": {"grace_s": -1}}, "cluster.grace_s: -1 is not within"),
        ({"name": "s", "state": {"usage_days": True}}, "state.usage_days: True is not of type int"),
        (
            {"name": "s", "state": {"usage_days": 34}, "analytics": {"bills": True}},
            "state.usage_days: 34, fewer than the 35 after which a month is closed",
        ),
        ({"name": "s", "service": {"memory": 1}}, "service.memory: unknown; there are rest_api"),
        ({"name": "s", "service": {"rest_api": False}}, "service.rest_api: without it there must"),
        (
            {"name": "s", "service": {"runtime": "go"}},
            "service.runtime: 'go' is none of python3.11",
        ),
        (
            {"name": "s", "service": {"timeout_s": 30}},
            "service.timeout_s: 30 is not within 1 and 29",
        ),
        ({"name": "s", "service": {"log_days": 8}}, "service.log_days: 8 is none of 1, 3, 5, 7"),
        (
            {"name": "s", "service": {"queue_keys": [KEY, "*"]}},
            "service.queue_keys: '*' is no ARN of a KMS key",
        ),
        (
            {"name": "s", "service": {"queue_keys": [KEY, 1]}},
            "service.queue_keys[1]: 1 is not of type str",
        ),
        ({"name": "s", "service": {"base_url": "x"}}, "service.base_url: 'x' is not of the form"),
        (
            {"name": "s", "service": {"endpoint": "http://127.0.0.1:4566"}},
            "service.endpoint: it is for an emulator",
        ),
        (
            {"name": "s", "service": {"reserved_concurrency": -1}},
            "service.reserved_concurrency: -1 is not within 0 and 100000",
        ),
        (
            {"name": "s", "state": {"write_units_per_s_max": -1}},
            "state.write_units_per_s_max: -1 is not within 0 and 10000000",
        ),
        (
            {"name": "s", "monitoring": {"queues": [{"queue": "a b"}]}},
            "monitoring.queues[0].queue: 'a b' is no queue's name",
        ),
        (
            {"name": "s", "monitoring": {"queues": [{"queue": f"q{n}"} for n in range(17)]}},
            "monitoring.queues: 17 are more than 16",
        ),
        (
            {"name": "s", "monitoring": {"groups": [{"group": "a b"}]}},
            "monitoring.groups[0].group: 'a b' is no group's name",
        ),
        (
            {"name": "s", "monitoring": {"groups": [{"group": "a", "lag_ms_max": -1}]}},
            "monitoring.groups[0].lag_ms_max: -1 is not within 0 and 31536000000",
        ),
        (
            {"name": "s", "monitoring": {"groups": [{"group": f"g{n}"} for n in range(17)]}},
            "monitoring.groups: 17 are more than 16",
        ),
        (
            {"name": "s", "monitoring": {"streams": [{"stream": "a b"}]}},
            "monitoring.streams[0].stream: 'a b' is no stream's name",
        ),
        (
            {
                "name": "s",
                "monitoring": {
                    "queues": [{"queue": f"q{n}"} for n in range(16)],
                    "streams": [{"stream": "a"}],
                },
            },
            "monitoring.streams: 1 need with 16 queues 101 metric filters, of 100",
        ),
        ({"name": "s", "monitoring": {"email": "me"}}, "monitoring.email: 'me' is no address"),
        (
            {"name": "s", "cluster": {"period_minutes": 0}},
            "cluster.period_minutes: 0 is not within",
        ),
    ],
)
def test_a_wrong_value_is_named_in_one_line(document: dict[str, Any], line: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_stage(document)

    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_a_stage_that_is_not_there_is_named() -> None:
    with pytest.raises(OptionError, match=r"^stage: cannot read .*nowhere\.toml: .*production"):
        read_stage("nowhere")


def test_what_is_no_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text("name =", encoding="utf-8")

    with pytest.raises(OptionError, match=r"stage: .* is no TOML"):
        read_stage(str(path))
