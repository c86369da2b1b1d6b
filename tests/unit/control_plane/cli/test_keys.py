from pathlib import Path

from click.testing import CliRunner, Result

from control_plane.cli.main import tidegate
from data_plane.keys import file
from data_plane.system import SystemEntropy


def rotate(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(tidegate, ["keys", "rotate", *arguments], env=environment)


def test_rotate_adds_a_key_to_the_file_of_a_data_directory(tmp_path: Path) -> None:
    path = tmp_path / "master.keys"
    file.create(path, SystemEntropy(), 0)
    first = rotate("--data", str(tmp_path))
    second = rotate(TIDEGATE_MASTER_KEYS=str(path))
    assert (first.exit_code, second.exit_code) == (0, 0)
    text = path.read_text()
    added = [result.output.split()[2] for result in (first, second)]
    assert text.index(added[0]) < text.index(added[1])
    assert text.count('"made"') == 3


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    result = rotate("--data", str(tmp_path))
    assert result.exit_code == 1
    assert (
        result.output
        == f"tidegate: master-keys: {tmp_path}/master.keys: No such file or directory\n"
    )
    assert list(tmp_path.iterdir()) == []
