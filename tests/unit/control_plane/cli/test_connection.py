"""With whose credentials, and to which region, commands go."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from control_plane.cli.connection import ConnectedGroup
from control_plane.cli.main import COMMANDS, tidegate


class Recorder:
    """Stands in for the making of a client, and for the client."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}

    def __call__(self, endpoint: str, service: str, **options: Any) -> "Recorder":
        self.options = {"endpoint": endpoint, "service": service, **options}
        return self

    def create_queue(self, **_params: Any) -> dict[str, str]:
        return {"QueueUrl": ""}

    @property
    def who(self) -> tuple[str, str, str]:
        names = ("aws_access_key_id", "aws_secret_access_key", "region_name")
        return tuple(self.options[name] for name in names)


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recorder:
    made = Recorder()
    monkeypatch.chdir(tmp_path)
    for name in ("REGION", "DEFAULT_REGION", "PROFILE", "SHARED_CREDENTIALS_FILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setattr("tidegate_sdk.client", made)
    return made


def create(*options: str, **environment: str) -> Result:
    arguments = ["queue", *options, "create", "orders"]
    return CliRunner().invoke(tidegate, arguments, env=environment, prog_name="tidegate")


def write(path: Path, access_key_id: str, profile: str = "default", region: str = "") -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"[{profile}]\naws_access_key_id = {access_key_id}\n")
        file.write(f"aws_secret_access_key = secret of {access_key_id}\n")
        if region:
            file.write(f"region = {region}\n")


def test_without_a_file_any_credentials_do(connected: Recorder) -> None:
    assert create().exit_code == 0
    assert connected.who == ("tidegate", "tidegate", "us-east-1")


def test_the_file_of_the_server_is_taken_from_its_data_folder(
    connected: Recorder, tmp_path: Path
) -> None:
    write(tmp_path / "data" / "credentials", "ROOT", region="eu-west-1")
    create()
    assert connected.who == ("ROOT", "secret of ROOT", "eu-west-1")
    write(tmp_path / "elsewhere" / "credentials", "OTHER")
    create("--data", "elsewhere")
    assert connected.who == ("OTHER", "secret of OTHER", "us-east-1")
    create(TIDEGATE_DATA="elsewhere", AWS_REGION="us-west-2")
    assert connected.who == ("OTHER", "secret of OTHER", "us-west-2")


@pytest.mark.parametrize(
    "arguments",
    [
        ["queue", "--endpoint", "http://h:1", "--region", "eu-west-1", "create", "orders"],
        ["queue", "create", "--endpoint", "http://h:1", "orders", "--region", "eu-west-1"],
        ["queue", "create", "orders", "--region=eu-west-1", "--endpoint=http://h:1"],
        ["queue", "--region=eu-west-1", "create", "--endpoint", "http://h:1", "--", "orders"],
    ],
    ids=" ".join,
)
def test_options_may_stand_before_the_command_or_behind_it(
    connected: Recorder, arguments: list[str]
) -> None:
    ended = CliRunner().invoke(tidegate, arguments, prog_name="tidegate")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert connected.options["endpoint"] == "http://h:1"
    assert connected.options["region_name"] == "eu-west-1"


def test_commands_of_streams_speak_kinesis(connected: Recorder) -> None:
    assert create().exit_code == 0
    assert connected.options["service"] == "sqs"
    CliRunner().invoke(tidegate, ["stream", "list"], prog_name="tidegate")
    assert connected.options["service"] == "kinesis"


def test_an_option_without_its_value_is_named(connected: Recorder) -> None:
    ended = CliRunner().invoke(tidegate, ["queue", "create", "orders", "--endpoint"])
    assert ended.exit_code == 2
    assert "Option '--endpoint' requires an argument." in ended.stderr
    assert connected.options == {}


