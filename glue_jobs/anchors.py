"""Where heads are kept that no editor of a chain's place can change: a file, or another bucket.

Each head is a line (docs/storage.md, *Chains of digests*). A file has them one after the other; a
bucket, or a folder, has an object for each.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

from glue_jobs.arguments import JobError
from glue_jobs.places import Place, place_of
from glue_jobs.verifier import Head, read_head

_S3: Final = "s3://"
_READERS: Final = 16


class Anchor(Protocol):
    """Heads of one chain or several."""

    url: str

    def lines(self) -> list[bytes]:
        """All of them."""

    def newest_first(self) -> Iterator[bytes]:
        """Those with the highest numbers first."""

    def keep(self, head: Head) -> None:
        """Add a head, durably."""


def anchor_of(url: str) -> Anchor:
    """The anchor that `s3://bucket[/prefix]`, a folder's path or a file's names."""
    if url.startswith(_S3) or Path(url).is_dir():
        return PlaceAnchor(place_of(url))
    return FileAnchor(Path(url))


def lines_in(url: str) -> list[bytes]:
    """Heads in an anchor that somebody verifies by. Raises JobError where they cannot be read."""
    if not url.startswith(_S3) and not Path(url).exists():
        raise JobError(f"{url}: there is no such anchor, file or folder")
    try:
        return anchor_of(url).lines()
    except JobError:
        raise
    except Exception as error:  # clients of buckets have errors of their own
        raise JobError(f"{url}: {error}") from error


def newest(anchor: Anchor, chain: str) -> Iterator[Head]:
    """Heads of a chain, the newest first; what is none is passed over: the verifier tells it."""
    for line in anchor.newest_first():
        try:
            head = read_head(line)
        except ValueError:
            continue
        if head.chain == chain:
            yield head


class FileAnchor:
    """A file to which lines are added."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = str(path)

    def lines(self) -> list[bytes]:
        """See Anchor. A file that is not there yet has none."""
        try:
            return self._path.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise JobError(f"{self.url}: {error.strerror}") from error

    def newest_first(self) -> Iterator[bytes]:
        """See Anchor."""
        yield from reversed(self.lines())

    def keep(self, head: Head) -> None:
        """See Anchor."""
        try:
            with self._path.open("ab") as file:
                file.write(head.to_bytes())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise JobError(f"{self.url}: {error.strerror}") from error


class PlaceAnchor:
    """A prefix of a bucket, or a folder."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.url = place.url

    def lines(self) -> list[bytes]:
        """See Anchor."""
        names = [found.name for found in self._place.list("")]
        with ThreadPoolExecutor(_READERS) as readers:
            return list(readers.map(self._place.read, names))

    def newest_first(self) -> Iterator[bytes]:
        """See Anchor."""
        for found in reversed(self._place.list("")):
            yield self._place.read(found.name)

    def keep(self, head: Head) -> None:
        """See Anchor. The same head is put once."""
        self._place.put_new(f"{head.number:08d}-{head.hash}.json", head.to_bytes())
