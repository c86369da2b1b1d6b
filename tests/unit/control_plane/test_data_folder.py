"""The data directory before anything in it is opened, as users who are not root see it."""

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import pytest

from control_plane.cells import StartError
from control_plane.data_folder import prepare_folders
from data_plane.settings import ServerSettings

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, as root may")


def outcome(settings: ServerSettings) -> str:
    """The refusal, or what was changed."""
    before = os.umask(0o022)
    try:
        return "; ".join(prepare_folders(settings))
    except StartError as error:
        return str(error)
    finally:
        os.umask(before)


def outcome_as_nobody(data: Path) -> str:
    """As `outcome`, in a process of another user."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os.write(writer, outcome(ServerSettings(data=data)).encode() or b"ready")
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as told:
        return told.read()


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user reaches, as pytest's own are not."""
    folder = Path(mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@needs_root
def test_a_directory_that_may_not_be_written(public: Path) -> None:
    data = public / "data"
    data.mkdir()
    os.chown(data, NOBODY, NOBODY)
    data.chmod(0o555)
    assert outcome_as_nobody(data) == (f"data: cannot write to {data} (mode 555): chmod 700 {data}")


@needs_root
def test_a_directory_of_somebody_else(public: Path) -> None:
    assert outcome_as_nobody(public) == (
        f"data: {public} belongs to user 0 (mode 755), and this server runs as user {NOBODY}:"
        " chown it, or name another directory with --data"
    )
    missing = public / "data"
    assert outcome_as_nobody(missing) == f"data: cannot use {missing}: Permission denied"


def test_a_cell_elsewhere_needs_no_directory(tmp_path: Path) -> None:
    assert not outcome(ServerSettings(data=tmp_path / "data", cell="dynamodb"))
    assert not (tmp_path / "data").exists()


def test_others_lose_what_they_could_do(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o750)
    (data / "data.mdb").write_bytes(b"x")
    (data / "data.mdb").chmod(0o640)
    said = outcome(ServerSettings(data=data))
    assert said == (
        f"others could use {data} (mode 750): now mode 700;"
        f" others could use {data / 'data.mdb'} (mode 640): now mode 600"
    )
    assert [stat.S_IMODE(path.stat().st_mode) for path in (data, data / "data.mdb")] == [
        0o700,
        0o600,
    ]
    assert not outcome(ServerSettings(data=data))


def test_a_directory_that_is_everybodys_stays_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    said = outcome(ServerSettings(data=tmp_path))
    assert said == f"others may use {tmp_path} (mode 1777), which is not this server's own"
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


@pytest.mark.parametrize("left", ["master.keys", "credentials", "usage"])
def test_a_missing_store_beside_what_is_left_of_it(tmp_path: Path, left: str) -> None:
    settings = ServerSettings(data=tmp_path)
    (tmp_path / "lock").touch(mode=0o600)
    assert not outcome(settings)
    if left == "usage":
        (tmp_path / "usage").mkdir()
        assert not outcome(settings)
        (tmp_path / "usage" / "records").touch()
    else:
        (tmp_path / left).touch()
    for said in (outcome(settings), outcome(replace(settings, cells=3))):
        assert said.startswith(f"data: {tmp_path} has {left}, but no data.mdb")
        assert said.endswith("--begin-anew")
    assert not outcome(replace(settings, begin_anew=True))
    assert not outcome(replace(settings, cell="dynamodb"))
    (tmp_path / "cell-2").mkdir(exist_ok=True)
    (tmp_path / "cell-2" / "data.mdb").write_bytes(b"x")
    assert "but no data.mdb" not in outcome(replace(settings, cells=3))
    (tmp_path / "cell-1").write_text("a disk that is not there")
    assert "cell-1" not in outcome(replace(settings, cells=3))


def test_a_directory_with_files_of_somebody_else_stays_as_it_is(tmp_path: Path) -> None:
    data = tmp_path / "www"
    data.mkdir()
    data.chmod(0o755)
    (data / "index.html").write_text("hello")
    said = outcome(ServerSettings(data=data))
    assert said.startswith(f"{data} has files that are no service's (index.html)")
    assert stat.S_IMODE(data.stat().st_mode) == 0o755
    (data / "data.mdb").write_bytes(b"")
    assert f"others could use {data} (mode 755): now mode 700" in outcome(
        ServerSettings(data=data, begin_anew=True)
    )


def test_no_store_begins_in_the_data_directory_of_another_service(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_text("{}")
    (tmp_path / "dta").mkdir()
    settings = ServerSettings(data=tmp_path / "dta")
    assert outcome(settings) == (
        f"data: {tmp_path}/dta has no store, and {tmp_path} is a service's: name that with --data,"
        " or begin with an empty store: --begin-anew"
    )
    assert "no store" not in outcome(replace(settings, begin_anew=True))
    (tmp_path / "dta/data.mdb").write_text("{}")
    assert "no store" not in outcome(settings)
