"""`tidegate group` from a shell: groups, their lag, and resets that are shown before."""

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner, Result

import tidegate_sdk
from control_plane.cli.main import tidegate
from tests.integration.server_process import ServerProcess

COLUMNS = 80


class Shell:
    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.kinesis = tidegate_sdk.client(
            server.url,
            "kinesis",
            region_name="us-east-1",
            aws_access_key_id="any",
            aws_secret_access_key="any",
        )

    def run(self, *words: str, typed: str | None = None) -> Result:
        kind, *others = words
        arguments = [kind, "--endpoint", self.server.url, "--region", "us-east-1", *others]
        return CliRunner().invoke(tidegate, arguments, input=typed, env={"COLUMNS": str(COLUMNS)})

    def __call__(self, *words: str, typed: str | None = None) -> str:
        ended = self.run(*words, typed=typed)
        assert ended.exit_code == 0, ended.output
        return ended.stdout

    def put(self, *texts: str, key: str = "ann") -> None:
        self("stream", "put", "clicks", "--key", key, typed="\n".join(texts))

    def commit(self, count: int) -> str:
        """Join, commit so many records of the first shard, and stay: the id of the member."""
        told = self.kinesis.tidegate_group_heartbeat(GroupName="billing", MemberEpoch=0)
        shard = told["Assignment"][0]
        named = {name: shard[name] for name in ("StreamARN", "ShardId")}
        iterator = self.kinesis.get_shard_iterator(**named, ShardIteratorType="TRIM_HORIZON")
        page = self.kinesis.get_records(ShardIterator=iterator["ShardIterator"], Limit=count)
        entry = {
            **named,
            "AssignmentEpoch": shard["AssignmentEpoch"],
            "SequenceNumber": page["Records"][-1]["SequenceNumber"],
        }
        answer = self.kinesis.tidegate_commit_offsets(
            GroupName="billing", MemberId=told["MemberId"], Entries=[entry]
        )
        assert answer["Failed"] == []
        return str(told["MemberId"])

    def leave(self, member: str) -> None:
        self.kinesis.tidegate_group_heartbeat(GroupName="billing", MemberEpoch=-1, MemberId=member)


@pytest.fixture
def shell(server: ServerProcess) -> Shell:
    shell = Shell(server)
    shell("stream", "create", "clicks", "--shards", "2")
    shell.put("one", "two", "three")
    shell.put("four", key="bob")
    created = shell("group", "create", "billing", "clicks", "--from", "trim-horizon")
    assert created.endswith(":group/billing\n")
    return shell


def rows(table: str) -> list[list[str]]:
    """The cells of a table, without its title."""
    return [re.split(r"  +", line.strip()) for line in table.splitlines()[1:]]


def test_groups_are_listed_described_and_deleted(shell: Shell) -> None:
    assert rows(shell("group", "list")) == [["billing", "Empty", "0", "clicks"]]
    member = shell.commit(2)
    assert json.loads(shell("group", "list", "--json")) == [
        {"name": "billing", "state": "Stable", "members": 1, "streams": ["clicks"]}
    ]
    attributes, members, shards = shell("group", "describe", "billing").split("\n\n")
    assert "SessionTimeoutSeconds    10" in attributes
    assert re.search(r"(?m)^GroupCreationTimestamp   \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", attributes)
    assert rows(members) == [[member, "-", "2"]]
    assert rows(shards) == [
        ["clicks", "0", member, "2", "1"],
        ["clicks", "1", member, "-", "1"],
    ]
    told: dict[str, Any] = json.loads(shell("group", "describe", "billing", "--json"))
    assert (told["State"], len(told["Shards"])) == ("Stable", 2)
    refused = shell.run("group", "delete", "billing", "--yes")
    assert (refused.exit_code, refused.stderr) == (
        1,
        "tidegate: Group billing under account 000000000000 has members. Stop them first.\n",
    )
    shell.leave(member)
    assert shell.run("group", "delete", "billing", typed="n\n").exit_code == 1
    assert shell("group", "delete", "billing", "--yes") == "Deleted billing.\n"
    assert json.loads(shell("group", "list", "--json")) == []


@pytest.mark.parametrize("command", ["describe billing", "lag billing", "lag"])
def test_a_stream_that_is_gone_is_told(shell: Shell, command: str) -> None:
    words = command.split()
    assert shell.run("group", *words).stderr == ""
    shell("stream", "delete", "clicks", "--yes")
    told = "There is nothing to read of stream clicks: was it deleted?\n"
    assert shell.run("group", *words).stderr == told


def test_a_group_whose_streams_are_gone_is_not_reset(shell: Shell) -> None:
    shell("stream", "delete", "clicks", "--yes")
    answer = shell.run("group", "reset", "billing", "--to", "trim-horizon", "--yes")
    told = "tidegate: group billing has nothing to read: were its streams deleted?\n"
    assert (answer.exit_code, answer.stdout, answer.stderr) == (1, "", told)


