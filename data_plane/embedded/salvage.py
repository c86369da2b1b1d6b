"""Everything that is whole in a damaged data file, read without LMDB.

What the trees of the last commit lead to is as it was stored. Where a page on the way is damaged,
what was below it lies in pages that no tree leads to and that are not free either: those are looked
through one by one. Free pages have old versions of items, and are left alone; only where the list
of free pages is damaged, too, an old version may be taken for what was below a damaged page.
"""

import struct
from collections.abc import Iterator
from itertools import islice, product
from typing import Final, NamedTuple

from data_plane.embedded.bodies import Head, checked_value, joined_value, read_head
from data_plane.embedded.encoding import (
    ERAS_KEY,
    FORMAT_KEY,
    FORMAT_NAME,
    PRESENT_KEY,
    decode_item,
    wrong_format,
)
from data_plane.embedded.file_check import BODIES_TREE, Descents
from data_plane.embedded.pages import (
    BIG,
    FIRST_TREE_PAGE,
    SUBTREE,
    Gap,
    Meta,
    Node,
    PageError,
    Pages,
    Tree,
    Walk,
    free_pages,
)
from data_plane.ports import DamagedItemError, Value

_NUMBER_BYTES: Final = 8
_NUMBER_MAX: Final = 1 << 48
"""Above any piece's number, and below what a number of the list of free pages looks like."""

_HEADER_BYTES: Final = 16
_LOWER_AT: Final = 12
_TRIES_MAX: Final = 256
_STAMP_MAX: Final = 1 << 60


class Found(NamedTuple):
    """An item's key with its value (a MessagePack map); None: it is damaged."""

    key: bytes
    value: bytes | None


