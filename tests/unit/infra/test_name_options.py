import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest

from infra.option_checks import OptionError
from infra.stage_file import parse_stage

OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"
CERTIFICATE = "arn:aws:acm:eu-west-1:123456789012:certificate/1b2c-3d"
NAME = {"host": "queue.example.com", "certificate": CERTIFICATE}
ELSEWHERE = CERTIFICATE.replace("eu-west-1", "us-east-1")
ZONE = "Z0123456789ABC"
SHOP, BANK = "111122223333", "444455556666"


def stage(*hosts: dict[str, Any], **more: Any) -> Any:
    return parse_stage({"name": "s", "region": "eu-west-1", "names": {"hosts": [*hosts]}, **more})


def named(host: str, *callers: str) -> dict[str, Any]:
    return {**NAME, "host": host, "callers": list(callers)}


def test_a_stage_has_no_names_by_itself() -> None:
    assert parse_stage({"name": "s"}).names.hosts == ()


def test_the_example_in_the_documentation_is_a_stage() -> None:
    _, _, after = OPERATIONS.read_text(encoding="utf-8").partition(
        "\n## Names and load balancers\n"
    )
    section = after.partition("\n## ")[0]
    example = textwrap.dedent(
        "\n".join(line for line in section.splitlines() if line.startswith("    ") or not line)
    ).partition("[[names.hosts]]")
    names = parse_stage({"name": "s", **tomllib.loads("".join(example[1:]))}).names
    assert names.check_every_s == 10
    assert [(name.host, name.callers) for name in names.hosts] == [
        ("queue.example.com", ()),
        ("shop.example.com", (SHOP, f"{BANK}/orders")),
    ]


def test_a_name_in_several_regions_has_its_part() -> None:
    (weighted,) = stage({**NAME, "zone": ZONE, "weight": 0}).names.hosts
    (primary,) = stage({**NAME, "zone": ZONE, "failover": "primary"}).names.hosts
    (alone,) = stage({**NAME, "zone": ZONE}).names.hosts
    assert [one.is_one_of_several for one in (weighted, primary, alone)] == [True, True, False]


@pytest.mark.parametrize(
    ("hosts", "more", "line"),
    [
        ([{**NAME, "host": "example"}], {}, "names.hosts[0].host: 'example' is no host name"),
        ([{**NAME, "host": "Q.example.com"}], {}, "names.hosts[0].host: 'Q.example.com' is no"),
        ([{**NAME, "host": "-q.example.com"}], {}, "names.hosts[0].host: '-q.example.com' is no"),
        ([{**NAME, "certificate": "arn"}], {}, "names.hosts[0].certificate: 'arn' is no ARN"),
        ([{"host": "queue.example.com"}], {}, "names.hosts[0].certificate: missing"),
        ([{**NAME, "zone": "example.com"}], {}, "names.hosts[0].zone: 'example.com' is no id"),
        ([{**NAME, "weight": 1}], {}, "names.hosts[0].zone: without it there is no record"),
        ([{**NAME, "zone": ZONE, "weight": 256}], {}, "names.hosts[0].weight: 256 is not within"),
        ([{**NAME, "zone": ZONE, "failover": "third"}], {}, "names.hosts[0].failover: 'third' is"),
        (
            [{**NAME, "zone": ZONE, "failover": "primary", "weight": 1}],
            {},
            "names.hosts[0].failover: a name has this or a weight",
        ),
        ([named("a.example.com", "shop")], {}, "names.hosts[0].callers: 'shop' is neither"),
        ([NAME, NAME], {}, "names.hosts: 'queue.example.com' is there twice"),
        (
            [named("a.example.com", SHOP), named("b.example.com", SHOP)],
            {},
            f"names.hosts: '{SHOP}' is there twice",
        ),
        ([NAME, named("b.example.com")], {}, "names.hosts: 'all others' is there twice"),
        (
            [
                NAME,
                {**named("b.example.com", SHOP), "certificate": ELSEWHERE},
            ],
            {},
            "names.hosts: their certificates are in several regions",
        ),
        ([NAME], {"region": "us-east-1"}, "names: their certificates are not in us-east-1"),
        (
            [NAME],
            {"service": {"rest_api": False, "function_url": True}},
            "names: they lead to the rest_api; function URLs have none",
        ),
        (
            [NAME],
            {"service": {"base_url": "https://queue.example.com"}},
            "service.base_url: queue URLs have the name that the caller used",
        ),
    ],
)
def test_a_wrong_name_is_one_line(
    hosts: list[dict[str, Any]], more: dict[str, Any], line: str
) -> None:
    with pytest.raises(OptionError) as refused:
        stage(*hosts, **more)
    assert str(refused.value).startswith(line)


@pytest.mark.parametrize(
    ("option", "value", "line"),
    [
        ("check_path", "health", "names.check_path: 'health' is no path"),
        ("check_every_s", 5, "names.check_every_s: 5 is none of 10, 30"),
        ("check_failures", 0, "names.check_failures: 0 is not within 1 and 10"),
        ("check_regions", ["us-east-1"] * 3, "names.check_regions: Route 53 wants 3 at least"),
    ],
)
def test_a_wrong_check_is_one_line(option: str, value: object, line: str) -> None:
    with pytest.raises(OptionError) as refused:
        parse_stage({"name": "s", "names": {option: value}})
    assert str(refused.value) == line
