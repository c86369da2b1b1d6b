"""The embedded cell against the contract of cells, and what only it promises."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import lmdb
import pytest

from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.encoding import FORMAT_KEY
from data_plane.embedded.store import CellOpenError
from data_plane.embedded.transaction import WriteTransaction
from data_plane.ports import (
    Append,
    Appended,
    Attributes,
    Cell,
    CellFullError,
    CellUnavailableError,
    Equals,
    Key,
    Tally,
    Update,
)
from data_plane.streams.bounds import ITEM_BYTES_MAX
from tests.conformance.cell_suite import (
    KEY,
    NOON_US,
    CellSuite,
    ManualClock,
    Opened,
    entry,
    fill,
    run,
    sorts_of,
)
from tests.conformance.embedded_cell import MIB, SMALL, embedded


class TestEmbeddedCell(CellSuite):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Opened:
        @asynccontextmanager
        async def open_cell(clock: ManualClock) -> AsyncIterator[Cell]:
            async with embedded(tmp_path / "cell", clock) as cell:
                yield cell

        return open_cell


def test_everything_survives_reopening_and_stamps_go_on(tmp_path: Path) -> None:
    async def play() -> None:
        clock = ManualClock()
        async with embedded(tmp_path, clock) as cell:
            await cell.put(KEY, {"v": 1, "d": frozenset({3})})
            first = await cell.append(entry("Q"))
            clock.time_us += 50
            seen_us = cell.now_us()
            await cell.delete(Key("Q", b"none"), tallies=lambda _before: [Tally(Key("T", b""), 4)])
        clock.time_us -= 3_600_000_000
        async with embedded(tmp_path, clock) as cell:
            assert await cell.get(KEY) == {"v": 1, "d": frozenset({3})}
            assert await cell.get(Key("T", b"")) == {"n": 4}
            assert cell.now_us() >= seen_us
            second = await cell.append(entry("Q"))
            assert second.stamp_us > seen_us
            page = await cell.query("Q", limit=9)
            assert [item.key for item in page] == [first.key, second.key]

    asyncio.run(play())


def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    said: dict[str, set[str]] = {"+": set(), "?": set(), "-": set()}
    for _round in range(3):
        with subprocess.Popen(
            [sys.executable, "-m", "tests.conformance.cell_writer", str(tmp_path / "cell")],
            stdout=subprocess.PIPE,
            text=True,
        ) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(1500)]
            writer.send_signal(signal.SIGKILL)
            lines += writer.stdout.readlines()
        for line in lines:
            if line.endswith("\n"):
                said[line[0]].add(line[1:].strip())

    async def play() -> set[str]:
        async with embedded(tmp_path / "cell", ManualClock()) as cell:
            found: set[str] = set()
            after = b""
            while page := await cell.query("Q", after=after, limit=1000):
                found.update(item.key.sort.hex() for item in page)
                after = page[-1].key.sort
            return found

    found = asyncio.run(play())
    assert len(said["-"]) > 100
    assert said["+"] - said["?"] <= found
    assert not said["-"] & found


def test_a_second_opener_is_refused_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with embedded(tmp_path, ManualClock()):
            with pytest.raises(CellOpenError, match="in use by another process"):
                EmbeddedCell(tmp_path, ManualClock())
        async with embedded(tmp_path, ManualClock()) as cell:
            assert await cell.get(KEY) is None

    asyncio.run(scenario())


@pytest.mark.parametrize("stored", [b"tidegate cell 3", None])
def test_another_format_is_refused_and_left_alone(tmp_path: Path, stored: bytes | None) -> None:
    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as txn:
        txn.put(b"some", b"thing")
        if stored is not None:
            txn.put(FORMAT_KEY, stored)
    before = (tmp_path / "data.mdb").read_bytes()
    for _attempt in range(2):
        with pytest.raises(CellOpenError, match="this program reads 'tidegate cell 2'"):
            EmbeddedCell(tmp_path, ManualClock())
    assert (tmp_path / "data.mdb").read_bytes() == before


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"not a store " * 4096)
    with pytest.raises(CellOpenError, match="is damaged: page 0: it is no meta page"):
        EmbeddedCell(tmp_path, ManualClock())


@contextmanager
def file_size_limit(size_bytes: int) -> Iterator[None]:
    """No file may grow past this size: what a full disk does, without needing one."""
    soft, hard = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        setrlimit(RLIMIT_FSIZE, (soft, hard))


async def append_until_full(cell: EmbeddedCell, body: bytes) -> list[Key]:
    stored: list[Key] = []
    refused = 0
    while not refused:
        outcomes = await asyncio.gather(
            *(cell.append(entry("Q", b"%d" % n, body=body)) for n in range(10)),
            return_exceptions=True,
        )
        stored += [outcome.key for outcome in outcomes if isinstance(outcome, Appended)]
        refused = sum(isinstance(outcome, CellFullError) for outcome in outcomes)
        assert refused + sum(isinstance(outcome, Appended) for outcome in outcomes) == 10
    return stored


@pytest.mark.parametrize("body_bytes", [1_000, 30_000, 1_000_000])
def test_a_full_disk_can_be_read_drained_and_filled_again(tmp_path: Path, body_bytes: int) -> None:
    body = b"x" * body_bytes

    async def play() -> None:
        async with embedded(tmp_path, ManualClock()) as cell:
            with file_size_limit(16 * MIB):
                stored = await append_until_full(cell, body)
                assert (cell.has_room(0), cell.counters.failed_commits) == (False, 0)
                assert len(stored) * body_bytes > 3 * MIB
                assert len(await cell.query("Q", limit=5)) >= 1
                lease = Update(assign={"v": 1, "m": b"lease"})
                for start in range(0, len(stored), 10):
                    assert (await cell.update(Key("S", b"%d" % (start // 100)), lease)).applied
                    gone = [cell.delete(key) for key in stored[start : start + 10]]
                    assert all(answer.before for answer in await asyncio.gather(*gone))
                assert await cell.query("Q", limit=1) == []
                again = await append_until_full(cell, body)
                assert len(again) > len(stored) // 2
            more = await cell.append(entry("Q", b"more", body=body))
            assert (cell.has_room(0), cell.counters.failed_commits) == (True, 0)
            assert await cell.get(more.key) is not None
            found = await cell.get_many(again[:100])
            assert len(found) == min(100, len(again))

    asyncio.run(play())


def test_a_full_cell_takes_what_fits_of_a_batch(tmp_path: Path) -> None:
    async def play() -> None:
        async with embedded(tmp_path, ManualClock()) as cell:
            with file_size_limit(16 * MIB):
                stored = await append_until_full(cell, b"x" * 30_000)
                outcomes = await asyncio.gather(
                    cell.append(entry("Q", b"too much", body=b"x" * 500_000)),
                    cell.delete(stored[0]),
                    cell.update(KEY, Update(assign={"v": 1})),
                    cell.append(entry("Q", b"too much", body=b"x" * 500_000)),
                    return_exceptions=True,
                )
            refused = [isinstance(outcome, CellFullError) for outcome in outcomes]
            assert refused == [True, False, False, True]
            assert await cell.get(KEY) == {"v": 1}
            assert await cell.get(stored[0]) is None

    asyncio.run(play())


def test_room_in_many_places_is_room_for_a_big_item(tmp_path: Path) -> None:
    async def play() -> None:
        async with embedded(tmp_path, ManualClock()) as cell:
            with file_size_limit(16 * MIB):
                stored = await append_until_full(cell, b"x" * 2_995)
                for start in range(0, len(stored), 20):
                    await asyncio.gather(*(cell.delete(k) for k in stored[start : start + 20 : 2]))
                big = await cell.append(entry("Q", b"big", body=b"x" * 3 * MIB))
                found = await cell.get(big.key)
            assert found is not None
            assert found["z"] == b"x" * 3 * MIB
            assert (cell.has_room(0), cell.counters.failed_commits) == (True, 0)

    asyncio.run(play())


def test_a_write_that_the_map_has_no_room_for_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = WriteTransaction.append

    def full(transaction: WriteTransaction, record: Append) -> Appended:
        appended = append(transaction, record)
        if record.suffix == b"too much":
            raise lmdb.MapFullError("mdb_put: Environment mapsize limit reached")
        return appended

    async def play() -> None:
        async with embedded(tmp_path, ManualClock()) as cell:
            monkeypatch.setattr(WriteTransaction, "append", full)
            suffixes = (b"a", b"too much", b"b", b"too much", b"c")
            outcomes = await asyncio.gather(
                *(cell.append(entry("Q", suffix)) for suffix in suffixes), return_exceptions=True
            )
            refused = [isinstance(outcome, CellFullError) for outcome in outcomes]
            assert refused == [False, True, False, True, False]
            page = await cell.query("Q", limit=9)
            assert [sort[8:] for sort in sorts_of(page)] == [b"a", b"b", b"c"]
            assert cell.counters.commits == 1

    asyncio.run(play())


def test_a_callers_mistake_concerns_nobody_else(tmp_path: Path) -> None:
    async def play() -> None:
        async with embedded(tmp_path, ManualClock()) as cell:
            await cell.put(KEY, {"v": 1, "t": "text"})
            long_key = Key("Q", b"x" * 600)
            mistakes = [
                cell.put(long_key, {"v": 1}),
                cell.put(Key("Q", b""), {"z": bytes(ITEM_BYTES_MAX)}),
                cell.put(Key("", b""), {"v": 1}),
                cell.put(Key("Q\0", b""), {"v": 1}),
                cell.update(KEY, Update(add={"t": 1})),
                cell.delete(Key("Q", b""), tallies=lambda _before: [Tally(long_key, 1)]),
                cell.put(Key("Q", b""), {"n": 2**70}),
            ]
            commits = cell.counters.commits
            outcomes = await asyncio.gather(
                *mistakes, cell.append(entry("Q")), return_exceptions=True
            )
            kinds = [type(outcome) for outcome in outcomes[:-1]]
            of_keys = [ValueError, AssertionError, ValueError, ValueError]
            assert kinds == [*of_keys, TypeError, ValueError, OverflowError]
            assert await cell.get(KEY) == {"v": 1, "t": "text"}
            assert cell.counters.commits == commits + 1
            assert len(await cell.query("Q", limit=9)) == 1

    asyncio.run(play())


def test_a_damaged_item_is_refused_when_read(tmp_path: Path) -> None:
    async def play() -> None:
        async with embedded(tmp_path, ManualClock()) as cell:
            appended = await cell.append(entry("Q", body=b"x" * 9_000))
            txn, _room_bytes = cell._store.begin()
            with txn, txn.cursor(cell._store.bodies.tree) as cursor:
                assert cursor.last()
                cursor.delete()
            cell._store.renew()
            for read in (cell.get(appended.key), cell.query("Q", limit=1)):
                with pytest.raises(CellUnavailableError, match=r"a value has|is damaged"):
                    await read

    asyncio.run(play())


def test_writes_that_wait_together_share_a_commit(tmp_path: Path) -> None:
    async def play() -> None:
        async with embedded(tmp_path, ManualClock()) as cell:
            await asyncio.gather(*(cell.append(entry("Q", b"%d" % n)) for n in range(64)))
            assert (cell.counters.commits, cell.counters.writes) == (1, 64)
            assert cell.counters.commit_s == cell.counters.commit_s_max > 0
            assert cell.counters.bytes_written > 64 * 20

    asyncio.run(play())


def test_a_failed_condition_costs_no_commit(tmp_path: Path) -> None:
    async def play() -> None:
        async with embedded(tmp_path, ManualClock()) as cell:
            assert not (await cell.put(KEY, {"v": 1}, ((Equals("v", 1),),))).applied
            assert cell.counters.commits == 0

    asyncio.run(play())


def test_expired_items_ride_along_with_the_next_commit(tmp_path: Path) -> None:
    async def play() -> None:
        async with embedded(tmp_path, ManualClock()) as cell:
            await fill(cell, "Q", [b"a", b"b", b"c"])
            commits = cell.counters.commits
            cell.expire([Key("Q", b"a"), Key("Q", b"b")])
            assert cell.counters.commits == commits
            await cell.put(KEY, {"v": 1})
            assert cell.counters.commits == commits + 1
            assert sorts_of(await cell.query("Q", limit=9)) == [b"c"]
            cell.expire([Key("Q", b"c")])
        async with embedded(tmp_path, ManualClock()) as cell:
            assert await cell.query("Q", limit=9) == []

    asyncio.run(play())


def test_the_present_stands_still_while_a_commit_is_under_way(tmp_path: Path) -> None:
    async def play() -> None:
        clock = ManualClock()
        async with embedded(tmp_path, clock) as cell:
            await cell.append(entry("Q", b"warm"))
            appending = asyncio.ensure_future(cell.append(entry("Q")))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert cell._committing is not None
            clock.time_us += 1_000_000
            present_us = cell.now_us()
            assert len(await cell.query("Q", limit=9)) == 1
            appended = await appending
            assert present_us < appended.stamp_us
            assert cell.now_us() == NOON_US + 1_000_000

    asyncio.run(play())


def test_requests_go_on_while_the_dead_are_looked_for(tmp_path: Path) -> None:
    async def play() -> None:
        async with embedded(tmp_path, ManualClock()) as cell:
            for number in range(60):
                await cell.put(Key("Q", b"%03d" % number), {"v": 1, "x": 1000})
            collecting = asyncio.ensure_future(cell.collect(2000, 1000))
            await asyncio.sleep(0)
            assert not cell._waiting, "all were looked at in one turn of the loop"
            assert len(await cell.query("Q", limit=99)) == 60
            assert await collecting == 60
            assert await cell.query("Q", limit=9) == []

    asyncio.run(play())


def test_the_dead_are_collected_in_bounded_steps(tmp_path: Path) -> None:
    async def play() -> None:
        async with embedded(tmp_path, ManualClock()) as cell:
            for number in range(40):
                body = b"z" * (5_000 if number % 2 else 50)
                item: Attributes = {"v": 1, "x": 1000 + number, "z": body}
                await cell.put(Key("Q", b"%02d" % number), item if number % 4 else {"v": 1})
            removed = [await cell.collect(1020, 15) for _ in range(4)]
            assert sum(removed) == 15
            assert max(removed) <= 15
            left = sorts_of(await cell.query("Q", limit=99))
            dead = {b"%02d" % number for number in range(20) if number % 4}
            assert left == [b"%02d" % n for n in range(40) if b"%02d" % n not in dead]
            assert sum([await cell.collect(5000, 15) for _ in range(8)]) == 15
            assert await cell.collect(5000, 100) == 0

    asyncio.run(play())


def test_a_partition_is_dropped_in_bounded_steps(tmp_path: Path) -> None:
    async def play() -> None:
        async with embedded(tmp_path, ManualClock()) as cell:
            for partition in ("Q", "Q1", "P"):
                await fill(cell, partition, [b"%d" % number for number in range(5)])
            assert [await cell.drop("Q", 2) for _ in range(4)] == [2, 2, 1, 0]
            assert await cell.query("Q", limit=9) == []
            assert len(await cell.query("Q1", limit=9)) == 5
            assert len(await cell.query("P", limit=9)) == 5

    asyncio.run(play())


def test_closing_finishes_what_is_queued_and_refuses_the_rest(tmp_path: Path) -> None:
    async def play() -> None:
        cell = EmbeddedCell(tmp_path, ManualClock(), SMALL)
        writing = [asyncio.ensure_future(cell.put(KEY, {"v": n})) for n in range(9)]
        await asyncio.sleep(0)
        await cell.close()
        assert all(write.done() and write.result().applied for write in writing)
        with pytest.raises(CellUnavailableError, match="closed"):
            await cell.get(KEY)
        with pytest.raises(CellUnavailableError, match="closed"):
            await cell.put(KEY, {"v": 1})

    asyncio.run(play())


def test_a_cancelled_caller_does_not_disturb_the_others(tmp_path: Path) -> None:
    async def scenario(cell: Cell, _clock: ManualClock) -> None:
        cancelled = asyncio.ensure_future(cell.put(KEY, {"v": 1}))
        other = asyncio.ensure_future(cell.put(Key("Q", b"a"), {"v": 1}))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert (await other).applied
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    @asynccontextmanager
    async def opened(clock: ManualClock) -> AsyncIterator[Cell]:
        async with embedded(tmp_path, clock) as cell:
            yield cell

    run(opened, scenario)
