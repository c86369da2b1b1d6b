"""A bucket as a file system of Spark: S3 behind the WebHDFS protocol.

Glue's Spark reads and writes `s3://` by S3A, whose library no package index has. Spark itself
brings a client of WebHDFS, whose requests become S3's here, as S3A would make them: a rename is a
copy and a removal, and a folder without files is an object whose name ends in a slash.
https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/WebHDFS.html
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from botocore.exceptions import ClientError

from tests.rehearsal.glue.http_service import answer, body_of, serving

_ROOT: Final = "/webhdfs/v1/"
_BLOCK_BYTES: Final = 128 * 1024 * 1024
_REMOVED_AT_ONCE: Final = 1000


class Bucket:
    """A bucket's objects as files and folders, by paths without a slash at either end."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self.name = name

    def status(self, path: str) -> dict[str, Any] | None:
        """Of a file or folder; None: there is none."""
        if path:
            try:
                head = self._client.head_object(Bucket=self.name, Key=path)
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                    raise
            else:
                return _status("", "FILE", head["ContentLength"], head["LastModified"])
        prefix = f"{path}/" if path else ""
        found = self._client.list_objects_v2(Bucket=self.name, Prefix=prefix, MaxKeys=1)
        return _status("", "DIRECTORY") if found.get("KeyCount") or not path else None

    def children(self, path: str) -> list[dict[str, Any]] | None:
        """Of a folder, or the file itself; None: there is none."""
        its = self.status(path)
        if its is None:
            return None
        if its["type"] == "FILE":
            return [its]
        prefix = f"{path}/" if path else ""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=prefix, Delimiter="/"
        )
        found = []
        for page in pages:
            for one in page.get("CommonPrefixes", ()):
                name = one["Prefix"][len(prefix) : -1]
                found.append(_status(name, "DIRECTORY"))
            for one in page.get("Contents", ()):
                name = one["Key"].removeprefix(prefix)
                if name:
                    found.append(_status(name, "FILE", one["Size"], one["LastModified"]))
        return found

    def read(self, path: str, offset: int, length: int | None) -> bytes:
        """A part of a file."""
        if length == 0:
            return b""
        end = "" if length is None else offset + length - 1
        asked = {"Range": f"bytes={offset}-{end}"} if offset or length is not None else {}
        got = self._client.get_object(Bucket=self.name, Key=path, **asked)
        content: bytes = got["Body"].read()
        return content

    def write(self, path: str, content: bytes) -> None:
        self._client.put_object(Bucket=self.name, Key=path, Body=content)

    def make(self, path: str) -> None:
        """Make a folder, unless it is there."""
        if path and self.status(path) is None:
            self.write(f"{path}/", b"")

    def move(self, path: str, to: str) -> bool:
        """Rename a file, or a folder with all that is in it; into `to` where that is a folder."""
        there = self.status(to)
        if self.status(path) is None or (there is not None and there["type"] == "FILE"):
            return False
        target = to if there is None else f"{to}/{path.rpartition('/')[2]}"
        for key in self._keys(path):
            source = {"Bucket": self.name, "Key": key}
            name = target + key.removeprefix(path)
            self._client.copy_object(Bucket=self.name, Key=name, CopySource=source)
        return self.remove(path)

    def remove(self, path: str) -> bool:
        """Remove a file, or a folder with all that is in it; its folder stays."""
        keys = self._keys(path)
        for start in range(0, len(keys), _REMOVED_AT_ONCE):
            some = [{"Key": key} for key in keys[start : start + _REMOVED_AT_ONCE]]
            self._client.delete_objects(Bucket=self.name, Delete={"Objects": some})
        self.make(path.rpartition("/")[0])
        return bool(keys)

    def _keys(self, path: str) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=f"{path}/"
        )
        within = [one["Key"] for page in pages for one in page.get("Contents", ())]
        its = self.status(path)
        return [path, *within] if its is not None and its["type"] == "FILE" else within


def _status(name: str, kind: str, size: int = 0, modified: Any = None) -> dict[str, Any]:
    modified_ms = int(modified.timestamp() * 1000) if modified is not None else 0
    return {
        "pathSuffix": name,
        "type": kind,
        "length": size,
        "modificationTime": modified_ms,
        "accessTime": modified_ms,
        "blockSize": _BLOCK_BYTES,
        "replication": 1,
        "owner": "job",
        "group": "job",
        "permission": "755",
        "fileId": 0,
        "childrenNum": 0,
        "storagePolicy": 0,
    }


