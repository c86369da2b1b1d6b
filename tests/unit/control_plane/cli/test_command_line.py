import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from control_plane.cli import start
from control_plane.cli.main import COMMANDS, SETTINGS, main, tidegate
from data_plane import VERSION
from data_plane.settings import ServerSettings


def invoke(*arguments: str, answer: str = "", **environment: str) -> Result:
    return CliRunner().invoke(
        tidegate, arguments, input=answer, env=environment, prog_name="tidegate"
    )


def commands(command: click.Command, path: str = "tidegate") -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, f"{path} {name}")


ALL_COMMANDS = dict(commands(tidegate))


def test_version() -> None:
    assert invoke("--version").output == f"tidegate, version {VERSION}\n"


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_what_no_command_is_needed_for_loads_none(arguments: list[str]) -> None:
    program = (
        "import sys; from control_plane.cli.main import tidegate\n"
        f"tidegate({arguments}, standalone_mode=False)\n"
        "print(len({'boto3', 'granian', 'control_plane.server', 'asyncio'} & sys.modules.keys()))"
    )
    ran = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "0"


def test_help_names_every_command_and_an_unknown_one_is_refused() -> None:
    said = invoke("--help").output
    assert all(f"  {name} " in said for name in COMMANDS)
    assert "No such command 'drink'" in invoke("drink").output


@pytest.mark.parametrize("path", ALL_COMMANDS)
def test_help_explains_every_option(path: str) -> None:
    command = ALL_COMMANDS[path]
    assert command.help or command.callback is None
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{path} {parameter.opts} is not explained"
    assert invoke(*path.split()[1:], "--help").exit_code == 0


@pytest.mark.parametrize(
    "path", [path for path, command in ALL_COMMANDS.items() if isinstance(command, click.Group)]
)
def test_what_commands_are_for_has_room_in_a_line(path: str) -> None:
    command = ALL_COMMANDS[path]
    assert isinstance(command, click.Group)
    context = click.Context(command, terminal_width=80)
    formatter = context.make_formatter()
    command.format_commands(context, formatter)
    lines = formatter.getvalue().splitlines()
    assert [line for line in lines if line.endswith("...")] == []


def test_help_of_serve_shows_defaults_and_variables() -> None:
    text = " ".join(invoke("serve", "--help").output.split())
    for expected in (
        "TIDEGATE_PORT; default: 9324",
        "TIDEGATE_HOST; default: 127.0.0.1",
        "TIDEGATE_DATA; default: data",
        "TIDEGATE_AUTH; default: on",
        "TIDEGATE_LOG_LEVEL; default: info",
        "TIDEGATE_CELL; default: embedded",
        "TIDEGATE_CELL_ENDPOINT; default: (AWS's, in the region)",
        "TIDEGATE_TABLE; default: tidegate",
    ):
        assert expected in text
    assert SETTINGS["show_default"] is True


def test_serve_passes_on_what_is_said_of_the_cell(started: list[ServerSettings]) -> None:
    endpoint = "http://127.0.0.1:4566"
    result = invoke(
        "serve", "--cell", "dynamodb", "--endpoint", endpoint, "--table", "messages",
        "--connections", "9", "--cell-deadline", "2.5",
    )  # fmt: skip
    assert result.exit_code == 0
    assert started == [
        ServerSettings(
            cell="dynamodb",
            endpoint=endpoint,
            table="messages",
            connections=9,
            cell_deadline_s=2.5,
        )
    ]


def test_serve_passes_on_what_is_said_of_queues(started: list[ServerSettings]) -> None:
    assert invoke("serve", "--auto-create-queues", "--queues", "queues.toml").exit_code == 0
    assert invoke("serve", TIDEGATE_AUTO_CREATE_QUEUES="1", TIDEGATE_QUEUES="q").exit_code == 0
    assert started == [
        ServerSettings(auto_create_queues=True, queues_file=Path("queues.toml")),
        ServerSettings(auto_create_queues=True, queues_file=Path("q")),
    ]
    assert ServerSettings().auto_create_queues is False


