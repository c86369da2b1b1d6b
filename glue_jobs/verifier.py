"""Verifies a folder against its chain of digests. Needs Python alone: copy it, read it, run it.

    python verifier.py FOLDER [--head HASH] [--open]

A digest is a file `digests/<number>-<hash>.json`, whose hash is the SHA-256 of its bytes. It has
the hash of the one before, and the name, size and SHA-256 of every object that is new since then.
Objects are never changed or removed. So every object is named by exactly one digest, each digest
by the next one, and the last by whoever was told its hash, the head: with a head that was kept
elsewhere not even the newest hours can be cut off without being noticed.

It prints a line for whatever is not as the digests say, and the head; its exit code is 1 if there
was such a line, and 2 where it could not look.
"""

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

SCHEMA: Final = "tidegate.digest/1"
DIGESTS: Final = "digests/"
NO_DIGEST: Final = "0" * 64
"""Stands for the digest before the first."""

_DIGEST_NAME: Final = re.compile(r"digests/([0-9]{8})-([0-9a-f]{64})\.json")
_HOUR: Final = re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_MEMBERS: Final = {"schema", "number", "previous", "hour", "apart", "objects"}
_PIECE_BYTES: Final = 1024 * 1024


class Tree(Protocol):
    """What is verified."""

    def names(self) -> list[str]:
        """All objects, with slashes; what is no plain file ends in a slash."""

    def read(self, name: str) -> bytes:
        """Content of a digest."""

    def measure(self, name: str) -> tuple[int, str]:
        """Size in bytes and SHA-256 of an object."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as a digest has it."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Digest:
    """What is new since the digest before, as of an hour (UTC).

    Objects whose names begin as one of `apart` are not in the chain: they may change.
    """

    number: int
    previous: str
    hour: str
    apart: tuple[str, ...]
    objects: tuple[Listed, ...]

    def to_bytes(self) -> bytes:
        """As stored: there is one way to write a digest."""
        members = {
            "schema": SCHEMA,
            "number": self.number,
            "previous": self.previous,
            "hour": self.hour,
            "apart": list(self.apart),
            "objects": [[each.name, each.bytes, each.sha256] for each in self.objects],
        }
        return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    @property
    def hash(self) -> str:
        """The SHA-256 of its bytes."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @property
    def name(self) -> str:
        """What its object is called."""
        return f"{DIGESTS}{self.number:08d}-{self.hash}.json"


def read_digest(content: bytes) -> Digest:
    """A digest from its bytes. Raises ValueError with the reason where they are none."""
    said: Any = json.loads(content)
    if not isinstance(said, dict) or set(said) != _MEMBERS or said["schema"] != SCHEMA:
        raise ValueError(f"it is no {SCHEMA}")
    digest = Digest(
        said["number"],
        said["previous"],
        said["hour"],
        tuple(said["apart"]),
        tuple(Listed(*each) for each in said["objects"]),
    )
    if type(digest.number) is not int or not _HOUR.fullmatch(str(digest.hour)):
        raise ValueError("its number or hour is none")
    for each in digest.objects:
        if type(each.bytes) is not int or not _HASH.fullmatch(str(each.sha256)):
            raise ValueError(f"size or hash of {each.name!r} is none")
    if digest.to_bytes() != content:
        raise ValueError("it is not written as digests are")
    return digest


def chain_of(tree: Tree, names: list[str]) -> tuple[list[Digest], list[str]]:
    """The digests in order, and what is wrong with them."""
    chain: list[Digest] = []
    wrong: list[str] = []
    hour, previous, expected = "", NO_DIGEST, 1
    for name in sorted(each for each in names if each.startswith(DIGESTS)):
        found = _DIGEST_NAME.fullmatch(name)
        if found is None:
            wrong.append(f"added: {name}: it is no digest's name")
            continue
        number, named_hash = int(found.group(1)), found.group(2)
        content = tree.read(name)
        if hashlib.sha256(content).hexdigest() != named_hash:
            wrong.append(f"changed: {name}: its bytes do not hash to its name")
        if number < expected:
            wrong.append(f"added: {name}: there is another digest {number}")
            continue
        if number > expected:
            wrong.append(f"missing: digests {expected} to {number - 1}")
        try:
            digest = read_digest(content)
        except (ValueError, TypeError) as error:
            wrong.append(f"changed: {name}: {error}")
            previous, expected = named_hash, number + 1
            continue
        if digest.number != number:
            wrong.append(f"reordered: {name}: it is digest {digest.number}")
        if digest.previous != previous and number == expected:
            wrong.append(f"reordered: {name}: the digest before it is another one")
        if digest.hour < hour:
            wrong.append(f"reordered: {name}: its hour is before that of the digest before")
        hour, previous, expected = digest.hour, named_hash, number + 1
        chain.append(digest)
    if not chain and not wrong:
        wrong.append("missing: there is no digest")
    return chain, wrong