class _Missing(Exception):  # noqa: N818 - what is not there is no error of ours
    """There is nothing of this name."""


class _Handler(BaseHTTPRequestHandler):
    """Requests of Hadoop's client of WebHDFS."""

    protocol_version = "HTTP/1.1"
    bucket: Bucket

    def do_GET(self) -> None:
        self._answer(
            {
                "GETFILESTATUS": self._status,
                "LISTSTATUS": self._list,
                "OPEN": self._open,
                "GET_BLOCK_LOCATIONS": self._blocks,
                "GETHOMEDIRECTORY": self._home,
            }
        )

    def do_PUT(self) -> None:
        self._answer({"CREATE": self._create, "MKDIRS": self._make, "RENAME": self._move})

    def do_DELETE(self) -> None:
        self._answer({"DELETE": self._remove})

    def log_message(self, *_: object) -> None:
        """Say nothing: what S3 is asked for is recorded."""

    def _answer(self, known: dict[str, Callable[[], None]]) -> None:
        asked = urlsplit(self.path)
        self._path = unquote(asked.path.removeprefix(_ROOT)).strip("/")
        self._asked = {name.lower(): value for name, value in parse_qsl(asked.query)}
        name = self._asked["op"].upper()
        if name not in known:
            self._refuse(400, "UnsupportedOperationException", "java.lang", name)
            return
        try:
            known[name]()
        except _Missing:
            self._refuse(404, "FileNotFoundException", "java.io", self._path)
        except ClientError as error:
            self._refuse(403, "IOException", "java.io", f"{self._path}: {error}")

    def _refuse(self, status: int, kind: str, package: str, message: str) -> None:
        said = {"exception": kind, "javaClassName": f"{package}.{kind}", "message": message}
        body_of(self)
        self._say({"RemoteException": said}, status)

    def _say(self, said: dict[str, Any], status: int = 200) -> None:
        answer(self, status, json.dumps(said).encode(), Content_Type="application/json")

    def _home(self) -> None:
        self._say({"Path": "/"})

    def _status(self) -> None:
        its = self.bucket.status(self._path)
        if its is None:
            raise _Missing
        self._say({"FileStatus": its})

    def _list(self) -> None:
        found = self.bucket.children(self._path)
        if found is None:
            raise _Missing
        self._say({"FileStatuses": {"FileStatus": found}})

    def _open(self) -> None:
        length = self._asked.get("length")
        offset = int(self._asked.get("offset", 0))
        content = self.bucket.read(self._path, offset, int(length) if length else None)
        answer(self, 200, content, Content_Type="application/octet-stream")

    def _blocks(self) -> None:
        its = self.bucket.status(self._path)
        if its is None:
            raise _Missing
        # Nowhere in particular: no executor is nearer to it than others.
        blocks: dict[str, Any] = {"locatedBlocks": [], "lastLocatedBlock": None}
        said = {"fileLength": its["length"], "isUnderConstruction": False, **blocks}
        self._say({"LocatedBlocks": {**said, "isLastBlockComplete": True}})

    def _create(self) -> None:
        if "data" not in self._asked:
            body_of(self)
            address = f"http://{self.headers['Host']}{self.path}&data=true"
            answer(self, 307, b"", Location=address)
            return
        content = body_of(self)
        self.bucket.write(self._path, content)
        answer(self, 201, b"")

    def _make(self) -> None:
        body_of(self)
        self.bucket.make(self._path)
        self._say({"boolean": True})

    def _move(self) -> None:
        body_of(self)
        to = self._asked["destination"].strip("/")
        self._say({"boolean": self.bucket.move(self._path, to)})

    def _remove(self) -> None:
        self._say({"boolean": self.bucket.remove(self._path)})


@contextmanager
def files_of(client: Any, bucket: str, folders: Iterable[str]) -> Iterator[dict[str, str]]:
    """Settings by which Spark finds these folders of a bucket under `s3://`."""
    handler = type("_Handler", (_Handler,), {"bucket": Bucket(client, bucket)})
    mounts = f"spark.hadoop.fs.viewfs.mounttable.{bucket}.link"
    with serving(handler) as url:
        place = f"webhdfs://{urlsplit(url).netloc}"
        yield {
            "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
            **{f"{mounts}./{folder}": f"{place}/{folder}" for folder in folders},
        }
