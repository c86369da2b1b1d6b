"""LMDB's data file, read page by page without LMDB.

LMDB trusts its pages: it aborts the process, or reads elsewhere, where one is damaged. So pages are
looked at from here before LMDB is, and what is whole of a damaged file is read from here, too.

The format is that of LMDB 0.9 on a machine of 64 bits, little endian. A file is a row of pages. The
first two are meta pages, which commits write in turn: each says where the trees of its commit
begin. Tree pages have a header (number, flags, where free space begins and ends), then offsets of
nodes in order of their keys, and the nodes at the end. A branch page's nodes name child pages, a
leaf page's have values, or name a run of overflow pages with one. The tree of free pages has the
numbers of pages that no commit needs, by the commit that freed them.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

PAGE_BYTES: Final = 4096
"""Of most machines; a file says which size its own have."""

NO_PAGE: Final = 2**64 - 1
"""The root of a tree without pages."""

FIRST_TREE_PAGE: Final = 2

_PAGE_SIZES: Final = (4096, 8192, 16384, 32768, 65536, 2048, 1024, 512)
_MAGIC: Final = 0xBEEFC0DE
_FORMAT: Final = 1
_HEADER: Final = struct.Struct("<QHHHH")
_META: Final = struct.Struct("<IIQQ")
_TREE: Final = struct.Struct("<IHHQQQQQ")
_END: Final = struct.Struct("<QQ")
_NODE: Final = struct.Struct("<HHHH")
_NUMBER: Final = struct.Struct("<Q")
_RUN: Final = struct.Struct("<QHHI")

_BRANCH: Final = 0x01
_LEAF: Final = 0x02
_OVERFLOW: Final = 0x04
_META_PAGE: Final = 0x08
_DEPTH_MAX: Final = 32

BIG: Final = 0x01
"""Flag of a node whose value is a page number: that of the first overflow page."""
SUBTREE: Final = 0x02
"""Flag of a node whose value describes another tree."""


class PageError(Exception):
    """A page is not what it should be; the message is part of one line."""


class Tree(NamedTuple):
    """A tree, as a meta page or a node describes it. `page_bytes` is set in that of free pages."""

    page_bytes: int
    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    entries: int
    root: int

    @classmethod
    def read(cls, octets: bytes) -> "Tree":
        """The tree that these 48 bytes describe. Raises PageError."""
        if len(octets) != _TREE.size:
            raise PageError(f"a tree is described by {len(octets)} bytes")
        tree = cls(*_TREE.unpack(octets))
        if tree.depth > _DEPTH_MAX or (tree.root == NO_PAGE) != (tree.depth == 0):
            raise PageError(f"a tree has a depth of {tree.depth}")
        return tree

    @property
    def pages(self) -> int:
        """How many pages it has."""
        return self.branch_pages + self.leaf_pages + self.overflow_pages


class Meta(NamedTuple):
    """A meta page: a commit, the trees as it left them, and the last page in use."""

    commit: int
    page_bytes: int
    last_page: int
    free: Tree
    main: Tree


class Node(NamedTuple):
    """What a leaf page has under a key."""

    key: bytes
    flags: int
    value: bytes


class Branch(NamedTuple):
    """A child page, and the lowest key that it may have ("" in the first of a page)."""

    key: bytes
    child: int


class Gap(NamedTuple):
    """A page that cannot be read, and the keys below it: `low <= key < high` (None: no bound)."""

    page: int
    low: bytes | None
    high: bytes | None
    reason: str

    def has(self, key: bytes) -> bool:
        """Whether the key would lie there."""
        return (self.low is None or self.low <= key) and (self.high is None or key < self.high)


def read_meta(octets: bytes) -> Meta:
    """The meta page that begins with these bytes. Raises PageError."""
    if len(octets) < _HEADER.size + _META.size + 2 * _TREE.size + _END.size:
        raise PageError("it is cut off")
    flags = _HEADER.unpack_from(octets)[2]
    offset = _HEADER.size
    magic, version, _address, _map_bytes = _META.unpack_from(octets, offset)
    if not flags & _META_PAGE or magic != _MAGIC:
        raise PageError("it is no meta page")
    if version != _FORMAT:
        raise PageError(f"it has the format {version}")
    offset += _META.size
    free = Tree.read(octets[offset : offset + _TREE.size])
    offset += _TREE.size
    main = Tree.read(octets[offset : offset + _TREE.size])
    last_page, commit = _END.unpack_from(octets, offset + _TREE.size)
    if free.page_bytes not in _PAGE_SIZES:
        raise PageError(f"it says that pages have {free.page_bytes} bytes")
    return Meta(commit, free.page_bytes, last_page, free, main)


class Pages:
    """A data file open for reading; the caller closes the descriptor.

    `metas` has the meta pages that are whole, the latest commit's first; `meta_errors` says what is
    wrong with the others.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.size_bytes = os.fstat(fd).st_size
        self.page_bytes = PAGE_BYTES
        self.metas: list[Meta] = []
        self.meta_errors: list[str] = []
        self._read_metas()
        self.count = self.size_bytes // self.page_bytes

    def _read_metas(self) -> None:
        found: list[Meta] = []
        try:
            found.append(read_meta(self._read_at(0, PAGE_BYTES)))
            self.page_bytes = found[0].page_bytes
        except PageError as error:
            self.meta_errors.append(f"page 0: {error}")
        sizes = (self.page_bytes,) if found else _PAGE_SIZES
        second = "it is no meta page"
        for page_bytes in sizes:
            try:
                meta = read_meta(self._read_at(page_bytes, PAGE_BYTES))
            except PageError as error:
                second = str(error)
                continue
            if meta.page_bytes == page_bytes:
                self.page_bytes = page_bytes
                found.append(meta)
                break
        else:
            self.meta_errors.append(f"page 1: {second}")
        self.metas = sorted(found, key=lambda meta: meta.commit, reverse=True)

    def _read_at(self, offset: int, size_bytes: int) -> bytes:
        try:
            return os.pread(self._fd, size_bytes, offset)
        except OSError as error:
            raise PageError(f"it cannot be read: {error.strerror}") from error

    def read(self, number: int) -> bytes:
        """The bytes of a page. Raises PageError."""
        octets = self._read_at(number * self.page_bytes, self.page_bytes)
        if len(octets) < self.page_bytes:
            raise PageError("it lies behind the end of the file")
        return octets

    def branches(self, number: int, octets: bytes) -> list[Branch]:
        """The children of a branch page. Raises PageError."""
        found: list[Branch] = []
        for offset in self._offsets(number, octets, _BRANCH):
            low, high, top, key_bytes = _NODE.unpack_from(octets, offset)
            begin = offset + _NODE.size
            if begin + key_bytes > self.page_bytes:
                raise PageError("a node reaches over its end")
            key = octets[begin : begin + key_bytes]
            found.append(Branch(key, low | high << 16 | top << 32))
        if not found:
            raise PageError("it has no children")
        return found

    def leaves(self, number: int, octets: bytes) -> list[Node]:
        """The nodes of a leaf page. Raises PageError."""
        found: list[Node] = []
        for offset in self._offsets(number, octets, _LEAF):
            low, high, flags, key_bytes = _NODE.unpack_from(octets, offset)
            begin = offset + _NODE.size
            value_begin = begin + key_bytes
            size_bytes = _NUMBER.size if flags & BIG else low | high << 16
            end = value_begin + size_bytes
            if end > self.page_bytes or flags & ~(BIG | SUBTREE) or not key_bytes:
                raise PageError("a node is none, or reaches over its end")
            value = octets[value_begin:end]
            if flags & BIG:
                value = value + _NUMBER.pack(low | high << 16)
            found.append(Node(octets[begin:value_begin], flags, value))
        return found

    def _offsets(self, number: int, octets: bytes, kind: int) -> tuple[int, ...]:
        own_number, _pad, flags, lower, upper = _HEADER.unpack_from(octets)
        if flags != kind:
            raise PageError(f"it is no {'leaf' if kind == _LEAF else 'branch'} page")
        if own_number != number:
            raise PageError(f"it says that it is page {own_number}")
        if not _HEADER.size <= lower <= upper <= self.page_bytes or lower % 2:
            raise PageError("its free space is out of bounds")
        count = (lower - _HEADER.size) // 2
        offsets = struct.unpack_from(f"<{count}H", octets, _HEADER.size)
        if count and not upper <= min(offsets) <= max(offsets) <= self.page_bytes - _NODE.size:
            raise PageError("a node is out of bounds")
        return offsets

    def big_value(self, node: Node, last_page: int) -> tuple[bytes, range]:
        """A value that lies in overflow pages, and those pages. Raises PageError."""
        first, size_bytes = struct.unpack("<QQ", node.value)
        count = -(-(size_bytes + _HEADER.size) // self.page_bytes)
        if not FIRST_TREE_PAGE <= first <= last_page - count + 1:
            raise PageError(f"a value of {size_bytes} bytes cannot begin in page {first}")
        octets = self._read_at(first * self.page_bytes, count * self.page_bytes)
        own_number, _pad, flags, pages = _RUN.unpack(octets[: _RUN.size].ljust(_RUN.size, b"\0"))
        if own_number != first or flags != _OVERFLOW or pages != count:
            raise PageError(f"page {first} does not begin a value of {size_bytes} bytes")
        if len(octets) < count * self.page_bytes:
            raise PageError("a value lies behind the end of the file")
        return octets[_HEADER.size : _HEADER.size + size_bytes], range(first, first + count)


class Leaf(NamedTuple):
    """A leaf page: its number, its nodes, and from where to where its keys lie (None: no bound)."""

    number: int
    nodes: list[Node]
    low: bytes | None
    high: bytes | None


@dataclass(slots=True)
class Walk:
    """A walk over trees of one commit. `seen` has 1 for each page that belongs to them.

    Pages that are not as they should be become `gaps`; with `stops` the first one ends the walk
    by a PageError. Without `reads_leaves` it stops short of leaf pages.
    """

    pages: Pages
    last_page: int
    stops: bool = False
    reads_leaves: bool = True
    gaps: list[Gap] = field(default_factory=list)
    seen: bytearray = field(init=False)

    def __post_init__(self) -> None:
        self.seen = bytearray(min(self.last_page + 1, self.pages.count) + FIRST_TREE_PAGE)

    def leaves(self, tree: Tree, *, by_number: bool = False) -> Iterator[Leaf]:
        """The leaf pages of a tree in order of their keys. Raises PageError.

        Keys of the tree of free pages are in order `by_number`.
        """
        stack: list[tuple[int, int, bytes | None, bytes | None]] = []
        if tree.root != NO_PAGE:
            stack.append((tree.root, 1, None, None))
        while stack:
            number, level, low, high = stack.pop()
            try:
                octets = self._claim(number)
                if level < tree.depth:
                    children = self.pages.branches(number, octets)
                    keys = _ordered([child.key for child in children[1:]], by_number=by_number)
                    check_order(keys, low, high)
                    self.seen[number] = 1
                    if level + 1 < tree.depth or self.reads_leaves:
                        stack += _below(level, children, keys, low, high)
                    continue
                nodes = self.pages.leaves(number, octets)
                ordered = _ordered([node.key for node in nodes], by_number=by_number)
                check_order(ordered, low, high)
            except PageError as error:
                self._leave_out(number, low, high, str(error))
                continue
            self.seen[number] = 1
            yield Leaf(number, nodes, low, high)

    def value(self, node: Node) -> bytes:
        """The value of a node of this page, wherever it lies. Raises PageError."""
        if not node.flags & BIG:
            return node.value
        value, run = self.pages.big_value(node, self.last_page)
        for page in run:
            if page >= len(self.seen) or self.seen[page]:
                raise PageError(f"page {page} is used twice")
            self.seen[page] = 1
        return value

    def _claim(self, number: int) -> bytes:
        if not FIRST_TREE_PAGE <= number <= self.last_page:
            raise PageError("it is not within the file")
        octets = self.pages.read(number)
        if self.seen[number]:
            raise PageError("it is used twice")
        return octets

    def _leave_out(self, number: int, low: bytes | None, high: bytes | None, reason: str) -> None:
        if self.stops:
            raise PageError(f"page {number}: {reason}")
        self.gaps.append(Gap(number, low, high, reason))


def _ordered(keys: list[bytes], *, by_number: bool) -> list[bytes]:
    """Keys as they compare bytewise; numbers are stored with their lowest byte first."""
    return [key[::-1] for key in keys] if by_number else keys


def check_order(keys: list[bytes], low: bytes | None, high: bytes | None) -> None:
    """Raise PageError unless the keys of a page ascend and lie within its bounds."""
    if not keys:
        return
    if any(map(bytes.__ge__, keys, keys[1:])):
        raise PageError("its keys are not in order")
    if (low is not None and keys[0] < low) or (high is not None and keys[-1] >= high):
        raise PageError("it has keys that belong elsewhere")


def _below(
    level: int, children: list[Branch], keys: list[bytes], low: bytes | None, high: bytes | None
) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """The children with their bounds, the last one first: a stack gives the first one back."""
    bounds: list[bytes | None] = [low, *keys, high]
    return [
        (child.child, level + 1, bounds[index], bounds[index + 1])
        for index, child in reversed(list(enumerate(children)))
    ]


def free_pages(octets: bytes, last_page: int) -> tuple[int, ...]:
    """The page numbers that a value in the tree of free pages lists. Raises PageError."""
    if len(octets) < _NUMBER.size or len(octets) % _NUMBER.size:
        raise PageError("a list of free pages is cut off")
    count, *numbers = struct.unpack(f"<{len(octets) // _NUMBER.size}Q", octets)
    if count > len(numbers):
        raise PageError("a list of free pages is cut off")
    listed = tuple(numbers[:count])
    if listed and not FIRST_TREE_PAGE <= min(listed) <= max(listed) <= last_page:
        raise PageError("a list of free pages names others than those of the file")
    return listed
