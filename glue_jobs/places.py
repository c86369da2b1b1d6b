"""Where jobs read and write: a folder, or a prefix in a bucket. Names have slashes."""

import builtins
import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path, PurePosixPath
from shutil import rmtree
from typing import Any, Final, Protocol

_S3: Final = "s3://"
_FILES: Final = frozenset({".json", ".jsonl", ".parquet"})
"""What names of objects end in, and names of folders do not."""

_LINK: Final = "it is a link, and links are never followed"


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """An object's name in its place, and its size in bytes.

    `modified_s` is when it was written, in seconds since the epoch; 0: its place does not say.
    `odd` says why it is no object ("": it is one).
    """

    name: str
    bytes: int
    modified_s: float = field(default=0, compare=False)
    odd: str = field(default="", compare=False)


class Place(Protocol):
    """Objects by their names."""

    url: str
    """What Spark calls it, without a slash at its end."""

    def list(self, prefix: str) -> list[Found]:
        """Objects whose names begin so, in order of their names; names of dots are passed over."""

    def beneath(self, folder: str) -> "tuple[builtins.list[str], builtins.list[Found]]":
        """Names of the folders right in one (whose name ends in a slash), and the rest of it.

        What is odd there is among the rest; names of dots are passed over.
        """

    def odd(self, prefix: str) -> "builtins.list[Found]":
        """What lies where such objects should and is none, with why: it is never read."""

    def read(self, name: str) -> bytes:
        """An object's content. Raises FileNotFoundError; OSError where a link leads to it."""

    def put(self, name: str, content: bytes) -> None:
        """Put an object; one of this name is replaced."""

    def put_new(self, name: str, content: bytes) -> bool:
        """Put an object unless there is one of this name; whether it was put."""

    def move(self, name: str, to: str) -> None:
        """Give an object another name; one of that name is replaced."""

    def clear(self, folder: str) -> None:
        """Remove a folder with all that is in it."""


def place_of(url: str) -> Place:
    """The place that `s3://bucket[/prefix]` or a folder's path names."""
    if url.startswith(_S3):
        bucket, _, prefix = url.removeprefix(_S3).partition("/")
        return S3Place(bucket, prefix.strip("/"))
    return FolderPlace(Path(url).absolute())


def is_missing(url: str) -> bool:
    """Whether this names a folder that is not there. A prefix in a bucket needs no making."""
    return not url.startswith(_S3) and not Path(url).is_dir()


def is_unwritable(url: str) -> bool:
    """Whether this names a folder that cannot be written, or made. Of buckets nobody asks."""
    if url.startswith(_S3):
        return False
    path = Path(url).absolute()
    there = next(its for its in (path, *path.parents) if its.exists())
    return not (there.is_dir() and os.access(there, os.W_OK | os.X_OK))


def read_url(url: str) -> bytes:
    """An object's content, by where it is: a path, or `s3://bucket/key`. Raises as `read` does.

    Whoever names a path may name a link.
    """
    if not url.startswith(_S3):
        return Path(url).read_bytes()
    folder, _, name = url.rpartition("/")
    return place_of(folder).read(name)


