"""Whether a data file is whole, found out before LMDB maps it, and again while it is in use.

A file that is shorter than its pages, or has a page that is not what the pages above it say, is
refused: LMDB would end the process at the first touch. Single values that fail their checksum leave
the rest usable: they are told, and answered as damaged.
"""

import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from data_plane.embedded.bodies import checked_value, own_key, read_head
from data_plane.embedded.damage import DamagedItems
from data_plane.embedded.encoding import decode_item
from data_plane.embedded.pages import (
    BIG,
    FIRST_TREE_PAGE,
    NO_PAGE,
    SUBTREE,
    Leaf,
    Meta,
    Node,
    PageError,
    Pages,
    Tree,
    Walk,
    check_order,
    free_pages,
)
from data_plane.ports import DamagedItemError

PAGES_AT_START_MAX: Final = 65_536
"""Of bigger stores only branch pages and free pages are looked at before they serve: half a second
for each 256 MiB would let the start grow with what is stored. The rest follows while they serve."""

_NO_LEAF: Final = Leaf(NO_PAGE, [], None, None)

BODIES_TREE: Final = b"\x01bodies"
"""Without the zero byte that every item's key has."""


class FileDamageError(Exception):
    """The file is damaged; the message is part of one line."""


class PageLook(NamedTuple):
    """What a look at the rest of a file goes on from: a tree, and the keys that were seen."""

    in_bodies: bool = True
    after: bytes = b""


def check_file(path: Path, damaged: DamagedItems, *, whole: bool) -> None:
    """Look at a file that nobody has mapped; an empty one is whole.

    All of its pages, if there are not too many or it is to be `whole`. Damaged values go to
    `damaged`. Raises FileDamageError, OSError.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_size:
            _check(Pages(fd), damaged, whole=whole)
    except PageError as error:
        raise FileDamageError(str(error)) from error
    finally:
        os.close(fd)


def check_size(fd: int) -> None:
    """Raise FileDamageError if the file is shorter than its pages, or has no beginning."""
    try:
        pages = Pages(fd)
        if pages.size_bytes:
            newest_commit(pages)
    except PageError as error:
        raise FileDamageError(str(error)) from error


def newest_commit(pages: Pages) -> Meta:
    """The last commit. Raises PageError."""
    if pages.meta_errors:
        raise PageError(pages.meta_errors[0])
    newest, before = pages.metas
    if newest.commit - before.commit > 1:
        raise PageError(f"its commits {newest.commit} and {before.commit} do not follow each other")
    end_bytes = (newest.last_page + 1) * newest.page_bytes
    if pages.size_bytes < end_bytes:
        raise PageError(f"it was cut to {pages.size_bytes} bytes, of {end_bytes} at least")
    return newest


@contextmanager
def last_commit(path: Path) -> Iterator[tuple["Descents", Meta]]:
    """Ways into the last commit of a file, read without LMDB. Raises FileDamageError, OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pages = Pages(fd)
        meta = newest_commit(pages)
        yield Descents(pages, meta), meta
    except PageError as error:
        raise FileDamageError(str(error)) from error
    finally:
        os.close(fd)


def _check(pages: Pages, damaged: DamagedItems, *, whole: bool) -> None:
    meta = newest_commit(pages)
    whole = whole or meta.last_page <= PAGES_AT_START_MAX
    walk = Walk(pages, meta.last_page, stops=True, reads_leaves=whole)
    for leaf in walk.leaves(meta.main):
        for index, node in enumerate(leaf.nodes):
            if node.flags & SUBTREE:
                for _ in walk.leaves(Tree.read(node.value)):
                    pass
            elif node.flags & BIG:
                walk.value(node)
            elif not is_whole(node):
                _note(damaged, leaf, index)
    used = bytes(walk.seen)
    walk.reads_leaves = True
    for leaf in walk.leaves(meta.free, by_number=True):
        for node in leaf.nodes:
            for page in free_pages(walk.value(node), meta.last_page):
                if used[page]:
                    raise PageError(f"page {page}: it is in use, and free")


def is_whole(node: Node) -> bool:
    """Whether a value is the one that was stored; of one in pieces the head."""
    try:
        if read_head(node.key, node.value) is None:
            value = checked_value(node.key, node.value)
            if value is node.value and node.key.find(b"\0") > 0:
                decode_item(value)  # nothing else shows that one of before is whole
    except DamagedItemError:
        return False
    return True


