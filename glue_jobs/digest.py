"""The job that adds a digest to a place's chain: one an hour, also where nothing is new.

`verifier/` has the format, and docs/audit.md says what a chain proves.
"""

import errno
import hashlib
import json
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from glue_jobs.anchors import Anchor, anchor_of, newest
from glue_jobs.arguments import Argument, JobError, read
from glue_jobs.places import Found, Place, S3Place, place_of
from glue_jobs.signing import Signer, signer_of
from glue_jobs.verifier import (
    DIGESTS,
    NO_DIGEST,
    Digest,
    Folder,
    Head,
    Known,
    Listed,
    Tree,
    Version,
    chain_of,
    findings,
    head_of,
    is_hour,
)

ARGUMENTS = (
    Argument("place", "Folder or s3://bucket/prefix whose objects are to be in the chain."),
    Argument("hour", "The hour that has ended, UTC, such as 2026-11-21T19, or last."),
    Argument("apart", "Prefixes of objects that are not in the chain, with commas between.", ""),
    Argument("changing", "Prefixes of objects that may change, with commas between.", ""),
    Argument("kept_days", "For how long objects are kept: PREFIX=DAYS, with commas between.", ""),
    Argument("every_hours", "A digest is due every so many hours; 0: none is.", "0"),
    Argument("signer", "Key that signs: a KMS key's ARN, or a file of `tidegate digest key`.", ""),
    Argument("anchor", "Where heads are kept: s3://bucket[/prefix], folder or file; commas.", ""),
)

_READERS: Final = 8
_MARK_BYTES_MAX: Final = 64 * 1024
"""A writer's mark is shorter."""

_COUNTS: Final = ("access", "complete_to", "records")
"""What only grows in the mark of a server. Those of ledgers and functions several may put."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a digest says of the objects of its place: see Digest."""

    apart: tuple[str, ...] = ()
    changing: tuple[str, ...] = ()
    kept_days: tuple[tuple[str, int], ...] = ()
    every_hours: int = 0


class _Tree:
    """A place, as the verifier looks at one; digests are read ahead."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._digests: dict[str, bytes | None] = {}

    def found(self) -> list[Found]:
        """What there is."""
        return self._place.list("")

    def names(self) -> list[str]:
        names = [its.name for its in self.found()]
        digests = [name for name in names if name.startswith(DIGESTS)]
        with ThreadPoolExecutor(_READERS) as readers:
            self._digests = dict(zip(digests, readers.map(self._ahead, digests), strict=True))
        return names

    def read(self, name: str) -> bytes:
        known = self._digests.get(name)
        return self._content(name) if known is None else known

    def measure(self, name: str) -> tuple[int, str]:
        content = self._content(name)
        return len(content), hashlib.sha256(content).hexdigest()

    def _ahead(self, name: str) -> bytes | None:
        """None: whoever asks for it is told why it cannot be read."""
        with suppress(OSError):
            return self._content(name)
        return None

    def _content(self, name: str) -> bytes:
        try:
            return self._place.read(name)
        except OSError:
            raise
        except Exception as error:  # clients of buckets have errors of their own
            raise OSError(errno.EIO, str(error), f"{self._place.url}/{name}") from error


class _BucketTree(_Tree):
    """All objects of a prefix, those that jobs pass over, too; marks of empty folders are none."""

    def __init__(self, place: S3Place) -> None:
        super().__init__(place)
        self._every = place.every

    def found(self) -> list[Found]:
        try:
            found = self._every("")
        except Exception as error:
            raise OSError(errno.EIO, str(error), self._place.url) from error
        return [its for its in found if its.bytes or not f"/{its.name}".endswith("/")]


def tree_of(url: str) -> Tree:
    """What the verifier is to look at, by its path or `s3://bucket[/prefix]`."""
    place = place_of(url)
    return _BucketTree(place) if isinstance(place, S3Place) else Folder(Path(url))


def report(tree: Tree, known: Known) -> Iterator[str]:
    """The verifier's findings, then a line `head: <hash> <number> <hour>` if there is a digest."""
    yield from findings(tree, known)
    chain, _wrong = chain_of(tree, tree.names())
    if chain:
        yield f"head: {chain[-1].hash} {chain[-1].number} {chain[-1].hour}"


