"""Records of queues over streams whose retention is raised while somebody reads them."""

from dataclasses import replace
from typing import Any

from tests.unit.data_plane.streams.queue_bench import QueueBench

DAY_S = 86_400


def _raise_retention(bench: QueueBench) -> None:
    """From a day to two, two seconds ago."""
    expired_us = bench.clock.now_us() - DAY_S * 1_000_000
    bench.stream = replace(
        bench.stream,
        retention_s=2 * DAY_S,
        kept_s=2 * DAY_S,
        expired_us=expired_us,
        version=2,
    )
    bench.clock.advance(2)


def _raise_retention_in_next_page(bench: QueueBench) -> None:
    query = bench.cell.query

    async def query_slowly(partition: str, **asked: Any) -> Any:
        items = await query(partition, **asked)
        if partition.startswith("N|") and items and bench.stream.version == 1:
            _raise_retention(bench)
        return items

    bench.cell.query = query_slowly  # type: ignore[method-assign]


def test_what_is_given_more_time_while_a_page_is_read_is_delivered() -> None:
    bench = QueueBench()

    async def found() -> list[str]:
        await bench.put_for("ann", "one", "two", "three")
        bench.clock.advance(DAY_S - 1)
        _raise_retention_in_next_page(bench)
        first = [one.message.body for one in await bench.receive()]
        await bench.log.sweep()
        return first + await bench.drain(bench.consumer())

    assert bench.run(found()) == ["one", "two", "three"]


def test_what_is_given_more_time_between_two_pages_is_delivered() -> None:
    """Of the first page some are in flight, so the receive that reads it reads another one."""
    bench = QueueBench()
    query = bench.cell.query
    texts = [f"record {number}" for number in range(15)]

    async def query_slowly(partition: str, **asked: Any) -> Any:
        items = await query(partition, **asked)
        if partition.startswith("N|") and items and bench.stream.version == 1:
            _raise_retention(bench)
        return items

    async def found() -> list[str]:
        for text in texts:
            await bench.put_for(text, text)
        bench.clock.advance(DAY_S - 1)
        other = await bench.receive(3, bench.consumer())
        _raise_retention_in_next_page(bench)
        return sorted(one.message.body for one in [*other, *await bench.receive(12)])

    assert bench.run(found()) == sorted(texts)
