"""Each fault that is planted is named, with what helps."""

import asyncio
import errno
import json
import os
import resource
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from control_plane import doctor
from control_plane.cli.main import tidegate
from control_plane.doctor import Finding, examine, kind_of
from control_plane.registry_secret import read_or_make
from data_plane.core.cell_clock import CellClock
from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.encoding import FORMAT_KEY
from data_plane.embedded.store import Store, StoreSizes
from data_plane.keys import file
from data_plane.keys.file import KeyFile
from data_plane.ports import Key
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy, running_us
from tests.integration.certificates import make_certificates
from tests.ports import free_port
from tests.unit.control_plane.starting import nothing, play

Plant = Callable[[Path, pytest.MonkeyPatch], dict[str, Any]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory in which nothing is wrong."""
    made = tmp_path / "data"
    made.mkdir(mode=0o700)
    write(made, Hours(0))
    file.create(tmp_path / "master.keys", SystemEntropy(), 1)
    return made


class Later:
    """The machine's clock, some days later."""

    def __init__(self, days: int) -> None:
        self.days = days

    def now_us(self) -> int:
        return SystemClock().now_us() + self.days * 86_400_000_000


def examined(folder: Path, *, days_later: int = 0, **changes: Any) -> list[Finding]:
    given: dict[str, Any] = {"data": folder, "port": free_port()}
    given["master_keys"] = folder.parent / "master.keys"
    return list(examine(ServerSettings(**(given | changes)), Later(days_later)))


def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk of which nothing bad is known, whatever the tests run on."""
    monkeypatch.setattr(doctor, "kind_of", lambda _path: "ext4")
    monkeypatch.setattr(doctor, "FREE_BYTES_MIN", 0)
    monkeypatch.setattr(doctor, "_synced_s", lambda _path: 0.001)
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1024, 20_000))


def test_where_nothing_is_wrong_nothing_is_said(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy(monkeypatch)
    assert [(one.check, one.said) for one in examined(data) if one.state != "ok"] == []


def no_directory(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    (data.parent / "file").touch()
    return {"data": data.parent / "file"}


def open_directory(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    data.chmod(0o755)
    return {}


def of_somebody_else(_data: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    user = os.geteuid()
    patch.setattr(os, "geteuid", lambda: user + 1)
    return {}


def not_writable(_data: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    patch.setattr(doctor, "why_unusable", lambda _path: "")
    return {"data": Path("/proc/tidegate")}


def kind(name: str) -> Plant:
    def plant(_data: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
        patch.setattr(doctor, "kind_of", lambda _path: name)
        return {}

    return plant


def full(_data: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    patch.setattr(doctor, "FREE_BYTES_MIN", 1 << 80)
    return {}


def slow(_data: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    patch.setattr(doctor, "_synced_s", lambda _path: 0.2)
    return {}


def read_only(_data: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    def refuse(path: Path, **_: object) -> float:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    patch.setattr(doctor, "_synced_s", refuse)
    patch.setattr(Path, "unlink", refuse)
    return {}


def damaged(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    (data / "data.mdb").write_bytes(b"no store")
    return {}


def zeroed_pages(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    with (data / "data.mdb").open("r+b") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(8192)
        file.write(bytes(size_bytes - 8192))
    return {}


def of_another_format(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    opened = Store(data, StoreSizes())
    transaction, _room = opened.begin()
    transaction.put(FORMAT_KEY, b"tidegate cell 3")
    transaction.commit()
    opened.close()
    return {}


def in_use(data: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    patch.setattr(doctor, "_held", Store(data, StoreSizes()), raising=False)
    return {}


def backup(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    (data / "data.mdb").rename(data / "local.cell")
    (data / "manifest.json").write_text("{}")
    return {}


def lost_store(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    (data / "data.mdb").unlink()
    (data / "credentials").touch()
    return {}


def several(data: Path, *lost: str) -> None:
    shutil.rmtree(data)
    play(data, nothing)
    for name in lost:
        shutil.rmtree(data / name)


def uncounted(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    several(data)
    return {}


def counted(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    several(data, "cell-2")
    return {"cells": 1, "data": data / "cell-1"}


def lost_cells(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    several(data, "cell-1", "cell-2", "cell-3")
    return {"cells": 3}


def no_new_cell(data: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    (data / "data.mdb").unlink()
    for name in ("cell-1", "cell-9"):
        (data / name).mkdir()
        damaged(data / name, patch)
    return {"cells": 2}


def most_lost(data: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    several(data)
    for name in ("cell-1", "cell-3"):
        damaged(data / name, patch)
    return {"cells": 3}


def nobody_there(_data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    return {"cell": "dynamodb", "endpoint": f"http://127.0.0.1:{free_port()}"}


def lost_keys(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    (data.parent / "master.keys").unlink()
    return {}


def lost_keys_of_several(data: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    several(data)
    return {"cells": 3, **lost_keys(data, patch)}


def open_keys(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    (data.parent / "master.keys").chmod(0o644)
    return {}


def keys_beside(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    file.create(data / "master.keys", SystemEntropy(), 1)
    return {"master_keys": None}


def no_keys(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    (data.parent / "master.keys").write_text("junk")
    return {}


def other_keys(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    path = data.parent / "other.keys"
    file.create(path, SystemEntropy(), 1)

    async def seal() -> None:
        cell = EmbeddedCell(data.parent / "sealed", SystemClock())
        own = KeyFile(data.parent / "master.keys", SystemEntropy())
        await read_or_make(cell, own, SystemClock(), SystemEntropy())
        await cell.close()

    asyncio.run(seal())
    return {"master_keys": path, "data": data.parent / "sealed"}


def wrong_file(setting: str, name: str = "junk") -> Plant:
    def plant(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
        junk = data.parent / name
        junk.write_text("junk")
        junk.chmod(0o600)
        return {setting: str(junk) if setting in {"usage", "metadata_cache_tls"} else junk}

    return plant


def wrong_authority(data: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    return {"metadata_cache": "localhost", **wrong_file("metadata_cache_tls")(data, patch)}


def wrong_queue(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    path = data.parent / "queues.toml"
    path.write_text("[queues.orders]\nDelaySeconds = 901\n")
    return {"queues_file": path}


def wrong_credentials(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    (data / "credentials").write_text("junk")
    (data / "credentials").chmod(0o600)
    return {}


def link_to_nothing(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    (data.parent / "link").symlink_to(data.parent / "nothing")
    return {"data": data.parent / "link"}


def no_such_host(_data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    return {"host": "203.0.113.9"}


def few_files(_data: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    patch.setattr(resource, "getrlimit", lambda _which: (256, 1024))
    return {}


def in_clear(_data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    return {"host": "0.0.0.0"}  # noqa: S104 - that is the fault


def wrong_certificate(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    one, two = (make_certificates(data.parent / name) for name in ("one", "two"))
    return {"tls_certificate": one.certificate, "tls_key": two.key}


def old_certificate(data: Path, _patch: pytest.MonkeyPatch) -> dict[str, Any]:
    made = make_certificates(data.parent / "made")
    return {"tls_certificate": made.certificate, "tls_key": made.key, "days_later": 10_000}


def early_certificate(data: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    return {**old_certificate(data, patch), "days_later": -10}


@pytest.mark.parametrize(
    ("plant", "check", "state", "said", "remedy"),
    [
        (no_directory, "directory", "error", "is no directory", "--data"),
        (of_somebody_else, "directory", "error", "belongs to user", "chown"),
        (open_directory, "directory", "warning", "(mode 755)", "chmod 700"),
        (not_writable, "writing", "error", "/proc", "--data"),
        (kind("tmpfs"), "file system", "warning", "nothing survives", "on a disk"),
        (kind("nfs4"), "file system", "error", "locks", "of this machine"),
        (kind("overlay"), "file system", "warning", "own layer", "volume"),
        (full, "free space", "warning", "MiB are free", "another disk"),
        (slow, "fsync", "warning", "after 200.0 ms", "faster fsync"),
        (read_only, "fsync", "error", "Read-only file system", "see 'writing'"),
        (damaged, "store", "error", "is damaged: page 0: it is cut off; restore a backup", ""),
        (zeroed_pages, "store", "error", "is damaged: page ", ""),
        (of_another_format, "store", "error", "holds 'tidegate cell 3'; this program", ""),
        (in_use, "store", "error", "is in use by another process", "another --data"),
        (backup, "store", "error", "is a backup: tidegate restore", ""),
        (lost_store, "store", "error", "has credentials, but no data.mdb", ""),
        (uncounted, "store", "error", "has 3 cells: --cells 3", ""),
        (counted, "store", "error", "is cell-1 of a service of 3 cells", ""),
        (lost_cells, "store", "error", "no cell of this service can be read", ""),
        (most_lost, "store", "error", "1 of 3 cells can be read", ""),
        (no_new_cell, "store", "error", "a new service needs all of its cells; data: ", ""),
        (nobody_there, "endpoint", "error", "cannot be reached: Connection refused", "start"),
        (lost_keys, "keys", "error", "is not there, and a store is", "put it back"),
        (lost_keys_of_several, "keys", "error", "is not there, and a store is", "put it back"),
        (open_keys, "keys", "error", "others may use", "chmod 600"),
        (keys_beside, "keys", "warning", "beside what it opens", "elsewhere"),
        (no_keys, "keys", "error", "master.keys: it is no file of master keys", "put back"),
        (other_keys, "keys", "error", "it is sealed under file:", "--master-keys"),
        (wrong_file("queues_file"), "files", "error", "queues: ", "mend"),
        (wrong_queue, "files", "error", "queue orders: Invalid value", "mend"),
        (wrong_file("billing"), "files", "error", "billing: ", "mend"),
        (wrong_file("metrics_key"), "files", "error", "metrics-key: ", "mend"),
        (wrong_file("usage"), "files", "error", "usage: cannot use", "mend"),
        (wrong_authority, "files", "error", "metadata-cache-tls: ", "mend"),
        (wrong_credentials, "files", "error", "credentials is no credentials file", "mend"),
        (link_to_nothing, "directory", "error", "cannot be made: Not a directory", "--data"),
        (no_such_host, "port", "error", "Cannot assign requested address", "another --host"),
        (early_certificate, "certificate", "error", "is not valid before", "clock"),
        (few_files, "open files", "warning", "1024 at most", "LimitNOFILE"),
        (in_clear, "certificate", "warning", "in clear", "--tls-certificate"),
        (wrong_certificate, "certificate", "error", "is not the key of", "certificate"),
        (old_certificate, "certificate", "error", "is valid until", "renew"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_planted_fault_is_named_with_its_remedy(  # noqa: PLR0913, PLR0917 - a row of the table
    plant: Plant,
    check: str,
    state: str,
    said: str,
    remedy: str,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    healthy(monkeypatch)
    found = [one for one in examined(data, **plant(data, monkeypatch)) if one.state != "ok"]
    named = [one for one in found if one.check == check]
    assert len(named) == 1, found
    assert named[0].state == state
    assert said in named[0].said
    assert remedy in named[0].remedy


def contents(data: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in data.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.mark.parametrize("lost", [(), ("cell-2",)], ids=["whole", "one is lost"])
def test_several_cells_are_looked_at_and_left_as_they_are(
    data: Path, monkeypatch: pytest.MonkeyPatch, lost: tuple[str, ...]
) -> None:
    healthy(monkeypatch)
    several(data, *lost)
    (data / "cell-1" / "died").touch()
    before = contents(data)
    found = [one.said for one in examined(data, cells=3) if one.check == "store"]
    assert found == ["a start would take what is there"]
    assert contents(data) == before
    play(data, nothing)


def test_a_store_that_the_server_on_this_port_uses_is_no_fault(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy(monkeypatch)
    in_use(data, monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = examined(data, port=taken.getsockname()[1])
    assert [one.check for one in found if one.state != "ok"] == ["port"]
    (told,) = [one.said for one in found if one.check == "store"]
    assert told == f"{data} is in use, and so is the port: by one server, it seems"


def test_an_address_of_metrics_that_is_taken_is_told(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        (told,) = [one for one in examined(data, metrics=at) if one.check == "port"]
    assert (told.state, told.said) == ("error", f"{at}: Address already in use")
    assert told.remedy.endswith("or name another --metrics")


def test_the_command_ends_with_1_where_something_is_in_the_way(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = ["doctor", "--data", str(data), "--port", port, "--json"]
        ran = CliRunner().invoke(tidegate, command)
    assert ran.exit_code == 1
    (finding,) = [one for one in json.loads(ran.stdout) if one["check"] == "port"]
    assert finding["state"] == "error"
    assert f"sport = :{port}" in finding["remedy"]
    assert CliRunner().invoke(tidegate, ["doctor", "--account", "1"]).exit_code == 2
    names = sorted(path.name for path in data.iterdir())
    assert names == ["data.mdb", "lock"], "nothing is changed"


def test_warnings_are_told_and_are_no_failure(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy(monkeypatch)
    data.chmod(0o755)
    ran = CliRunner().invoke(
        tidegate,
        ["doctor", "--port", str(free_port())],
        env={"TIDEGATE_DATA": str(data), "TIDEGATE_MASTER_KEYS": str(data.parent / "master.keys")},
    )
    assert ran.exit_code == 0
    assert "warning  directory: others may use" in ran.stdout
    assert f"-> chmod 700 {data}" in ran.stdout


def test_the_nearest_mount_says_the_kind(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw shared:1 - ext4 /dev/sda rw\n"
        f"2 1 0:30 / {tmp_path} rw - tmpfs tmpfs rw\n"
        f"3 1 0:31 / {tmp_path}/two\\040words rw - nfs4 host:/x rw\n"
    )
    assert kind_of(tmp_path / "one", mounts) == "tmpfs"
    assert kind_of(tmp_path / "two words/x", mounts) == "nfs4"
    assert kind_of(Path("/"), mounts) == "ext4"
    assert kind_of(tmp_path, tmp_path / "none") == ""


class Hours:
    """A machine's clock that is ahead by some hours."""

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead

    def now_us(self) -> int:
        return SystemClock().now_us() + self.ahead * 3_600_000_000


def write(folder: Path, machine: Hours) -> None:
    """Serve a cell for a moment."""

    async def main() -> None:
        clock = CellClock(machine.now_us, running_us, lambda _step: None)
        cell = EmbeddedCell(folder, clock)
        await cell.put(Key("Q|1|us-east-1", b"orders"), {"v": 1})
        await cell.close()

    asyncio.run(main())


@pytest.mark.parametrize("folder", [".", "cell-2"])
def test_what_the_store_knows_of_the_clock_is_told(tmp_path: Path, folder: str) -> None:
    def told() -> Finding:
        found = [one for one in examined(tmp_path) if one.check == "clock"]
        assert len(found) == 1
        return found[0]

    assert told()[1:3] == ("ok", "there is no store that knows it")
    write(tmp_path / folder, Hours(0))
    assert told().state == "ok"
    assert " s ago by this machine's clock" in told().said
    assert "changes" not in told().said
    write(tmp_path / folder, Hours(2))
    before = (tmp_path / folder / "data.mdb").read_bytes()
    ahead = told()
    assert ahead.state == "warning"
    assert ahead.said.startswith("this machine's is behind the store by 7")
    assert (tmp_path / folder / "data.mdb").read_bytes() == before
    write(tmp_path / folder, Hours(0))
    assert "; it has noted " in told().said