def test_a_queue_tells_which_stream_it_reads(shell: Shell) -> None:
    arn = "arn:aws:kinesis:us-east-1:000000000000:stream/clicks"
    shell("queue", "create", "work", "--attribute", f"TidegateStreamArn={arn}")
    told = json.loads(shell("queue", "attributes", "work", "--json"))
    assert (told["TidegateStreamArn"], told["TidegateStartingPosition"]) == (arn, "LATEST")


def test_lag_is_shown_by_shards_and_by_groups(shell: Shell) -> None:
    shell.leave(shell.commit(2))
    assert [row[:4] for row in rows(shell("group", "lag", "billing"))] == [
        ["clicks", "0", "-", "1"],
        ["clicks", "1", "-", "1"],
    ]
    told = json.loads(shell("group", "lag", "billing", "--json"))[1]
    assert told.pop("behind_s") > 0
    assert told == {"stream": "clicks", "shard": 1, "owner": None, "unread": 1}
    shell("group", "create", "audit", "clicks")
    assert rows(shell("group", "lag"))[0] == ["audit", "clicks", "0", "0.0"]
    [_, told] = json.loads(shell("group", "lag", "--json"))
    assert told.pop("behind_s") > 0
    assert told == {"group": "billing", "stream": "clicks", "unread": 2}


def test_a_reset_is_shown_before_it_is_done(shell: Shell) -> None:
    shell.leave(shell.commit(2))
    reset = ("group", "reset", "billing", "--to", "trim-horizon")
    shown = shell(*reset, "--dry-run")
    *table, said = shown.splitlines()
    assert [row[:6] for row in rows("\n".join(table))] == [
        ["clicks", "0", "2", "-", "1", "3"],
        ["clicks", "1", "-", "-", "1", "1"],
    ]
    assert said == "It would read 2 records again, and skip 0 records."
    kept = shell.run(*reset, typed="n\n")
    assert (kept.exit_code, "Reset group billing?" in kept.stdout) == (1, True)
    assert rows(shell("group", "lag", "billing"))[0][3] == "1"
    assert shell(*reset, typed="y\n").endswith("Reset billing.\n")
    assert rows(shell("group", "lag", "billing"))[0][3] == "3"
    skipped = shell("group", "reset", "billing", "--to", "latest", "--shard", "0", "--yes")
    assert "and skip 3 records." in skipped
    assert [row[3] for row in rows(shell("group", "lag", "billing"))] == ["0", "1"]


def test_a_reset_to_a_record_is_one_of_its_shard(shell: Shell) -> None:
    lines = shell("stream", "get", "clicks", "--json").splitlines()
    second = json.loads(lines[1])["SequenceNumber"]
    reset = ("group", "reset", "billing", "--to", second)
    [told] = json.loads(shell(*reset, "--yes", "--json"))
    assert (told["shard"], told["done"], told["done_then"]) == (0, None, 1)
    assert (told["unread"], told["unread_then"]) == (3, 2)
    shell("stream", "create", "other")
    shell("group", "create", "both", "clicks", "other")
    unclear = shell.run("group", "reset", "both", "--to", second, "--yes")
    assert (unclear.exit_code, unclear.stderr) == (
        1,
        "tidegate: group both reads clicks, other: say which one by --stream\n",
    )
    shell("group", "reset", "both", "--to", second, "--stream", "clicks", "--yes")


def test_what_is_wrong_is_said(shell: Shell) -> None:
    member = shell.commit(1)
    wrong = {
        ("reset", "billing", "--to", "latest"): 1,
        ("reset", "billing", "--to", "latest", "--dry-run"): 1,
        ("reset", "none", "--to", "latest"): 1,
        ("reset", "billing", "--to", "latest", "--shard", "7"): 1,
        ("reset", "billing", "--to", "latest", "--shard", "0", "--stream", "x"): 1,
        ("reset", "billing", "--to", "soon"): 2,
        ("reset", "billing"): 2,
        ("reset", "billing", "--to", "latest", "--json"): 2,
        ("reset", "billing", "--to", "latest", "--stream", "clicks"): 2,
        ("create", "billing", "clicks"): 1,
        ("create", "more", "none"): 1,
        ("create", "more", "clicks", "--from", "2" * 56): 2,
        ("describe", "none"): 1,
        ("lag", "none"): 1,
        ("delete", "none"): 1,
    }
    for words, code in wrong.items():
        ended = shell.run("group", *words)
        assert (words, ended.exit_code, ended.stdout) == (words, code, "")
        assert "Traceback" not in ended.stderr
        assert ended.stderr.count("\n") == 1 or code == 2
    shell.leave(member)
