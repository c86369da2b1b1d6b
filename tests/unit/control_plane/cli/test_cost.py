import json

import pytest
from click.testing import CliRunner, Result

from control_plane.cli.main import tidegate


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(tidegate, ("cost", *arguments), prog_name="tidegate")


def test_a_bill_is_a_table_with_sqs_beside_it() -> None:
    said = invoke("--messages-per-s", "10", "--size", "2048", "--batch", "10", "--fifo").output
    lines = said.splitlines()
    assert lines[0] == "10 messages/s of 2,048 bytes, 10 a call, FIFO queue, door rest"
    assert lines[1].startswith("us-east-1, prices of 20")
    names = [line.rsplit("  ", 1)[0].strip() for line in lines]
    assert {"Tidegate", "Amazon SQS", "for a million messages"} <= set(names)
    assert lines[-1].startswith("Amazon SQS costs less: Tidegate is ")
    assert max(map(len, lines)) < 100


def test_where_tidegate_costs_less_it_says_so() -> None:
    said = invoke("--messages-per-s", "500", "--door", "embedded").output
    assert said.splitlines()[-1].startswith("Tidegate costs less: 0.0")


def test_json_has_the_same() -> None:
    told = json.loads(invoke("--messages-per-s", "10", "--door", "url", "--json").output)
    ours = told["tidegate"]
    assert ours["usd_a_month"] == pytest.approx(
        sum(line["usd_a_month"] for line in ours["lines"]), abs=0.01
    )
    assert ours["usd_a_month_fixed"] == pytest.approx(
        sum(line["usd_a_month"] for line in ours["lines"] if line["fixed"]), abs=0.01
    )
    assert told["sqs"]["usd_per_million_messages"] == 1.2


def test_options_change_what_they_say() -> None:
    def usd(*options: str) -> float:
        told = json.loads(
            invoke("--messages-per-s", "10", "--door", "url", "--json", *options).output
        )
        return float(told["tidegate"]["usd_a_month"])

    plain = usd()
    for dearer in (
        *(("--own-ms", "50"), ("--dynamodb-ms", "50"), ("--memory", "3538"), ("--arch", "x86_64")),
        *(("--front-ends", "8"), ("--retention-days", "14"), ("--empty-receives", "1")),
        *(("--size", "9000"), ("--size", "4000", "--text-share", "1")),
    ):
        assert usd(*dearer) > plain, dearer
    assert usd("--empty-receives", "1", "--wait", "20") > usd("--empty-receives", "1")
    assert usd("--size", "20000", "--s3-ms", "300") > usd("--size", "20000")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ([], "Missing option '--messages-per-s'."),
        (["--messages-per-s", "many"], "Invalid value for '--messages-per-s': 'many' is not a"),
        (["--messages-per-s", "0"], "messages a second: 0 is not within"),
        (["--messages-per-s", "1", "--door", "back"], "Invalid value for door: 'back' is none of"),
        (["--messages-per-s", "1", "--arch", "mips"], "Invalid value for arch: 'mips' is none of"),
        (["--messages-per-s", "1", "--batch", "11"], "batch: 11 is not within 1 and 10"),
        (["--messages-per-s", "1e6", "--door", "embedded"], "messages a second: 3,000,000 calls"),
        (["--messages-per-s", "1", "--own-ms", "-1"], "own_ms: -1 is not within"),
    ],
)
def test_a_wrong_value_is_one_line(options: list[str], line: str) -> None:
    refused = invoke(*options)
    assert refused.exit_code == 2
    assert refused.output.splitlines()[-1].startswith(f"Error: {line}")