def _note(damaged: DamagedItems, leaf: Leaf, index: int) -> None:
    nodes = leaf.nodes
    own = own_key(nodes[index].key, nodes[index].value)
    if own is not None:
        damaged.add(nodes[index].key, own, own)
        return
    low = next((node.key for node in reversed(nodes[:index]) if is_whole(node)), leaf.low)
    high = next((node.key for node in nodes[index + 1 :] if is_whole(node)), leaf.high)
    damaged.add(nodes[index].key, low, high)


class Descents:
    """Ways from the root to leaf pages of one commit; branch pages are read once."""

    def __init__(self, pages: Pages, meta: Meta) -> None:
        self._pages = pages
        self._last_page = meta.last_page
        self._branches: dict[int, tuple[list[bytes], list[int]]] = {}

    def find(self, tree: Tree, key: bytes) -> Node | None:
        """What lies under a key. Raises PageError."""
        return next((node for node in self.leaf_of(tree, key).nodes if node.key == key), None)

    def leaf_of(self, tree: Tree, key: bytes) -> Leaf:
        """The leaf page where a key belongs. Raises PageError."""
        if not tree.depth:
            return _NO_LEAF
        number = tree.root
        low: bytes | None = None
        high: bytes | None = None
        for _level in range(1, tree.depth):
            keys, children = self._branch(number, low, high)
            index = bisect_right(keys, key)
            low = keys[index - 1] if index else low
            high = keys[index] if index < len(keys) else high
            number = children[index]
        try:
            nodes = self._pages.leaves(number, self._read(number))
            check_order([node.key for node in nodes], low, high)
        except PageError as error:
            raise PageError(f"page {number}: {error}") from error
        return Leaf(number, nodes, low, high)

    def _branch(
        self, number: int, low: bytes | None, high: bytes | None
    ) -> tuple[list[bytes], list[int]]:
        if number not in self._branches:
            try:
                children = self._pages.branches(number, self._read(number))
                keys = [child.key for child in children[1:]]
                check_order(keys, low, high)
            except PageError as error:
                raise PageError(f"page {number}: {error}") from error
            self._branches[number] = keys, [child.child for child in children]
        return self._branches[number]

    def _read(self, number: int) -> bytes:
        if not FIRST_TREE_PAGE <= number <= self._last_page:
            raise PageError("it is not within the file")
        return self._pages.read(number)


class RunningCheck:
    """Looks at all pages of an open store, some at a time, again and again.

    Each step begins at the root of the last commit: what it meets is of that commit, and nothing of
    it is used anew before the step ends.
    """

    def __init__(self, fd: int, damaged: DamagedItems) -> None:
        self._fd = fd
        self._damaged = damaged
        self._look = PageLook()
        self.passes = 0

    def step(self, commit: int, leaf_pages: int) -> None:
        """Look at some more leaf pages, and those above them, of this commit.

        Raises FileDamageError.
        """
        try:
            pages = Pages(self._fd)
            meta = newest_commit(pages)
            if meta.commit != commit:  # a commit is under way: there is another turn
                return
            ways = Descents(pages, meta)
            bodies = ways.find(meta.main, BODIES_TREE)
            in_bodies = Tree.read(bodies.value) if bodies and bodies.flags & SUBTREE else None
            for _ in range(leaf_pages):
                if not self._next(ways, in_bodies if self._look.in_bodies else meta.main):
                    return
        except PageError as error:
            raise FileDamageError(str(error)) from error

    def _next(self, ways: Descents, tree: Tree | None) -> bool:
        """Look at the next leaf page; whether there is another one in this pass."""
        in_bodies = self._look.in_bodies
        leaf = ways.leaf_of(tree, self._look.after) if tree else _NO_LEAF
        if not in_bodies:
            for index, node in enumerate(leaf.nodes):
                if not node.flags & (BIG | SUBTREE) and not is_whole(node):
                    _note(self._damaged, leaf, index)
        if leaf.high is not None:
            self._look = PageLook(in_bodies, leaf.high)
        else:
            self._look = PageLook(not in_bodies)
            self.passes += not in_bodies
        return self._look.in_bodies <= in_bodies
