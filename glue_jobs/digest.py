"""The job that adds a digest to a place's chain: one an hour, also where nothing is new.

`verifier.py` has the format, and says what a chain proves (docs/audit.md).
"""

import hashlib
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from glue_jobs.arguments import Argument, JobError, read
from glue_jobs.places import Place, S3Place, place_of
from glue_jobs.verifier import DIGESTS, NO_DIGEST, Digest, Folder, Listed, Tree, chain_of

ARGUMENTS = (
    Argument("place", "Folder or s3://bucket/prefix whose objects are to be in the chain."),
    Argument("hour", "The hour that has ended, UTC, such as 2026-11-21T19, or last."),
    Argument("apart", "Prefixes of objects that may change, with commas between.", ""),
)


class _Tree:
    """A place, as the verifier looks at one."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def names(self) -> list[str]:
        return [found.name for found in self._place.list("")]

    def read(self, name: str) -> bytes:
        return self._place.read(name)

    def measure(self, name: str) -> tuple[int, str]:
        content = self._place.read(name)
        return len(content), hashlib.sha256(content).hexdigest()


class _BucketTree(_Tree):
    """All objects of a prefix, those that jobs pass over, too; marks of empty folders are none."""

    def __init__(self, place: S3Place) -> None:
        super().__init__(place)
        self._every = place.every

    def names(self) -> list[str]:
        return [
            its.name for its in self._every("") if its.bytes or not f"/{its.name}".endswith("/")
        ]


def tree_of(url: str) -> Tree:
    """What the verifier is to look at, by its path or `s3://bucket[/prefix]`."""
    place = place_of(url)
    return _BucketTree(place) if isinstance(place, S3Place) else Folder(Path(url))


def add_digest(place: Place, hour: str, apart: Sequence[str] = ()) -> Digest:
    """Put the next digest, which names every object that none names yet; the digest.

    One for the hour that is there already is answered instead, so that a job may be repeated.
    Raises JobError where the chain is not whole, or an object that it names is gone.
    """
    tree = _Tree(place)
    names = tree.names()
    chain, wrong = chain_of(tree, [name for name in names if name.startswith(DIGESTS)])
    if wrong and (chain or len(wrong) > 1 or not wrong[0].endswith("there is no digest")):
        raise JobError(f"the chain in {place.url} is not whole: {wrong[0]}")
    if chain and chain[-1].hour >= hour:
        return chain[-1]
    listed = {each.name for digest in chain for each in digest.objects}
    if missing := sorted(listed.difference(names)):
        raise JobError(f"{place.url}: an object that is in the chain is gone: {missing[0]}")
    kept_apart = chain[0].apart if chain else tuple(sorted(apart))
    new = sorted(
        name
        for name in set(names) - listed
        if not name.startswith(DIGESTS) and not name.startswith(kept_apart)
    )
    digest = Digest(
        number=len(chain) + 1,
        previous=chain[-1].hash if chain else NO_DIGEST,
        hour=hour,
        apart=kept_apart,
        objects=tuple(Listed(name, *tree.measure(name)) for name in new),
    )
    place.put_new(digest.name, digest.to_bytes())
    if len(place.list(f"{DIGESTS}{digest.number:08d}-")) != 1:
        raise JobError(f"{place.url}: somebody else has put a digest {digest.number}, too")
    return digest


def main(argv: Sequence[str]) -> int:
    """Add the digest of an hour; the exit code."""
    try:
        options = read(ARGUMENTS, argv)
        apart = [prefix for prefix in options["apart"].split(",") if prefix]
        digest = add_digest(place_of(options["place"]), _named_hour(options["hour"]), apart)
    except JobError as error:
        print(f"digest: {error}", file=sys.stderr)  # noqa: T201 - a job tells its log
        return 1
    told = f"digest {digest.number} of {digest.hour}: {len(digest.objects)} new, head {digest.hash}"
    print(told)  # noqa: T201 - a job tells its log
    return 0


def _named_hour(text: str) -> str:
    """An hour by its name: a schedule says `last`. The one look at the clock."""
    if text != "last":
        return text
    present = datetime(*time.gmtime()[:4], tzinfo=UTC)
    return f"{present - timedelta(hours=1):%Y-%m-%dT%H}"


if __name__ == "__main__" and (code := main(sys.argv[1:])):
    # Glue takes any exit, that of success as well, for a failure.
    sys.exit(code)
