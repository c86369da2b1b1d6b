"""With whose credentials, and to which region, commands go."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from control_plane.cli.main import tidegate


class Recorder:
    """Stands in for the making of a client, and for the client."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}

    def __call__(self, endpoint: str, **options: Any) -> "Recorder":
        self.options = {"endpoint": endpoint, **options}
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
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_SHARED_CREDENTIALS_FILE", raising=False)
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
