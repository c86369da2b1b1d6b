from pathlib import Path

import pytest

from tests.drills.disk import DiskError, remove_leftovers, run, work_folder

NO_PROCESS = 99_999_999


def test_what_a_killed_drill_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    left = tmp_path / f"drill-{NO_PROCESS}-abc"
    (left / "mounted").mkdir(parents=True)
    running = work_folder(tmp_path)
    evidence = tmp_path / "drill-evidence-kill-1.txt"
    evidence.touch()
    remove_leftovers(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([running, evidence])


def test_a_command_that_fails_says_why_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match=r"^ls ended with 2: .*missing.*$"):
        run("ls", tmp_path / "missing")
    with pytest.raises(DiskError, match="no-such-command: No such file"):
        run("no-such-command")


def test_a_command_answers_what_it_printed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert run("ls", tmp_path) == "file\n"
