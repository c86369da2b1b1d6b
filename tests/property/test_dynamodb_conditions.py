"""Conditions and changes mean in DynamoDB's language what `holds` and `apply` say."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from moto import mock_aws

from data_plane.core.conditions import apply, holds
from data_plane.dynamodb.cell import DynamoCell
from data_plane.dynamodb.opening import connect, make_table
from data_plane.ports import (
    Absent,
    Attributes,
    Condition,
    Equals,
    Key,
    Lacks,
    LessThan,
    Update,
)
from data_plane.system import SystemClock
from tests.conformance.on_driver import inline

KEY = Key("P", b"a")

# Reserved words, and names that look like placeholders. Each has values of one type, because moto
# fails where values of different types are compared.
NUMBERS, BYTES, TEXTS, SETS = ("n", "size"), ("b", "value"), ("t", "#0"), ("d", "ttl")
numbers = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63])
octets = st.sampled_from([b"", b"\x00", b"\x00\xff", b"\xff"])
texts = st.sampled_from(["", "u", "\u00e9", ":0"])
members = st.frozensets(st.integers(0, 3), min_size=1)

TYPED = {
    **dict.fromkeys(NUMBERS, numbers),
    **dict.fromkeys(BYTES, octets),
    **dict.fromkeys(TEXTS, texts),
    **dict.fromkeys(SETS, members),
}
items = st.fixed_dictionaries({"v": st.just(1)}, optional=TYPED)


def of_one(names: tuple[str, ...], clause: Any, values: st.SearchStrategy[Any]) -> Any:
    return st.builds(clause, st.sampled_from(names), values)


clauses = st.one_of(
    st.builds(Absent, st.sampled_from(list(TYPED))),
    *(of_one((name,), Equals, values) for name, values in TYPED.items()),
    *(of_one((name,), LessThan, TYPED[name]) for name in (*NUMBERS, *BYTES, *TEXTS)),
    of_one(SETS, Lacks, st.integers(0, 3)),
    of_one((*NUMBERS, *TEXTS), Lacks, st.integers(0, 3)),
)
conditions = st.lists(st.lists(clauses, max_size=3).map(tuple), max_size=3).map(tuple)
changes = st.builds(
    Update,
    st.fixed_dictionaries({"v": st.just(1)}, optional={name: TYPED[name] for name in ("b", "t")}),
    st.fixed_dictionaries({}, optional={"n": st.integers(-3, 3), "d": members}),
    st.frozensets(st.sampled_from(["size", "value", "#0", "ttl"])),
)


@contextmanager
def engine() -> Iterator[Any]:
    """A client of moto in this process."""
    with mock_aws():
        client = connect("", "us-east-1", connections_max=1)
        make_table(client, "messages")
        yield client


@given(before=st.none() | items, condition=conditions, after=items)
@settings(max_examples=50)
def check_put(
    cell: DynamoCell, before: Attributes | None, condition: Condition, after: Any
) -> None:
    async def play() -> None:
        await _store(cell, before)
        expected = holds(condition, before)
        written = await cell.put(KEY, after, condition)
        assert (written.applied, written.before) == (expected, before)
        assert await cell.get(KEY) == (after if expected else before)

    asyncio.run(play())


@given(before=st.none() | items, condition=conditions, change=changes)
@settings(max_examples=50)
def check_update(
    cell: DynamoCell, before: Attributes | None, condition: Condition, change: Update
) -> None:
    async def play() -> None:
        await _store(cell, before)
        expected = holds(condition, before)
        written = await cell.update(KEY, change, condition)
        assert (written.applied, written.before) == (expected, before)
        assert await cell.get(KEY) == (apply(change, before) if expected else before)

    asyncio.run(play())


async def _store(cell: DynamoCell, item: Attributes | None) -> None:
    if item is None:
        await cell.delete(KEY)
    else:
        await cell.put(KEY, item)


def test_puts() -> None:
    with engine() as client:
        check_put(DynamoCell(client, "messages", SystemClock(), inline))


def test_updates() -> None:
    with engine() as client:
        check_update(DynamoCell(client, "messages", SystemClock(), inline))