def findings(tree: Tree, head: str = "", *, is_open: bool = False) -> Iterator[str]:
    """A line for whatever is not as the digests say.

    `head` is the hash of a digest that was kept elsewhere. With `is_open` objects that no digest
    names are taken for new ones.
    """
    names = tree.names()
    chain, wrong = chain_of(tree, names)
    yield from wrong
    if head and head not in {digest.hash for digest in chain}:
        yield f"rolled back: no digest has the hash {head}"
    apart = chain[0].apart if chain else ()
    listed: dict[str, Listed] = {}
    for digest in chain:
        if digest.apart != apart:
            yield f"changed: digest {digest.number} leaves other objects apart than the first"
        order = [each.name for each in digest.objects]
        if order != sorted(set(order)):
            yield f"reordered: digest {digest.number}: its objects are not in order"
        for each in digest.objects:
            if each.name in listed:
                yield f"changed: {each.name}: digest {digest.number} names it again"
            listed.setdefault(each.name, each)
    present = {name for name in names if not name.startswith(DIGESTS)}
    for name in sorted(listed.keys() | present):
        if name not in listed:
            is_new = is_open and not name.endswith("/")
            if not is_new and not name.startswith(apart):
                yield f"added: {name}: no digest names it"
        elif name not in present:
            yield f"missing: {name}"
        else:
            yield from _compared(tree, listed[name])


def _compared(tree: Tree, listed: Listed) -> Iterator[str]:
    size_bytes, sha256 = tree.measure(listed.name)
    if size_bytes != listed.bytes:
        yield f"changed: {listed.name}: {size_bytes} bytes instead of {listed.bytes}"
    elif sha256 != listed.sha256:
        yield f"changed: {listed.name}: other bytes than before"


class Folder:
    """A folder of this machine. Links and the like are no objects, and are never followed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> list[str]:
        """See Tree."""
        found = []
        for path in self._path.rglob("*"):
            name = path.relative_to(self._path).as_posix()
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                found.append(f"{name}/")
            elif path.is_file():
                found.append(name)
        return found

    def read(self, name: str) -> bytes:
        """See Tree."""
        return (self._path / name).read_bytes()

    def measure(self, name: str) -> tuple[int, str]:
        """See Tree."""
        size_bytes, found = 0, hashlib.sha256()
        with (self._path / name).open("rb") as content:
            while piece := content.read(_PIECE_BYTES):
                size_bytes += len(piece)
                found.update(piece)
        return size_bytes, found.hexdigest()


def main(argv: list[str]) -> int:
    """Verify the folder that the arguments name; the exit code."""
    parser = argparse.ArgumentParser(description="Verify a folder against its chain of digests.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--head", default="", help="hash of a digest that was kept elsewhere")
    parser.add_argument("--open", action="store_true", help="allow objects newer than all digests")
    options = parser.parse_args(argv)
    if not options.folder.is_dir():
        print(f"there is no folder {options.folder}", file=sys.stderr)  # noqa: T201 - a program's
        return 2
    code = 0
    for line in report(Folder(options.folder), options.head, is_open=options.open):
        print(line)  # noqa: T201 - this is a program
        code = code if line.startswith("head: ") else 1
    return code


def report(tree: Tree, head: str, *, is_open: bool) -> Iterator[str]:
    """The findings, then a line `head: <hash> <number> <hour>` if there is a digest."""
    yield from findings(tree, head, is_open=is_open)
    chain, _wrong = chain_of(tree, tree.names())
    if chain:
        yield f"head: {chain[-1].hash} {chain[-1].number} {chain[-1].hour}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