class FolderPlace:
    """A folder. What is put is there whole, or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = str(folder)

    def list(self, prefix: str) -> list[Found]:
        """See Place. Links are passed over: whoever may put one could have any file read."""
        if self._link_to(prefix):
            return []
        top = self._folder / prefix.rpartition("/")[0]
        found = (
            Found(str(PurePosixPath(path.relative_to(self._folder))), path.stat().st_size)
            for path in top.rglob("*")
            if not _has_dot(path.relative_to(self._folder).parts)
            and path.is_file()
            and not path.is_symlink()
        )
        return sorted(each for each in found if each.name.startswith(prefix))

    def odd(self, prefix: str) -> "builtins.list[Found]":
        """See Place: links, devices and the like, and folders that are called as files are."""
        if link := self._link_to(prefix):
            return [Found(link, 0, odd=_LINK)]
        top = self._folder / prefix.rpartition("/")[0]
        found = []
        for path in top.rglob("*"):
            its = path.relative_to(self._folder)
            name = str(PurePosixPath(its))
            if (why := _why_odd(path)) and name.startswith(prefix) and not _has_dot(its.parts):
                found.append(Found(name, 0, odd=why))
        return sorted(found)

    def beneath(self, folder: str) -> "tuple[builtins.list[str], builtins.list[Found]]":
        """See Place."""
        if link := self._link_to(folder):
            return [], [Found(link, 0, odd=_LINK)]
        folders, found = [], []
        top = self._folder / folder
        for path in sorted(top.iterdir()) if top.is_dir() else ():
            name = str(PurePosixPath(path.relative_to(self._folder)))
            if path.name.startswith("."):
                continue
            if why := _why_odd(path):
                found.append(Found(name, 0, odd=why))
            elif path.is_dir():
                folders.append(name)
            else:
                found.append(Found(name, path.stat().st_size))
        return folders, found

    def _link_to(self, name: str) -> str:
        """The first folder on the way to a name that is a link; "": none is."""
        above = PurePosixPath(name.rpartition("/")[0])
        for folder in (*reversed(above.parents), above):
            if str(folder) != "." and (self._folder / folder).is_symlink():
                return str(folder)
        return ""

    def read(self, name: str) -> bytes:
        """See Place."""
        if ".." in PurePosixPath(name).parts or self._link_to(name):
            raise OSError(errno.ELOOP, f"{name} is not in {self.url}", name)
        opened = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(opened, "rb") as file:
            return file.read()

    def put(self, name: str, content: bytes) -> None:
        """See Place."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_bytes(content)
        draft.replace(path)

    def put_new(self, name: str, content: bytes) -> bool:
        """See Place."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_bytes(content)
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def move(self, name: str, to: str) -> None:
        """See Place."""
        target = self._folder / to
        target.parent.mkdir(parents=True, exist_ok=True)
        (self._folder / name).replace(target)

    def clear(self, folder: str) -> None:
        """See Place."""
        path = self._folder / folder
        if path.exists():
            rmtree(path)
        # As in a bucket, there are no folders without objects in them.
        for above in path.parents:
            if above == self._folder or (above.exists() and any(above.iterdir())):
                break
            if above.exists():
                above.rmdir()


class S3Place:
    """A prefix in a bucket. The client is made where it is used: places travel to executors."""

    def __init__(self, bucket: str, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self.url = f"{_S3}{bucket}/{prefix}".rstrip("/")

    def list(self, prefix: str) -> list[Found]:
        """See Place. Names that end in a slash are passed over, too: they mark empty folders.

        S3A puts them, and the console of S3.
        """
        found = self.every(prefix)
        return [
            each
            for each in found
            if not _has_dot(each.name.split("/")) and not f"/{each.name}".endswith("/")
        ]

    def every(self, prefix: str) -> "builtins.list[Found]":
        """All objects whose names begin so, whatever they are called, in order of their names."""
        pages = self._client().get_paginator("list_objects_v2")
        return sorted(
            Found(
                its["Key"].removeprefix(self._prefix), its["Size"], its["LastModified"].timestamp()
            )
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix)
            for its in page.get("Contents", ())
        )

    def beneath(self, folder: str) -> "tuple[builtins.list[str], builtins.list[Found]]":
        """See Place."""
        pages = self._client().get_paginator("list_objects_v2")
        begin = self._prefix + folder
        folders: builtins.list[str] = []
        found: builtins.list[Found] = []
        for page in pages.paginate(Bucket=self._bucket, Prefix=begin, Delimiter="/"):
            names = (its["Prefix"].rstrip("/") for its in page.get("CommonPrefixes", ()))
            folders += [name.removeprefix(self._prefix) for name in names]
            found += [
                Found(its["Key"].removeprefix(self._prefix), its["Size"])
                for its in page.get("Contents", ())
                if its["Key"] != begin
            ]
        return (
            [its for its in folders if not _has_dot(its.split("/"))],
            [its for its in found if not _has_dot(its.name.split("/"))],
        )

    def odd(self, prefix: str) -> "builtins.list[Found]":  # noqa: ARG002 - see Place
        """See Place: whatever a bucket has is an object."""
        return []

    def read(self, name: str) -> bytes:
        """See Place."""
        client = self._client()
        try:
            answer = client.get_object(Bucket=self._bucket, Key=self._prefix + name)
        except client.exceptions.NoSuchKey as error:
            raise FileNotFoundError(f"{self.url}/{name}") from error
        content: bytes = answer["Body"].read()
        return content

    def put(self, name: str, content: bytes) -> None:
        """See Place."""
        self._client().put_object(Bucket=self._bucket, Key=self._prefix + name, Body=content)

    def put_new(self, name: str, content: bytes) -> bool:
        """See Place. Two who put at once are answered 409, and the later one asks again."""
        client = self._client()
        while True:
            try:
                client.put_object(
                    Bucket=self._bucket, Key=self._prefix + name, Body=content, IfNoneMatch="*"
                )
            except client.exceptions.ClientError as error:
                code = error.response["Error"]["Code"]
                if code == "PreconditionFailed":
                    return False
                if code != "ConditionalRequestConflict":
                    raise
            else:
                return True

    def move(self, name: str, to: str) -> None:
        """See Place: a copy within S3, then a removal."""
        self._client().copy(
            {"Bucket": self._bucket, "Key": self._prefix + name}, self._bucket, self._prefix + to
        )
        self._client().delete_object(Bucket=self._bucket, Key=self._prefix + name)

    def clear(self, folder: str) -> None:
        """See Place."""
        client = self._client()
        pages = client.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self._bucket, Prefix=f"{self._prefix}{folder}/"):
            for its in page.get("Contents", ()):
                client.delete_object(Bucket=self._bucket, Key=its["Key"])

    def _client(self) -> Any:
        return import_module("boto3").client("s3")


def _why_odd(path: Path) -> str:
    """Why this is neither a file nor a folder of files, "" where it is."""
    if path.is_symlink():
        return _LINK
    if path.is_dir():
        return "it is a folder with the name of a file" if path.suffix in _FILES else ""
    return "" if path.is_file() else "it is no file"


def _has_dot(parts: Iterable[str]) -> bool:
    return any(part.startswith(".") for part in parts)
