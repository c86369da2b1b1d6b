"""A backup that ends with 1 is not there, also where its keys could not be written."""

from pathlib import Path

from click.testing import CliRunner

from control_plane.cli.main import tidegate
from data_plane.keys import file
from data_plane.system import SystemEntropy
from tests.unit.control_plane.starting import nothing, play


def test_no_backup_is_left_where_its_keys_cannot_be_written(tmp_path: Path) -> None:
    data, directory, keys = (tmp_path / name for name in ("data", "backup", "keys"))

    file.create(data / "master.keys", SystemEntropy(), 1)
    play(data, nothing)
    command = ["backup", str(directory), "--data", str(data), "--keys", str(keys)]
    keys.write_text("junk")
    keys.chmod(0o600)
    refused = CliRunner().invoke(tidegate, command)
    assert (refused.exit_code, "is no file of master keys" in refused.output) == (1, True)
    assert not list(tmp_path.glob("backup*"))
    keys.unlink()
    assert CliRunner().invoke(tidegate, command).exit_code == 0
    again = ["backup", str(tmp_path / "again"), "--data", str(directory)]
    refused = CliRunner().invoke(tidegate, again)
    assert refused.exit_code == 1
    assert refused.output == f"Error: data: {directory} is a backup: copy it as it is\n"
