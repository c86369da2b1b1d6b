"""`tidegate account`, `user` and `key`, against a client that notes what it was asked."""

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from control_plane.cli.main import tidegate

ACCOUNT = "111122223333"
KEY_ID = "AKIAAAAAAAAAAAAAAAAA"


class FakeClient:
    """Answers as a test says; `calls` are the operations and their parameters."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {}
        self.meta = type("Meta", (), {"region_name": "eu-west-1"})

    def __getattr__(self, operation: str) -> Any:
        def call(**params: Any) -> Any:
            self.calls.append((operation.removeprefix("tidegate_"), params))
            answer = self.answers.get(operation, {})
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def get_paginator(self, operation: str) -> Any:
        answers = self.answers[operation]
        calls = self.calls

        class Pages:
            def paginate(self, **params: Any) -> Any:
                calls.append((operation.removeprefix("tidegate_"), params))
                return answers

        return Pages()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeClient:
    fake = FakeClient()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tidegate_sdk.client", lambda *_names, **_options: fake)
    return fake


def invoke(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(tidegate, arguments, input=answer, prog_name="tidegate")


@pytest.mark.parametrize(
    ("command", "question", "operation", "params", "said"),
    [
        (
            ("account", "close", ACCOUNT),
            f"Close account {ACCOUNT} for good?",
            "close_account",
            {"AccountId": ACCOUNT},
            f"Closed {ACCOUNT}.\n",
        ),
        (
            ("user", "delete", "ann"),
            "Delete user ann and its access keys?",
            "delete_user",
            {"UserName": "ann"},
            "Deleted ann.\n",
        ),
        (
            ("key", "revoke", KEY_ID, "--account", ACCOUNT),
            f"Revoke access key {KEY_ID} for good?",
            "revoke_access_key",
            {"AccessKeyId": KEY_ID, "AccountId": ACCOUNT},
            f"Revoked {KEY_ID}.\n",
        ),
    ],
    ids=["account", "user", "key"],
)
def test_what_cannot_be_undone_asks_first(  # noqa: PLR0913, PLR0917 - the parts of a case
    client: FakeClient,
    command: tuple[str, ...],
    question: str,
    operation: str,
    params: dict[str, str],
    said: str,
) -> None:
    refused = invoke(*command, answer="n\n")
    assert refused.exit_code == 1
    assert question in refused.output
    assert client.calls == []
    assert invoke(*command, answer="y\n").stdout.endswith(said)
    assert invoke(*command, "--yes").stdout == said
    assert client.calls == [(operation, params)] * 2


def test_an_account_is_created_with_the_quotas_that_are_given(client: FakeClient) -> None:
    client.answers["tidegate_create_account"] = {"AccountId": ACCOUNT}
    assert invoke("account", "create", "shop").stdout == f"{ACCOUNT}\n"
    given = ("--id", ACCOUNT, "--quota", "long_polls=7", "--quota", "sent_bytes_per_s=9000000")
    assert invoke("account", "create", "shop", *given).exit_code == 0
    assert client.calls == [
        ("create_account", {"Name": "shop"}),
        (
            "create_account",
            {
                "Name": "shop",
                "AccountId": ACCOUNT,
                "Quotas": {"long_polls": 7, "sent_bytes_per_s": 9_000_000},
            },
        ),
    ]


def test_accounts_are_a_table(client: FakeClient) -> None:
    one = {"AccountId": ACCOUNT, "Name": "shop", "CreatedTimestamp": 1}
    two = {**one, "Name": "a bank", "ClosedTimestamp": 60}
    client.answers["tidegate_list_accounts"] = [{"Accounts": [one]}, {"Accounts": [two]}, {}]
    assert invoke("account", "list").stdout == (
        "ID            NAME    CREATED               CLOSED\n"
        "111122223333  shop    1970-01-01T00:00:01Z\n"
        "111122223333  a bank  1970-01-01T00:00:01Z  1970-01-01T00:01:00Z\n"
    )


def test_quotas_that_are_not_named_stay(client: FakeClient) -> None:
    held = {"long_polls": 7, "account_send_per_s": 5}
    client.answers["tidegate_list_accounts"] = [
        {"Accounts": [{"AccountId": ACCOUNT, "Quotas": held}]}
    ]
    client.answers["tidegate_set_quotas"] = {"Quotas": {"account_send_per_s": 9}}
    shown = invoke("account", "quotas", ACCOUNT)
    assert shown.stdout == (
        "QUOTA               NUMBER\n"
        "long_polls               7\n"
        "account_send_per_s       5\n"
    )  # fmt: skip
    assert [operation for operation, _ in client.calls] == ["list_accounts"]
    invoke("account", "quotas", ACCOUNT, "account_send_per_s=9", "long_polls=0")
    assert client.calls[-1] == (
        "set_quotas",
        {"AccountId": ACCOUNT, "Quotas": {"account_send_per_s": 9}},
    )
    missing = invoke("account", "quotas", "444455556666")
    assert (missing.exit_code, missing.stderr) == (
        1,
        "tidegate: There is no account 444455556666.\n",
    )


@pytest.mark.parametrize("quota", ["long_polls", "long_polls=many", "=7", "long_polls=-1"])
def test_a_quota_is_a_name_and_a_number(client: FakeClient, quota: str) -> None:
    for command in (("account", "quotas", ACCOUNT), ("account", "create", "shop", "--quota")):
        refused = invoke(*command, quota)
        assert refused.exit_code == 2
        assert f"{quota!r} is not NAME=NUMBER" in refused.stderr
    assert client.calls == []


def test_a_user_is_created_with_the_policies_of_files(client: FakeClient, tmp_path: Path) -> None:
    client.answers["tidegate_create_user"] = {"UserId": "AIDA"}
    (tmp_path / "policy.json").write_text('{"Statement": "ü"}', encoding="utf-8")
    command = ("user", "create", "ann", "--account", ACCOUNT)
    assert invoke(*command, "--policy", "policy.json").stdout == "AIDA\n"
    assert client.calls == [
        (
            "create_user",
            {"UserName": "ann", "Policies": ['{"Statement": "ü"}'], "AccountId": ACCOUNT},
        )
    ]
    assert "does not exist" in invoke(*command, "--policy", "other.json").stderr
    (tmp_path / "policy.json").write_bytes(b"\xff")
    assert "policy.json: it cannot be read" in invoke(*command, "--policy", "policy.json").stderr
    assert len(client.calls) == 1


def test_a_new_key_is_printed_as_a_credentials_file(client: FakeClient) -> None:
    client.answers["tidegate_create_access_key"] = {
        "AccessKeyId": KEY_ID,
        "SecretAccessKey": "the secret",
    }
    printed = invoke("key", "create", "--user", "ann")
    assert printed.stderr == ""
    assert printed.stdout == (
        f"[default]\naws_access_key_id = {KEY_ID}\n"
        "aws_secret_access_key = the secret\nregion = eu-west-1\n"
    )
    invoke("key", "create", "--service", "sns.amazonaws.com")
    assert client.calls == [
        ("create_access_key", {"UserName": "ann"}),
        ("create_access_key", {"Service": "sns.amazonaws.com"}),
    ]


def test_a_new_key_can_be_written_for_its_owner_alone(client: FakeClient, tmp_path: Path) -> None:
    answer = {"AccessKeyId": KEY_ID, "SecretAccessKey": "the secret"}
    client.answers["tidegate_create_access_key"] = answer
    written = invoke("key", "create", "--file", "ann")
    assert (written.exit_code, written.output) == (0, "")
    assert "aws_secret_access_key = the secret\n" in (tmp_path / "ann").read_text()
    assert (tmp_path / "ann").stat().st_mode & 0o777 == 0o600
    again = invoke("key", "create", "--file", "ann")
    assert (again.exit_code, again.stderr) == (1, "Error: ann: File exists\n")
    assert len(client.calls) == 1, "no key is made that nobody would see"
    error = {"Error": {"Code": "OverLimit", "Message": "There are 2"}}
    client.answers["tidegate_create_access_key"] = ClientError(error, "x")  # type: ignore[arg-type]
    assert invoke("key", "create", "--file", "bob").exit_code == 1
    assert not (tmp_path / "bob").exists()


def test_lists_say_whose_a_key_is(client: FakeClient) -> None:
    key = {"AccessKeyId": KEY_ID, "CreatedTimestamp": 1}
    client.answers["tidegate_list_access_keys"] = [
        {"AccessKeys": [key, {**key, "UserName": "ann"}, {**key, "Service": "s3.amazonaws.com"}]}
    ]
    rows = invoke("key", "list").stdout.splitlines()
    assert [row.split()[1] for row in rows] == ["OF", "(root)", "ann", "s3.amazonaws.com"]
    user = {"UserName": "ann", "UserId": "AIDA", "CreatedTimestamp": 1}
    client.answers["tidegate_list_users"] = [{"Users": [user, {**user, "Policies": ["", ""]}]}]
    rows = invoke("user", "list", "--account", ACCOUNT).stdout.splitlines()
    assert [row.split()[3] for row in rows] == ["POLICIES", "0", "2"]
    assert client.calls[-1] == ("list_users", {"AccountId": ACCOUNT})


def test_a_refusal_is_one_line_that_says_what_to_do(client: FakeClient) -> None:
    def refuse(code: str, message: str) -> Result:
        error = {"Error": {"Code": code, "Message": message}}
        client.answers["tidegate_create_access_key"] = ClientError(error, "x")  # type: ignore[arg-type]
        refused = invoke("key", "create")
        assert refused.exit_code == 1
        assert refused.stdout == ""
        assert refused.stderr.count("\n") == 1
        return refused

    assert refuse("OverLimit", "There are\n2 already").stderr == "tidegate: There are 2 already\n"
    assert "AWS_SHARED_CREDENTIALS_FILE" in refuse("InvalidClientTokenId", "The token").stderr
    wrong = "The request signature we calculated does not match the signature you provided. Check"
    assert "The secret is not that" in refuse("SignatureDoesNotMatch", wrong).stderr
    late = "Signature expired: 20260101T000000Z is now earlier than 20260101T010000Z"
    assert late in refuse("SignatureDoesNotMatch", late).stderr