class Salvage:
    """What a data file has; the caller keeps the descriptor open.

    `gaps` are damaged pages of the trees; `notes` say what else is wrong. `present_us` is the last
    stamp given out, 0 where it is not known. Without `free_is_whole` deleted items may be found.
    """

    def __init__(self, fd: int) -> None:
        self.pages = Pages(fd)
        self.notes = list(self.pages.meta_errors)
        self.present_us = 0
        self.meta = self._choose_meta()
        last_page = self.meta.last_page if self.meta else self.pages.count - 1
        if last_page >= self.pages.count:
            self.notes.append(f"the file ends before its page {self.pages.count}, of {last_page}")
        self._walk = Walk(self.pages, last_page)
        self._free = bytearray(len(self._walk.seen))
        self.free_is_whole = self._read_free()
        self._pieces: dict[int, tuple[int, int]] = {}
        self._other_pieces: dict[int, list[tuple[int, int]]] = {}
        self._nodes_of: tuple[int, list[Node]] = (-1, [])
        bodies = self._walk_main()
        self._main_gaps = list(self._walk.gaps)
        self._walk_bodies(bodies)
        self._bodies_gaps = self._walk.gaps[len(self._main_gaps) :]
        if self.meta is None or bodies is None:
            self._bodies_gaps.append(Gap(0, None, None, "its root is not known"))
        self._strays: list[int] = []
        if self._main_gaps or self._bodies_gaps:
            self._look_through()

    @property
    def gaps(self) -> list[Gap]:
        """Damaged pages of both trees."""
        return [gap for gap in (*self._main_gaps, *self._bodies_gaps) if gap.page]

    def _choose_meta(self) -> Meta | None:
        """The last commit. Where the numbers cannot be, the times of the commits decide."""
        metas = self.pages.metas
        if not metas:
            self.notes.append("no root is whole: what was deleted may be back")
            return None
        if len(metas) == 1:
            self.notes.append("what the last commit changed may be as it was before")
        elif metas[0].commit - metas[1].commit > 1:
            self.notes.append("the roots are not of commits that follow each other")
            metas = sorted(metas, key=self._present_us, reverse=True)
        self.present_us = self._present_us(metas[0])
        return metas[0]

    def _present_us(self, meta: Meta) -> int:
        """When a commit was made, 0 where that cannot be read."""
        value = self._record(meta, PRESENT_KEY)
        if value is None or len(value) != _NUMBER_BYTES:
            return 0
        return int.from_bytes(value, "big") % _STAMP_MAX

    def eras(self) -> bytes | None:
        """What the last commit knew of the world's time; None where that cannot be read."""
        return self._record(self.meta, ERAS_KEY) if self.meta is not None else None

    @property
    def wrong_format(self) -> str:
        """What the file holds that no program of this format reads; "": nothing else is known.

        A format that is none at all says nothing where other pages are damaged.
        """
        found = self._record(self.meta, FORMAT_KEY) if self.meta is not None else None
        if found is None or (self.gaps and not found.startswith(FORMAT_NAME)):
            return ""
        return wrong_format(found)

    def _record(self, meta: Meta, key: bytes) -> bytes | None:
        try:
            node = Descents(self.pages, meta).find(meta.main, key)
        except PageError:
            return None
        return node.value if node is not None else None

    def _read_free(self) -> bool:
        """Mark the pages that are free; whether all of them are known."""
        if self.meta is None:
            return False
        try:
            for leaf in self._walk.leaves(self.meta.free, by_number=True):
                for node in leaf.nodes:
                    for page in free_pages(self._walk.value(node), self.meta.last_page):
                        if page < len(self._free):
                            self._free[page] = 1
        except PageError as error:
            self.notes.append(f"free pages: {error}")
            return False
        damaged = self._walk.gaps
        self.notes += [f"free pages: page {gap.page}: {gap.reason}" for gap in damaged]
        self._walk.gaps = []
        return not damaged

    def _walk_main(self) -> Tree | None:
        """Walk the tree of items once; answers that of pieces, if it is found."""
        if self.meta is None:
            self._walk.gaps.append(Gap(0, None, None, "its root is not known"))
            return None
        bodies: Tree | None = None
        for leaf in self._walk.leaves(self.meta.main):
            for node in leaf.nodes:
                if node.key == BODIES_TREE and node.flags & SUBTREE:
                    bodies = _tree(node)
        return bodies

    def _walk_bodies(self, tree: Tree | None) -> None:
        if tree is None:
            return
        for leaf in self._walk.leaves(tree):
            self._note_pieces(leaf.number, leaf.nodes)

    def _note_pieces(self, number: int, nodes: list[Node]) -> None:
        for index, node in enumerate(nodes):
            if len(node.key) == _NUMBER_BYTES:
                piece, place = int.from_bytes(node.key, "big"), (number, index)
                if self._pieces.setdefault(piece, place) != place:
                    self._other_pieces.setdefault(piece, []).append(place)

    def _look_through(self) -> None:
        """Find leaf pages that no tree leads to."""
        for number in range(FIRST_TREE_PAGE, self.pages.count):
            if number < len(self._free) and (self._free[number] or self._walk.seen[number]):
                continue
            nodes = self._nodes(number)
            if not nodes:
                continue
            if any(node.key == BODIES_TREE and node.flags & SUBTREE for node in nodes):
                found = next(node for node in nodes if node.key == BODIES_TREE)
                self._walk_bodies(_tree(found))
            if _has_pieces(nodes):
                self._note_pieces(number, nodes)
            else:
                self._strays.append(number)

    def _nodes(self, number: int) -> list[Node]:
        """The nodes of a leaf page, of a damaged one those that are whole by themselves."""
        if self._nodes_of[0] == number:
            return self._nodes_of[1]
        nodes: list[Node] = []
        try:
            octets = self.pages.read(number)
        except PageError:
            return nodes
        try:
            nodes = self.pages.leaves(number, octets)
        except PageError:
            if any(gap.page == number for gap in (*self._main_gaps, *self._bodies_gaps)):
                nodes = _single_nodes(octets)
        self._nodes_of = number, nodes
        return nodes

    def items(self) -> Iterator[Found]:
        """All items, those that the trees lead to first, in order of their keys."""
        if self.meta is not None:
            walk = Walk(self.pages, self._walk.last_page)
            for leaf in walk.leaves(self.meta.main):
                yield from self._found(leaf.nodes)
        if self.free_is_whole:
            for number in self._strays:
                yield from self._found(self._nodes(number))
        else:
            yield from self._latest_strays()

    def _latest_strays(self) -> Iterator[Found]:
        """Of stray items those that were below a damaged page, each in its latest version."""
        latest: dict[bytes, tuple[tuple[int, ...], Found]] = {}
        for number in self._strays:
            for found in self._found(self._nodes(number)):
                if not any(gap.has(found.key) for gap in self._main_gaps):
                    continue
                age = _age(found)
                if found.key not in latest or age > latest[found.key][0]:
                    latest[found.key] = age, found
        for _age_of, found in latest.values():
            yield found

    def _found(self, nodes: list[Node]) -> Iterator[Found]:
        for node in nodes:
            if node.key.find(b"\0") > 0 and not node.flags & SUBTREE:
                yield Found(node.key, self._value(node))

    def _value(self, node: Node) -> bytes | None:
        try:
            stored = node.value
            if node.flags & BIG:
                stored = self.pages.big_value(node, self._walk.last_page)[0]
            head = read_head(node.key, stored)
            value = checked_value(node.key, stored) if head is None else self._join(node.key, head)
            decode_item(value)
            return bytes(value)
        except (DamagedItemError, PageError):
            return None

    def _join(self, key: bytes, head: Head) -> bytes | memoryview:
        """The value of pieces; where there are old ones, too, the checksum says which it has."""
        places: list[list[tuple[int, int]]] = []
        size_bytes, number = 0, head.first
        while size_bytes < head.size_bytes:
            first = self._pieces.get(number)
            if first is None:
                raise DamagedItemError("a piece of a value is missing")
            places.append([first, *self._other_pieces.get(number, ())])
            size_bytes += len(self._piece(*first)) or head.size_bytes
            number += 1
        error = DamagedItemError("no pieces are whole")
        for chosen in islice(product(*places), _TRIES_MAX):
            try:
                return joined_value(key, head, b"".join(self._piece(*place) for place in chosen))
            except DamagedItemError as raised:
                error = raised
        raise error

    def _piece(self, page: int, index: int) -> bytes:
        nodes = self._nodes(page)
        return nodes[index].value if index < len(nodes) else b""


