import asyncio
import errno
import fcntl
import json
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_plane.keys import file
from data_plane.keys.file import KeyFile, KeyFileError
from data_plane.ports import MasterKeysError, WrappedKey
from data_plane.system import SystemEntropy

ENTROPY = SystemEntropy()
CONTEXT = {"tidegate:purpose": "a test", "tidegate:number": "0"}
SECRET = bytes(range(32))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "folder" / "master.keys"
    file.create(made, ENTROPY, 1_700_000_000)
    return made


def opened(path: Path) -> KeyFile:
    return KeyFile(path, ENTROPY)


def wrapped(keys: KeyFile, plain: bytes = SECRET) -> WrappedKey:
    return asyncio.run(keys.wrap(plain, CONTEXT))


def unwrapped(keys: KeyFile, key: WrappedKey, context: dict[str, str] = CONTEXT) -> bytes:
    return asyncio.run(keys.unwrap(key, context))


def contents(path: Path) -> Any:
    return json.loads(path.read_bytes())


def test_only_its_owner_may_read_it(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_the_names_of_all_folders_that_are_made_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(file, "_sync_folder", synced.append)
    made = tmp_path / "a" / "b" / "master.keys"
    file.create(made, ENTROPY, 1_700_000_000)
    assert {tmp_path, tmp_path / "a", tmp_path / "a" / "b"} <= set(synced)
    synced.clear()
    file.copy(made, tmp_path / "c" / "copy.keys")
    assert {tmp_path, tmp_path / "c"} <= set(synced)


def test_what_is_wrapped_opens_and_shows_nothing(path: Path) -> None:
    key = wrapped(opened(path))
    assert key.master_key == f"file:{contents(path)['keys'][0]['id']}"
    assert SECRET not in key.wrapped
    assert unwrapped(opened(path), key) == SECRET


def test_a_key_does_not_show_in_what_is_printed(path: Path) -> None:
    (version,) = file._load(path)
    assert version.id in repr([version])
    assert repr(version.key)[2:-1] not in repr([version])


def test_data_keys_are_new_each_time_and_open(path: Path) -> None:
    keys = opened(path)
    made = [asyncio.run(keys.generate(CONTEXT, "alias/mine")) for _ in range(2)]
    assert made[0][0] != made[1][0]
    assert [unwrapped(keys, key) for _, key in made] == [plain for plain, _ in made]
    assert {len(plain) for plain, _ in made} == {32}


@given(name=st.text(max_size=8), value=st.text(max_size=8))
def test_a_wrapped_key_opens_for_its_context_alone(
    tmp_path_factory: pytest.TempPathFactory, name: str, value: str
) -> None:
    path = tmp_path_factory.mktemp("keys") / "master.keys"
    file.create(path, ENTROPY, 0)
    keys = opened(path)
    key = asyncio.run(keys.wrap(SECRET, {"name": "value"}))
    if (name, value) == ("name", "value"):
        return
    for other in ({name: value}, {"name": "value", "": ""}, {}):
        with pytest.raises(MasterKeysError):
            asyncio.run(keys.unwrap(key, other))


def test_rotation_adds_a_version_and_old_ones_still_open(path: Path) -> None:
    before = opened(path)
    key = wrapped(before)
    new = file.rotate(path, ENTROPY, 1_800_000_000)
    after = opened(path)
    assert [version["made"] for version in contents(path)["keys"]] == [1_700_000_000, 1_800_000_000]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert unwrapped(after, key) == SECRET
    assert not after.is_current(key)
    assert wrapped(after).master_key == f"file:{new}"
    assert after.is_current(wrapped(after))


def test_a_server_under_way_opens_what_a_rotated_file_wraps(path: Path) -> None:
    under_way = opened(path)
    file.rotate(path, ENTROPY, 1)
    assert unwrapped(under_way, wrapped(opened(path))) == SECRET


def test_another_file_does_not_open_it(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.keys"
    file.create(other, ENTROPY, 0)
    key = wrapped(opened(path))
    with pytest.raises(MasterKeysError, match=r"file:.* which .*other\.keys does not have"):
        unwrapped(opened(other), key)
    name = contents(other)["keys"][0]["id"]
    with pytest.raises(MasterKeysError, match="does not open it"):
        unwrapped(opened(other), WrappedKey(f"file:{name}", key.wrapped))
    with pytest.raises(MasterKeysError, match="kms:arn"):
        unwrapped(opened(path), WrappedKey("kms:arn", key.wrapped))


def test_a_file_that_is_there_is_not_made_anew(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(KeyFileError, match="File exists"):
        file.create(path, ENTROPY, 0)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o700 | 0o001])
def test_a_file_that_others_may_use_is_refused(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=r"master\.keys: others than its owner .* chmod 600"):
        opened(path)


def damaged(path: Path, **changes: Any) -> str:
    return json.dumps({**contents(path), **changes})


def test_what_is_no_key_file_is_refused_and_its_keys_not_shown(path: Path) -> None:
    known = contents(path)["keys"][0]
    short = {**known, "key": "c2hvcnQ="}
    wrong = [
        ("", "no file of master keys"),
        ("[]", "no file of master keys"),
        (damaged(path, format="tidegate master keys 9"), "unknown format"),
        (damaged(path, keys=[]), "no key"),
        (damaged(path, keys=[short]), "32 bytes"),
        (damaged(path, keys=[known, known]), "same id"),
        (damaged(path, more=1), "no file of master keys"),
    ]
    for text, reason in wrong:
        path.write_text(text)
        with pytest.raises(KeyFileError, match=reason) as refusal:
            opened(path)
        assert str(refusal.value).startswith(str(path))
        assert known["key"] not in str(refusal.value)
    path.unlink()
    with pytest.raises(KeyFileError, match="No such file"):
        opened(path)


def test_a_file_that_went_bad_is_said_so_when_a_key_is_looked_for(path: Path) -> None:
    keys = opened(path)
    path.write_text("{}")
    with pytest.raises(MasterKeysError, match="no file of master keys"):
        unwrapped(keys, WrappedKey("file:ffffffff", b""))


def test_a_file_with_text_that_is_none_is_none_of_master_keys(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"tidegate", b"t\xffdegate"))
    with pytest.raises(KeyFileError, match="it is no file of master keys"):
        file.rotate(path, ENTROPY, 1_700_000_001)


def test_a_file_that_only_who_may_write_it_may_lock_is_rotated(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is on NFS (flock(2))."""
    flock = fcntl.flock

    def flock_on_nfs(held: IO[bytes], operation: int) -> None:
        if not held.writable():
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(held, operation)

    monkeypatch.setattr(fcntl, "flock", flock_on_nfs)
    assert file.rotate(path, ENTROPY, 1_700_000_001)


def test_two_who_rotate_at_once_add_a_key_each(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrapped under a key that the other one did not see would not open any more."""
    load = file._load
    both = threading.Barrier(2, timeout=1)

    def load_with_the_other(where: Path) -> Any:
        versions = load(where)
        with suppress(threading.BrokenBarrierError):
            both.wait()
        return versions

    monkeypatch.setattr(file, "_load", load_with_the_other)
    with ThreadPoolExecutor(2) as threads:
        added = list(threads.map(lambda _: file.rotate(path, ENTROPY, 1_700_000_001), range(2)))
    assert {version["id"] for version in contents(path)["keys"]} >= set(added)