def test_serve_passes_on_how_strict_streams_are(started: list[ServerSettings]) -> None:
    assert invoke("serve", "--strict-streams", "2.5").exit_code == 0
    assert invoke("serve", TIDEGATE_STRICT_STREAMS="0").exit_code == 0
    assert [settings.strict_streams_s for settings in started] == [2.5, 0]
    assert ServerSettings().strict_streams_s is None


def test_serve_takes_options_over_variables_over_defaults(started: list[ServerSettings]) -> None:
    result = invoke(
        "serve", "--port", "1234", "--no-sixty-second-rules",
        TIDEGATE_PORT="99", TIDEGATE_DATA="elsewhere",
    )  # fmt: skip
    assert result.exit_code == 0
    assert started == [ServerSettings(port=1234, data=Path("elsewhere"), sixty_second_rules=False)]


@pytest.mark.parametrize(
    ("option", "value", "line"),
    [
        ("--auth", "yes", "tidegate: auth: 'yes' is neither 'on' nor 'off'\n"),
        ("--cell", "x", "tidegate: cell: 'x' is none of embedded, dynamodb\n"),
        ("--account", "12", "tidegate: account: '12' is not an account id of 12 digits\n"),
        (
            "--host",
            "192.0.2.1",
            "tidegate: host: without authentication only loopback addresses serve, not 192.0.2.1\n",
        ),
    ],
)
def test_a_wrong_value_ends_with_one_line(
    started: list[ServerSettings], option: str, value: str, line: str
) -> None:
    result = invoke("serve", option, value, TIDEGATE_AUTH="off")
    assert (result.exit_code, result.stderr, result.stdout) == (2, line, "")
    assert started == []


@pytest.mark.parametrize(
    "arguments", [("serve", "--port", "many"), ("serve", "--what"), ("drink",), ("queue", "create")]
)
def test_misuse_ends_with_one_line(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["tidegate", *arguments])
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("tidegate: ")
    assert said.err.count("\n") == 1


class FakeClient:
    """Stands in for a boto3 client where no server is needed."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    def get_queue_attributes(self, **_names: str) -> None:
        """It is there."""

    def delete_queue(self, **names: str) -> None:
        self.deleted.append(names["QueueUrl"])


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake = FakeClient()

    def connect(*_names: Any, **_options: Any) -> FakeClient:
        return fake

    monkeypatch.setattr("tidegate_sdk.client", connect)
    return fake


def test_delete_asks_first(client: FakeClient) -> None:
    refused = invoke("queue", "delete", "orders", answer="n\n")
    assert refused.exit_code == 1
    assert "Delete queue orders and all messages in it?" in refused.output
    assert client.deleted == []
    assert invoke("queue", "delete", "orders", answer="y\n").exit_code == 0
    assert client.deleted == ["orders"]


def test_a_question_that_nobody_answers_tells_of_an_option(client: FakeClient) -> None:
    ended = invoke("queue", "delete", "orders")
    assert (ended.exit_code, client.deleted) == (1, [])
    assert ended.stdout == "Delete queue orders and all messages in it? [y/N]: \n"
    assert ended.stderr == "Error: nobody answered, so nothing was done; see --yes\n"


def test_delete_does_not_ask_when_told_so(client: FakeClient) -> None:
    assert invoke("queue", "delete", "orders", "--yes").output == "Deleted orders.\n"
    assert len(client.deleted) == 1


def test_create_refuses_an_attribute_without_value() -> None:
    result = invoke("queue", "create", "orders", "--attribute", "DelaySeconds")
    assert result.exit_code == 2
    assert "'DelaySeconds' is not NAME=VALUE" in result.stderr


class _Interrupted(ModuleType):
    def __getattr__(self, name: str) -> object:
        raise KeyboardInterrupt


def test_ctrl_c_while_commands_are_loaded_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "control_plane.cli.main", _Interrupted("main"))
    with pytest.raises(SystemExit) as ended:
        start.main()
    assert ended.value.code == 130