def _tree(node: Node) -> Tree | None:
    try:
        return Tree.read(node.value)
    except PageError:
        return None


def _has_pieces(nodes: list[Node]) -> bool:
    return all(
        len(node.key) == _NUMBER_BYTES
        and node.key != PRESENT_KEY
        and not node.flags
        and int.from_bytes(node.key, "big") < _NUMBER_MAX
        for node in nodes
    )


def _single_nodes(octets: bytes) -> list[Node]:
    """The nodes of a damaged page that prove themselves: by a checksum, or later as pieces of one.

    Offsets of nodes that the page had before may lie behind its own, and so may those nodes: they
    end where the page says, or where keys do not ascend any more.
    """
    nodes: list[Node] = []
    (lower,) = struct.unpack_from("<H", octets, _LOWER_AT)
    if not _HEADER_BYTES <= lower <= len(octets):
        lower = len(octets)
    for place in range(_HEADER_BYTES, lower - 1, 2):
        (offset,) = struct.unpack_from("<H", octets, place)
        if not place + 2 <= offset <= len(octets) - 8:
            continue
        low, high, flags, key_bytes = struct.unpack_from("<HHHH", octets, offset)
        begin = offset + 8 + key_bytes
        end = begin + (low | high << 16)
        if flags or not key_bytes or end > len(octets):
            continue
        node = Node(octets[offset + 8 : begin], 0, octets[begin:end])
        if _has_pieces([node]) or _proves_itself(node):
            if nodes and node.key <= nodes[-1].key:
                break
            nodes.append(node)
    return nodes


def _proves_itself(node: Node) -> bool:
    try:
        if read_head(node.key, node.value) is not None:
            return True
        return checked_value(node.key, node.value) is not node.value
    except DamagedItemError:
        return False


def _age(found: Found) -> tuple[int, ...]:
    """What is greater in a later version of an item: more revisions, more deletes, a later time."""
    item: dict[str, Value] = decode_item(found.value) if found.value is not None else {}
    numbers = [number for name in "Rtx" if isinstance(number := item.get(name, 0), int)]
    deleted = item.get("d")
    return (
        found.value is not None,
        len(deleted) if isinstance(deleted, frozenset) else 0,
        *numbers,
    )
