"""The root key by variables and files, and what `serve` says of its settings."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from control_plane.cli.main import tidegate
from data_plane.core.root_key import RootKey
from data_plane.settings import ServerSettings

ID = "TIDEGATE_ROOT_ACCESS_KEY_ID"
SECRET = "TIDEGATE_ROOT_SECRET_ACCESS_KEY"


def serve(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(
        tidegate, ["serve", *arguments], env=environment, prog_name="tidegate"
    )


def test_variables_give_the_root_key(started: list[ServerSettings]) -> None:
    assert serve(**{ID: "ci-root", SECRET: "canary-secret"}).exit_code == 0
    assert serve().exit_code == 0
    assert started == [
        ServerSettings(root_key=RootKey("ci-root", "canary-secret")),
        ServerSettings(),
    ]


def test_files_give_it_without_white_space(started: list[ServerSettings], tmp_path: Path) -> None:
    (tmp_path / "id").write_text("ci-root\n")
    (tmp_path / "secret").write_text("canary-secret\n")
    files = {f"{ID}_FILE": str(tmp_path / "id"), f"{SECRET}_FILE": str(tmp_path / "secret")}
    assert serve(**files).exit_code == 0
    assert started == [ServerSettings(root_key=RootKey("ci-root", "canary-secret"))]
    refused = serve(**files, **{SECRET: "another-secret"})
    assert refused.exit_code == 2
    assert "are given: one is enough" in refused.stderr


def test_no_argument_takes_a_secret(started: list[ServerSettings]) -> None:
    refused = serve("--root-secret-access-key", "canary-secret", **{ID: "ci-root"})
    assert refused.exit_code == 2
    assert "No such option" in refused.stderr
    assert "TIDEGATE_ROOT_SECRET_ACCESS_KEY" in serve("--help").output
    assert started == []


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({ID: "ci-root"}, "--root-secret-access-key is missing: say TIDEGATE_ROOT_SECRET"),
        ({SECRET: "canary-secret"}, "--root-access-key-id is missing: say TIDEGATE_ROOT_ACCESS"),
        ({ID: "ci/root", SECRET: "canary-secret"}, "root-access-key-id: it has 3 to 128"),
        ({ID: "ci-root", SECRET: "canary"}, "root-secret-access-key: it has 8 to 128"),
        ({ID: "ci-root", f"{SECRET}_FILE": "/no/such"}, "/no/such: No such file"),
    ],
)
def test_half_a_key_and_a_weak_one_are_refused(
    started: list[ServerSettings], environment: dict[str, str], said: str
) -> None:
    refused = serve(**environment)
    assert (refused.exit_code, started) == (2, [])
    assert said in refused.stderr
    assert "canary" not in refused.output


def test_a_key_is_given_or_made(started: list[ServerSettings]) -> None:
    refused = serve("--new-root-key", **{ID: "ci-root", SECRET: "canary-secret"})
    assert (refused.exit_code, started) == (2, [])
    assert "the root key is given" in refused.stderr


def test_settings_are_shown_with_their_origin(started: list[ServerSettings]) -> None:
    shown = serve(
        *("--show-settings", "--data", "here"),
        **{ID: "ci-root", SECRET: "canary-secret", "TIDEGATE_PORT": "99"},
    )
    assert (shown.exit_code, started) == (0, [])
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert rows[0] == ["SETTING", "VALUE", "FROM"]
    for row in (
        ["port", "99", "TIDEGATE_PORT"],
        ["data", "here", "command", "line"],
        ["host", "127.0.0.1", "default"],
        ["root-access-key-id", "ci-root", ID],
        ["root-secret-access-key", "(given)", SECRET],
        ["sixty-second-rules", "on", "default"],
    ):
        assert row in rows
    assert "canary" not in shown.output


def test_wrong_settings_are_refused_rather_than_shown(started: list[ServerSettings]) -> None:
    refused = serve("--show-settings", "--port", "70000")
    assert (refused.exit_code, refused.stdout, started) == (2, "", [])


def test_the_endpoint_of_the_cell_is_called_as_its_variable(started: list[ServerSettings]) -> None:
    for option in ("--cell-endpoint", "--endpoint"):
        assert serve("--cell", "dynamodb", option, "http://127.0.0.1:4566").exit_code == 0
    environment = {"TIDEGATE_CELL_ENDPOINT": "http://127.0.0.1:4566"}
    assert serve("--cell", "dynamodb", **environment).exit_code == 0
    assert {settings.endpoint for settings in started} == {"http://127.0.0.1:4566"}
