"""Master keys in a file: several versions, of which the newest wraps and all open.

The file is what everything else is sealed under. So it lies elsewhere than what it opens wherever
that matters, only its owner may read it, and it is replaced whole: written beside its place, made
durable, renamed. Its format is JSON: `format`, and `keys` from the oldest to the newest, each with
`id`, `key` (32 bytes in base64) and `made` (seconds since the epoch).
"""

import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO, Final

import msgspec

from data_plane.core.sealing import (
    NONCE_BYTES,
    SECRET_BYTES,
    DataSeal,
    NotSealedHereError,
    place,
)
from data_plane.core.undecodable import UNDECODABLE
from data_plane.ports import Entropy, MasterKeysError, WrappedKey

KIND: Final = "file:"
FORMAT: Final = "tidegate master keys 1"
MODE: Final = 0o600

_ID_BYTES: Final = 4
_FOR_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class KeyFileError(Exception):
    """The file cannot be used; one line says why."""


class _Version(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    key: bytes
    made: int

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"  # The key is nobody's to read.


class _Contents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str
    keys: list[_Version]


def is_there(path: Path) -> bool:
    """Whether the file exists. Raises KeyFileError where its folder cannot be looked into."""
    try:
        return path.exists()
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from error


def create(path: Path, entropy: Entropy, now_s: int) -> None:
    """Make the file with a first key; its folder too. Raises KeyFileError, also where it exists."""
    _make_folder(path.parent)
    _write(path, [_new_version(entropy, now_s)], replace=False)


def rotate(path: Path, entropy: Entropy, now_s: int) -> str:
    """Add a key, under which everything is wrapped from then on: its id. Raises KeyFileError."""
    version = _new_version(entropy, now_s)
    with _held(path):
        _write(path, [*_load(path), version], replace=True)
    return version.id


def copy(path: Path, target: Path) -> None:
    """Write the same keys to another file; one that has some of them already is replaced.

    Raises KeyFileError, also where that one has others.
    """
    versions = _load(path)
    if is_there(target) and not set(_load(target)) <= set(versions):
        raise KeyFileError(f"{target} has other keys, which would be lost: name another file")
    _make_folder(target.parent)
    _write(target, versions, replace=is_there(target))


def _make_folder(folder: Path) -> None:
    """Make it, and those above it, durable as what is written into it. Raises KeyFileError."""
    try:
        made = [one for one in (folder, *folder.parents) if not one.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for one in made:
            _sync_folder(one.parent)
    except OSError as error:
        raise KeyFileError(f"{folder}: {error.strerror}") from error


def _new_version(entropy: Entropy, now_s: int) -> _Version:
    return _Version(
        entropy.random_bytes(_ID_BYTES).hex(), entropy.random_bytes(SECRET_BYTES), now_s
    )


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Keep others from adding keys, of which one would be lost. Raises KeyFileError."""
    try:
        held = _locked(path)
        while not os.path.samestat(os.fstat(held.fileno()), path.stat()):
            held.close()  # it was replaced meanwhile
            held = _locked(path)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from error
    with held:
        yield


def _locked(path: Path) -> BinaryIO:
    # On NFS only who may write a file may lock it.
    held = path.open("r+b" if os.access(path, os.W_OK) else "rb")
    fcntl.flock(held, fcntl.LOCK_EX)
    return held


def _write(path: Path, versions: list[_Version], *, replace: bool) -> None:
    text = msgspec.json.format(msgspec.json.encode(_Contents(FORMAT, versions)), indent=2) + b"\n"
    beside: Path | None = None
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            beside = Path(file.name)
            os.fchmod(file.fileno(), MODE)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            beside.replace(path)
        else:
            path.hardlink_to(beside)  # Unlike a rename, it leaves a file that is there as it is.
        _sync_folder(path.parent)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from error
    finally:
        if beside is not None:
            beside.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _load(path: Path) -> list[_Version]:
    """The versions, of which there is one at least. Raises KeyFileError."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & _FOR_OTHERS:
                raise KeyFileError(
                    f"{path}: others than its owner may use it (mode {stat.S_IMODE(mode):o});"
                    f" chmod 600 it"
                )
            contents = msgspec.json.decode(file.read(), type=_Contents)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from error
    except UNDECODABLE as error:
        raise KeyFileError(f"{path}: it is no file of master keys: {error}") from error
    if contents.format != FORMAT:
        raise KeyFileError(f"{path}: unknown format {contents.format!r}")
    if not contents.keys or any(len(version.key) != SECRET_BYTES for version in contents.keys):
        raise KeyFileError(f"{path}: it has no key, or one that has not {SECRET_BYTES} bytes")
    if len({version.id for version in contents.keys}) != len(contents.keys):
        raise KeyFileError(f"{path}: two keys have the same id")
    return contents.keys


class KeyFile:
    """Implements `data_plane.ports.MasterKeys`; raises KeyFileError where it cannot be read.

    Serves every `key_id`: which one a data key was made for is part of its context. A key that is
    not known is looked for in the file once more, to which a rotation may have added it.
    """

    def __init__(self, path: Path, entropy: Entropy) -> None:
        self._path = path
        self._entropy = entropy
        self._seals: dict[str, DataSeal] = {}
        self._newest = ""
        self._read()

    def _read(self) -> None:
        versions = _load(self._path)
        self._seals = {version.id: DataSeal(version.key) for version in versions}
        self._newest = versions[-1].id

    async def generate(
        self,
        context: Mapping[str, str],
        key_id: str = "",  # noqa: ARG002 - the file's keys stand for all of KMS's
    ) -> tuple[bytes, WrappedKey]:
        """A new data key of 32 bytes, and as it may be stored."""
        plain = self._entropy.random_bytes(SECRET_BYTES)
        return plain, await self.wrap(plain, context)

    async def wrap(self, plain: bytes, context: Mapping[str, str]) -> WrappedKey:
        """Seal a key under the newest version."""
        nonce = self._entropy.random_bytes(NONCE_BYTES)
        sealed = self._seals[self._newest].seal(nonce, plain, _bound(self._newest, context))
        return WrappedKey(KIND + self._newest, sealed)

    async def unwrap(self, key: WrappedKey, context: Mapping[str, str]) -> bytes:
        """The key that was wrapped. Raises MasterKeysError."""
        version = key.master_key.removeprefix(KIND)
        if key.master_key.startswith(KIND) and version not in self._seals:
            try:
                self._read()
            except KeyFileError as error:
                raise MasterKeysError("", str(error)) from error
        seal = self._seals.get(version)
        if seal is None or not key.master_key.startswith(KIND):
            raise MasterKeysError(
                "NotFound", f"it is sealed under {key.master_key}, which {self._path} does not have"
            )
        try:
            return seal.unseal(key.wrapped, _bound(version, context))
        except NotSealedHereError:
            raise MasterKeysError(
                "InvalidCiphertext", f"the key {version} of {self._path} does not open it"
            ) from None

    def is_current(self, key: WrappedKey) -> bool:
        """Whether it is wrapped under the newest version."""
        return key.master_key == KIND + self._newest


def _bound(version: str, context: Mapping[str, str]) -> bytes:
    return place("file", version, *(part for pair in sorted(context.items()) for part in pair))