def test_no_command_has_an_option_of_the_connection() -> None:
    loaded = [tidegate.get_command(click.Context(tidegate), name) for name in COMMANDS]
    groups = [group for group in loaded if isinstance(group, ConnectedGroup)]
    assert [group.name for group in groups] == [
        *("account", "budget", "cells", "group", "key", "queue", "stream", "user")
    ]
    for group in groups:
        own = {name for parameter in group.params for name in parameter.opts}
        for command in group.commands.values():
            assert own.isdisjoint(name for option in command.params for name in option.opts)
            assert f"`tidegate {group.name} --help`" in (command.epilog or "")


def test_options_go_over_variables_over_the_file(connected: Recorder, tmp_path: Path) -> None:
    write(tmp_path / "data" / "credentials", "ROOT", region="eu-west-1")
    write(tmp_path / "named", "NAMED")
    write(tmp_path / "named", "ANN", profile="ann")
    create(AWS_SHARED_CREDENTIALS_FILE="named")
    assert connected.who == ("NAMED", "secret of NAMED", "us-east-1")
    create("--profile", "ann", "--region", "us-west-1", AWS_SHARED_CREDENTIALS_FILE="named")
    assert connected.who == ("ANN", "secret of ANN", "us-west-1")
    create(AWS_ACCESS_KEY_ID="ENV", AWS_SECRET_ACCESS_KEY="env")
    assert connected.who == ("ENV", "env", "us-east-1")
    create("--access-key-id", "111122223333", AWS_SHARED_CREDENTIALS_FILE="named")
    assert connected.who == ("111122223333", "tidegate", "us-east-1")
    exported = {"AWS_ACCESS_KEY_ID": "ENV", "AWS_SHARED_CREDENTIALS_FILE": "named"}
    create("--data", "data", AWS_SECRET_ACCESS_KEY="env", **exported)
    assert connected.who == ("ROOT", "secret of ROOT", "eu-west-1"), "whose directory was named"
    create("--credentials", "named", AWS_ACCESS_KEY_ID="ENV", AWS_SECRET_ACCESS_KEY="env")
    assert connected.who == ("NAMED", "secret of NAMED", "us-east-1"), "whose file was named"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "credentials: No such file or directory"),
        (b"", "credentials: it has no credentials [default]"),
        (b"[default]\naws_access_key_id = A\n", "credentials: it has no credentials [default]"),
        (b"my-secret", "credentials: it has no credentials [default]"),
        (b"\xff", "credentials: it has no credentials [default]"),
    ],
    ids=["absent", "empty", "half", "no section", "no text"],
)
def test_a_file_that_does_not_serve_is_named_and_not_quoted(
    connected: Recorder, tmp_path: Path, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "credentials").write_bytes(content)
    refused = create("--credentials", "credentials")
    assert refused.exit_code == 1
    assert said in refused.stderr
    assert "my-secret" not in refused.stderr
    assert connected.options == {}


def test_commands_beside_a_server_know_the_root_key_that_it_was_given(
    connected: Recorder, tmp_path: Path
) -> None:
    given = {
        "TIDEGATE_ROOT_ACCESS_KEY_ID": "ci-root",
        "TIDEGATE_ROOT_SECRET_ACCESS_KEY": "canary-secret",
    }
    assert create(**given).exit_code == 0
    assert connected.who == ("ci-root", "canary-secret", "us-east-1")
    (tmp_path / "secret").write_text("of-a-file\n")
    (tmp_path / "id").write_text("id-of-a-file\n")
    files = {
        "TIDEGATE_ROOT_ACCESS_KEY_ID_FILE": str(tmp_path / "id"),
        "TIDEGATE_ROOT_SECRET_ACCESS_KEY_FILE": str(tmp_path / "secret"),
    }
    assert create(**files).exit_code == 0
    assert connected.who == ("id-of-a-file", "of-a-file", "us-east-1")
    own = {"AWS_ACCESS_KEY_ID": "own", "AWS_SECRET_ACCESS_KEY": "own-secret"}
    assert create(**given, **own).exit_code == 0
    assert connected.who == ("own", "own-secret", "us-east-1")


def test_no_argument_takes_a_secret(connected: Recorder) -> None:
    refused = create("--secret-access-key", "canary")
    assert refused.exit_code == 2
    assert "No such option" in refused.stderr
    assert connected.options == {}
