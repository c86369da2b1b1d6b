"""What is not as the digests say: a line for each finding."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

from .digests import (
    DIGESTS,
    NO_DIGEST,
    SCHEMA_1,
    Digest,
    Listed,
    Version,
    later,
    read_digest,
    read_head,
)
from .keys import PublicKey

NOTE: Final = "note: "
NOT_READ: Final = "not read: "
LATE_HOURS: Final = 3
"""A digest that is due each hour is late after so many more, in which a job may fail and end."""

_DIGEST_NAME: Final = re.compile(r"digests/([0-9]{8})-([0-9a-f]{64})\.json")
_RULES: Final = ("apart", "changing", "kept_days", "every_hours")


class Tree(Protocol):
    """What is verified."""

    def names(self) -> list[str]:
        """All objects, with slashes; what is no plain file ends in a slash."""

    def read(self, name: str) -> bytes:
        """Content of a digest. Raises OSError where it cannot be read."""

    def measure(self, name: str) -> tuple[int, str]:
        """Size in bytes and SHA-256 of an object. Raises OSError where it cannot be read."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the verifier knows besides the tree, and how it looks.

    `keys` are the public keys that may have signed; `anchored` has the lines of heads that were
    kept elsewhere (None: no anchor is given); `head` is the hash of one. `present` is the hour of
    the look ("": that of the newest digest). With `is_open` what no digest has is taken for new.
    """

    keys: Sequence[PublicKey] = ()
    anchored: Sequence[bytes] | None = None
    head: str = ""
    present: str = ""
    is_open: bool = False


NOTHING_KNOWN: Final = Known()


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
        try:
            content = tree.read(name)
        except OSError as error:
            wrong.append(_not_read(name, error))
            previous, expected = named_hash, number + 1
            continue
        if hashlib.sha256(content.partition(b"\n")[0] + b"\n").hexdigest() != named_hash:
            wrong.append(f"changed: {name}: its bytes do not hash to its name")
        if number < expected:
            wrong.append(f"added: {name}: there is another digest {number}")
            continue
        if number > expected:
            wrong.append(f"missing: {_digests(expected, number - 1)}")
        try:
            digest = read_digest(content)
        except ValueError as error:
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


def findings(tree: Tree, known: Known = NOTHING_KNOWN) -> Iterator[str]:
    """A line for whatever is not as the digests say, and notes."""
    names = tree.names()
    chain, wrong = chain_of(tree, names)
    yield from wrong
    if known.keys:
        yield from _signed(chain, known.keys)
    if chain:
        yield from _headed(chain, known)
    yield from _ruled(chain, is_signed=bool(known.keys))
    objects: dict[str, tuple[Listed, Digest]] = {}
    for digest in chain:
        yield from _listed(digest, objects)
    present = {name for name in names if not name.startswith(DIGESTS)}
    apart = chain[-1].apart if chain else ()
    over, of_hour = 0, max([known.present, *(each.hour for each in chain[-1:])])
    is_open = known.is_open and not _is_early(chain, known)
    for name in sorted(objects.keys() | present):
        if name not in objects:
            is_new = is_open and not name.endswith("/")
            if not is_new and not name.startswith(apart):
                yield f"added: {name}: no digest names it"
        elif name in present:
            yield from _compared(tree, objects[name][0], is_open=known.is_open)
        elif chain[-1].lets_go(name, objects[name][1].hour, of_hour):
            over += 1
        else:
            yield f"missing: {name}"
    if over:
        yield f"{NOTE}kept for as long as they had to be, and gone: {over}"


def _signed(chain: list[Digest], keys: Sequence[PublicKey]) -> Iterator[str]:
    """What is wrong with signatures; a signed digest vouches for all before it."""
    by_id = {key.id: key for key in keys}
    first = next((digest.number for digest in chain if digest.key), 0)
    for digest in chain[first - 1 :] if first else ():
        if digest.head is None:
            yield f"unsigned: digest {digest.number}: nobody signed it"
        elif digest.key not in by_id:
            yield f"foreign: digest {digest.number}: it is signed by another key, {digest.key}"
        elif not by_id[digest.key].verify(digest.head):
            yield f"forged: digest {digest.number}: its signature is not by the key that it names"
    if not first:
        yield "unsigned: no digest is signed"
    elif first > 1:
        yield f"{NOTE}unsigned: {_digests(1, first - 1)}; digest {first} vouches for that"


def _headed(chain: list[Digest], known: Known) -> Iterator[str]:
    """What is wrong with the end of the chain, by heads that were kept elsewhere and the clock."""
    newest = chain[-1]
    if known.head and known.head not in {digest.hash for digest in chain}:
        yield f"rolled back: no digest has the hash {known.head}"
    if known.anchored is not None:
        yield from _anchored(chain, known.anchored, known.keys)
    if _is_early(chain, known):
        until = f"nothing that came since is bound until {later(newest.hour, 1)}"
        yield f"early: digest {newest.number} is of {newest.hour}, which is not over: {until}"
    if newest.every_hours and known.present >= later(newest.hour, newest.every_hours + LATE_HOURS):
        yield f"late: the newest digest is of {newest.hour}: later ones were cut off, or never made"


def _is_early(chain: list[Digest], known: Known) -> bool:
    """Whether the newest digest is of an hour that is not over at the time of the look."""
    return bool(chain and known.present) and chain[-1].hour >= known.present


def _anchored(
    chain: list[Digest], lines: Sequence[bytes], keys: Sequence[PublicKey]
) -> Iterator[str]:
    by_number = {digest.number: digest for digest in chain}
    newest = 0
    for at, line in enumerate(lines, 1):
        try:
            head = read_head(line)
        except ValueError as error:
            yield f"anchor: its line {at}: {error}"
            continue
        if head.chain != chain[-1].chain:
            continue
        if keys and not any(key.verify(head) for key in keys):
            yield f"anchor: its line {at}: it is not signed by a key that was given"
            continue
        newest = max(newest, head.number)
        its = by_number.get(head.number)
        if its is None or its.hash != head.hash:
            yield f"rolled back: digest {head.number} of {head.hour} was {head.hash} when anchored"
    if not newest:
        yield f"anchor: it has no head of this chain, {chain[-1].chain!r}"
    elif newest < chain[-1].number:
        yield f"{NOTE}not anchored yet: {_digests(newest + 1, chain[-1].number)}"


def _ruled(chain: list[Digest], *, is_signed: bool) -> Iterator[str]:
    """Where a digest leaves out, or lets go, other objects than the one before."""
    for before, digest in pairwise(chain):
        same = ("apart",) if before.schema == SCHEMA_1 else _RULES
        if any(getattr(before, name) != getattr(digest, name) for name in same):
            told = f"digest {digest.number} leaves other objects apart than the one before"
            yield f"{NOTE}{told}" if is_signed and digest.key else f"changed: {told}"
        if before.chain not in ("", digest.chain):
            yield f"changed: digest {digest.number} is of another chain, {digest.chain!r}"


def _listed(digest: Digest, objects: dict[str, tuple[Listed, Digest]]) -> Iterator[str]:
    for kind in (digest.objects, digest.versions):
        order = [each.name for each in kind]
        if order != sorted(set(order)):
            yield f"reordered: digest {digest.number}: its objects are not in order"
    for listed in digest.objects:
        if listed.name in objects:
            yield f"changed: {listed.name}: digest {digest.number} names it again"
        objects.setdefault(listed.name, (listed, digest))
    for version in digest.versions:
        before, counts = objects.get(version.name, (version, digest))[0], dict(version.counts)
        if before is not version and (not isinstance(before, Version) or before.is_final):
            yield f"changed: {version.name}: it was final before digest {digest.number}"
        elif any(counts.get(of, -1) < count for of, count in getattr(before, "counts", ())):
            yield f"changed: {version.name}: a count of it fell before digest {digest.number}"
        objects[version.name] = (version, digest)


def _compared(tree: Tree, listed: Listed, *, is_open: bool) -> Iterator[str]:
    if is_open and isinstance(listed, Version) and not listed.is_final:
        return
    try:
        size_bytes, sha256 = tree.measure(listed.name)
    except OSError as error:
        yield _not_read(listed.name, error)
        return
    if size_bytes != listed.bytes:
        yield f"changed: {listed.name}: its size is {size_bytes} instead of {listed.bytes}"
    elif sha256 != listed.sha256:
        yield f"changed: {listed.name}: other bytes than before"


def is_finding(line: str) -> bool:
    """Whether it is no note."""
    return not line.startswith(NOTE)


def exit_code(lines: Iterable[str]) -> int:
    """0: all is well; 1: something is not; 2: nothing is known not to be, and not all was read."""
    found = [line for line in lines if is_finding(line)]
    if all(line.startswith(NOT_READ) for line in found):
        return 2 if found else 0
    return 1


def _digests(first: int, last: int) -> str:
    return f"digest {first}" if first == last else f"digests {first} to {last}"


def _not_read(name: str, error: OSError) -> str:
    return f"{NOT_READ}{name}: {error.strerror or error}"
