"""Places of blobs, as an operator's setting names them: `s3://bucket[/prefix]`, or a directory."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SCHEME: Final = "s3://"


class BlobsOpenError(Exception):
    """The blob store cannot be opened; the reason is one line that names the setting."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"blobs: {' '.join(reason.split())}")


@dataclass(frozen=True, slots=True)
class S3Place:
    """A prefix in a bucket; the prefix is empty or ends with a slash.

    `endpoint` is where S3's API is served, "" for AWS's own in the region.
    """

    bucket: str
    prefix: str
    endpoint: str
    region: str

    def __str__(self) -> str:
        return f"{_SCHEME}{self.bucket}/{self.prefix}"


Place = S3Place | Path


def place_of(setting: str, folder: str, *, endpoint: str, region: str) -> Place:
    """The folder in what the setting names: `s3://bucket[/prefix]`, or a directory."""
    if not setting.startswith(_SCHEME):
        return Path(setting) / folder
    bucket, _, prefix = setting.removeprefix(_SCHEME).partition("/")
    path = "".join(f"{part}/" for part in (prefix.rstrip("/"), folder) if part)
    return S3Place(bucket, path, endpoint, region)
