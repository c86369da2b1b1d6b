"""The format of digests and heads: docs/storage.md, *Chains of digests*.

Each digest names the objects that are new since the one before, whose hash it has, and is signed.
"""

import base64
import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

SCHEMA: Final = "tidegate.digest/2"
SCHEMA_1: Final = "tidegate.digest/1"
HEAD_SCHEMA: Final = "tidegate.head/1"
DIGESTS: Final = "digests/"
NO_DIGEST: Final = "0" * 64
"""Stands for the digest before the first."""

_HOUR: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_NAMES_1: Final = ("schema", "number", "previous", "hour", "apart", "objects")
_NAMES_2: Final = ("versions", "changing", "kept_days", "every_hours", "chain", "key")


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as a digest has it."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Version(Listed):
    """An object that may change, as it was; no more once `is_final`, and `counts` never fall."""

    is_final: bool
    counts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Head:
    """What is signed of a digest, and anchored; `signature` is in base64."""

    chain: str
    number: int
    hour: str
    hash: str
    algorithm: str = ""
    key: str = ""
    signature: str = ""

    def message(self) -> bytes:
        """What the signature is of."""
        said = (HEAD_SCHEMA, json.dumps(self.chain), str(self.number), self.hour, self.hash)
        return "".join(f"{each}\n" for each in said).encode()

    def to_bytes(self) -> bytes:
        """As stored: a line."""
        return _line({"schema": HEAD_SCHEMA, **asdict(self)})


@dataclass(frozen=True, slots=True)
class Digest:
    """What is new since the digest before, as of an hour (UTC).

    Objects whose names begin as one of `apart` are not in the chain. Those that begin as one of
    `changing` may change: `versions` has each that is new or did. An object that begins as one of
    `kept_days` may be removed after so many days. `every_hours` a digest is due (0: it is not).
    `chain` is what the place is called, `key` the id of the key that signs ("": nobody does).
    """

    number: int
    previous: str
    hour: str
    apart: tuple[str, ...]
    objects: tuple[Listed, ...]
    versions: tuple[Version, ...] = ()
    changing: tuple[str, ...] = ()
    kept_days: tuple[tuple[str, int], ...] = ()
    every_hours: int = 0
    chain: str = ""
    key: str = ""
    head: Head | None = field(default=None, compare=False)
    schema: str = SCHEMA

    def content(self) -> bytes:
        """Its first line, which is all that its hash is of: there is one way to write it."""
        names = _NAMES_1 if self.schema == SCHEMA_1 else (*_NAMES_1, *_NAMES_2)
        return _line({name: getattr(self, name) for name in names})

    def to_bytes(self) -> bytes:
        """As stored: a line, and that of its head where it is signed."""
        return self.content() + (self.head.to_bytes() if self.head is not None else b"")

    @property
    def hash(self) -> str:
        """The SHA-256 of its first line."""
        return hashlib.sha256(self.content()).hexdigest()

    @property
    def name(self) -> str:
        """What its object is called."""
        return f"{DIGESTS}{self.number:08d}-{self.hash}.json"

    def lets_go(self, name: str, hour: str, present: str) -> bool:
        """Whether by its rules an object may be gone that an hour's digest names."""
        days = [kept for prefix, kept in self.kept_days if name.startswith(prefix)]
        return bool(days) and later(hour, 24 * max(days)) <= present


def later(hour: str, hours: int) -> str:
    """The hour that is so many hours after another one."""
    of = datetime.strptime(hour + "+0000", "%Y-%m-%dT%H%z")
    return f"{of + timedelta(hours=hours):%Y-%m-%dT%H}"


def is_hour(text: str) -> bool:
    """Whether this names an hour, such as 2026-11-21T19."""
    try:
        return bool(_HOUR.fullmatch(text)) and later(text, 0) == text
    except ValueError:
        return False


def _line(members: dict[str, Any]) -> bytes:
    def plain(its: Any) -> list[Any]:
        return [getattr(its, name) for name in its.__match_args__]

    text = json.dumps(members, ensure_ascii=False, separators=(",", ":"), default=plain)
    return text.encode() + b"\n"


def read_digest(content: bytes) -> Digest:
    """A digest from its bytes. Raises ValueError with the reason where they are none."""
    first, _, rest = content.partition(b"\n")
    said: Any = json.loads(first)
    if not isinstance(said, dict) or said.get("schema") not in (SCHEMA, SCHEMA_1):
        raise ValueError(f"it is no {SCHEMA}")
    try:
        said |= {name: tuple(said.get(name, ())) for name in ("apart", "changing")}
        said["objects"] = tuple(Listed(*each) for each in said["objects"])
        versions = [(*each[:-1], tuple(map(tuple, each[-1]))) for each in said.get("versions", ())]
        said["versions"] = tuple(Version(*each) for each in versions)
        said["kept_days"] = tuple(map(tuple, said.get("kept_days", ())))
        digest = Digest(**said, head=read_head(rest) if rest else None)
    except (KeyError, TypeError) as error:
        raise ValueError(f"a member is wrong: {error}") from error
    numbers = (digest.number, digest.every_hours, *(days for _, days in digest.kept_days))
    if any(type(each) is not int for each in numbers) or not is_hour(str(digest.hour)):
        raise ValueError("a number or its hour is none")
    for its in (*digest.objects, *digest.versions):
        if type(its.bytes) is not int or not _HASH.fullmatch(str(its.sha256)):
            raise ValueError(f"size or hash of {its.name!r} is none")
    if digest.to_bytes() != content:
        raise ValueError("it is not written as digests are")
    head = digest.head
    if (head is None) == bool(digest.key):
        raise ValueError("its signature is missing" if digest.key else "it is to have no signature")
    if head is not None and head != head_of(digest, head.algorithm, head.signature):
        raise ValueError("its signature is of another digest")
    return digest


def head_of(digest: Digest, algorithm: str = "", signature: str = "") -> Head:
    """The head of a digest."""
    named = (digest.chain, digest.number, digest.hour, digest.hash)
    return Head(*named, algorithm, digest.key, signature)


def read_head(content: bytes) -> Head:
    """A head from its line. Raises ValueError with the reason where it is none."""
    said: Any = json.loads(content)
    if not isinstance(said, dict) or said.pop("schema", "") != HEAD_SCHEMA:
        raise ValueError(f"it is no {HEAD_SCHEMA}")
    try:
        head = Head(**said)
        plain = base64.b64encode(base64.b64decode(head.signature)).decode()
    except TypeError as error:
        raise ValueError(f"a member is wrong: {error}") from error
    if type(head.number) is not int or head.to_bytes() != content or plain != head.signature:
        raise ValueError("it is not written as heads are")
    return head