def add_digest(  # noqa: PLR0913 - a digest and what becomes of it
    place: Place,
    hour: str,
    rules: Rules | None = None,
    *,
    over: str = "",
    chain: str = "",
    signer: Signer | None = None,
    anchors: Sequence[Anchor] = (),
) -> Digest:
    """Put the next digest, which names every object that none names yet; the digest.

    One for the hour that is there already is answered instead, so that a job may be repeated; it
    is anchored again where it was not. Without `rules` those of the digest before hold, without a
    name for the `chain` its own, or that of the place. `over` is the last hour that is over ("":
    `hour` is). Raises JobError where an hour is not over, this one or that of the newest digest;
    where the chain is not whole, not signed by `signer`, or not as anchored; or where an object
    that it names is gone.
    """
    if not is_hour(hour):
        raise JobError(f"hour: {hour!r} is not of the form YYYY-MM-DDTHH")
    if over and hour > over:
        raise JobError(f"hour: {hour} is not over: {over} is the last hour that is")
    tree = _Tree(place)
    names = tree.names()
    digests = _whole(place, tree, names)
    before = digests[-1] if digests else None
    named = (before.chain if before else "") or chain or place.url
    _check_signature(place, before, signer)
    for anchor in anchors:
        _check_anchor(place, digests, anchor, named, signer)
    if before is not None and over and before.hour > over:
        told = f"digest {before.number} is of {before.hour}, which is not over"
        raise JobError(f"{place.url}: {told}: nothing can be bound until it is")
    if before is not None and before.hour >= hour:
        _keep(before.head, anchors)
        return before
    holds = rules or _rules_of(before)
    digest = Digest(
        number=len(digests) + 1,
        previous=before.hash if before else NO_DIGEST,
        hour=hour,
        apart=holds.apart,
        objects=(),
        changing=holds.changing,
        kept_days=holds.kept_days,
        every_hours=holds.every_hours,
        chain=named,
        key=signer.key if signer else "",
    )
    digest = _with_objects(place, tree, digest, digests, names)
    if signer is not None:
        digest = replace(digest, head=signer.sign(head_of(digest)))
    place.put_new(digest.name, digest.to_bytes())
    if len(place.list(f"{DIGESTS}{digest.number:08d}-")) != 1:
        raise JobError(f"{place.url}: somebody else has put a digest {digest.number}, too")
    _keep(digest.head, anchors)
    return digest


def _whole(place: Place, tree: Tree, names: Sequence[str]) -> list[Digest]:
    chain, wrong = chain_of(tree, [name for name in names if name.startswith(DIGESTS)])
    if wrong and (chain or len(wrong) > 1 or not wrong[0].endswith("there is no digest")):
        raise JobError(f"the chain in {place.url} is not whole: {wrong[0]}")
    return chain


def _check_signature(place: Place, before: Digest | None, signer: Signer | None) -> None:
    """Vouch for no chain that somebody else made: a signature is for all digests before it."""
    if before is None or not before.key:
        return
    if signer is None:
        raise JobError(f"{place.url}: digest {before.number} is signed: a key is to sign the next")
    if before.head is None or not signer.verify(before.head):
        told = f"the signature of digest {before.number} is not by the key that is to sign the next"
        raise JobError(f"{place.url}: {told}")


def _check_anchor(
    place: Place, digests: Sequence[Digest], anchor: Anchor, chain: str, signer: Signer | None
) -> None:
    if signer is None:
        raise JobError(f"{anchor.url}: only signed digests are anchored: a key is to sign")
    for head in newest(anchor, chain):
        if signer.verify(head):
            if head.hash not in (its.hash for its in digests[head.number - 1 : head.number]):
                told = f"digest {head.number} of {head.hour} is gone that {anchor.url} has"
                raise JobError(f"{place.url}: {told}")
            return


def _keep(head: Head | None, anchors: Sequence[Anchor]) -> None:
    if head is None:
        return
    for anchor in anchors:
        if next(newest(anchor, head.chain), None) != head:
            anchor.keep(head)


def _rules_of(before: Digest | None) -> Rules:
    if before is None:
        return Rules()
    return Rules(before.apart, before.changing, before.kept_days, before.every_hours)


def _with_objects(
    place: Place, tree: _Tree, digest: Digest, digests: Sequence[Digest], names: Sequence[str]
) -> Digest:
    """With what is new, and what changed; raises JobError where what is known is gone."""
    known = {its.name: each.hour for each in digests for its in each.objects}
    versions = {its.name: its for each in digests for its in each.versions}
    known |= {its.name: each.hour for each in digests for its in each.versions}
    missing = sorted(
        name
        for name in known.keys() - set(names)
        if not digest.lets_go(name, known[name], digest.hour)
    )
    if missing:
        raise JobError(f"{place.url}: an object that is in the chain is gone: {missing[0]}")
    new = [
        name
        for name in sorted(set(names) - known.keys())
        if not name.startswith((DIGESTS, *digest.apart))
    ]
    of_now = [name for name in new if name.startswith(digest.changing)] if digest.changing else []
    changing = sorted({*of_now, *(_may_change(place, versions, names, digests))})
    fixed = sorted(set(new) - set(of_now))
    with ThreadPoolExecutor(_READERS) as readers:
        measured = zip(fixed, readers.map(tree.measure, fixed), strict=True)
        objects = tuple(Listed(name, *its) for name, its in measured)
        seen = readers.map(lambda name: _version(place, name), changing)
        changed = tuple(its for its in seen if versions.get(its.name) != its)
    return replace(digest, objects=objects, versions=changed)


def _may_change(
    place: Place, versions: Mapping[str, Version], names: Collection[str], digests: Sequence[Digest]
) -> list[str]:
    """Objects that may have changed since the newest digest, as far as their place can tell."""
    present = set(names)
    found = [name for name, its in versions.items() if not its.is_final and name in present]
    if not found or not isinstance(place, S3Place):
        return found
    since = _seconds(digests[-1].hour)
    modified = {its.name: its.modified_s for its in place.every("")}
    return [name for name in found if modified.get(name, since) >= since]


def _version(place: Place, name: str) -> Version:
    """An object that may change, as it is: what it says itself of whether it will, and how."""
    content = place.read(name)
    said: Any = None
    if len(content) <= _MARK_BYTES_MAX:
        with suppress(ValueError):
            said = json.loads(content)
    if not isinstance(said, dict):
        said = {}
    counts: list[tuple[str, int]] = []
    if said.get("kind") == "server":
        counts = [(of, said[of]) for of in _COUNTS if type(said.get(of)) is int]
    sha256 = hashlib.sha256(content).hexdigest()
    return Version(name, len(content), sha256, said.get("closed") is True, tuple(counts))


def main(argv: Sequence[str]) -> int:
    """Add the digest of an hour; the exit code."""
    try:
        options = read(ARGUMENTS, argv)
        over = _last_hour()
        digest = add_digest(
            place_of(options["place"]),
            over if options["hour"] == "last" else options["hour"],
            _rules(options),
            over=over,
            signer=signer_of(options["signer"]) if options["signer"] else None,
            anchors=[anchor_of(url) for url in _several(options["anchor"])],
        )
    except JobError as error:
        print(f"digest: {error}", file=sys.stderr)  # noqa: T201 - a job tells its log
        return 1
    new = len(digest.objects) + len(digest.versions)
    told = f"digest {digest.number} of {digest.hour}: {new} new, head {digest.hash}"
    print(told)  # noqa: T201 - a job tells its log
    return 0


def _several(text: str) -> tuple[str, ...]:
    return tuple(each for each in text.split(",") if each)


def _rules(options: Mapping[str, str]) -> Rules | None:
    """Those that are given; None where nothing is."""
    of_objects = [options[name] for name in ("apart", "changing", "kept_days")]
    if not any(of_objects) and options["every_hours"] == "0":
        return None
    try:
        every_hours = int(options["every_hours"])
    except ValueError:
        raise JobError(f"every_hours: {options['every_hours']!r} is no number") from None
    return Rules(
        tuple(sorted(_several(options["apart"]))),
        tuple(sorted(_several(options["changing"]))),
        kept_days(_several(options["kept_days"])),
        every_hours,
    )


def kept_days(texts: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Prefixes, and for how many days what begins so is kept. Raises JobError."""
    found = []
    for text in texts:
        prefix, _, days = text.rpartition("=")
        if not prefix or not days.isdecimal():
            raise JobError(f"kept_days: {text!r} is not of the form PREFIX=DAYS")
        found.append((prefix, int(days)))
    return tuple(sorted(found))


def _last_hour() -> str:
    """The last hour that is over. The one look at the clock."""
    present = datetime(*time.gmtime()[:4], tzinfo=UTC)
    return f"{present - timedelta(hours=1):%Y-%m-%dT%H}"


def _seconds(hour: str) -> float:
    return datetime.strptime(f"{hour}+0000", "%Y-%m-%dT%H%z").timestamp()


if __name__ == "__main__" and (code := main(sys.argv[1:])):
    # Glue takes any exit, that of success as well, for a failure.
    sys.exit(code)
