"""However a server is cut off, what its tail and its records say of a number is the same.

And what is missing is no more than what its mark says, of the last seconds alone.
"""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from data_plane.ports import CellUnavailableError
from data_plane.usage.writer import UsageWriter
from tests.unit.data_plane.http.test_metrics import served
from tests.unit.data_plane.usage.places import MemoryPlace, RefusingBlobs
from tests.unit.repeatable import HandClock, SeededEntropy


class FailingBlobs(RefusingBlobs):
    """Of the next puts `failures` says which fail, and whether they are stored all the same."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__(clock)
        self.failures: list[bool | None] = []

    async def put(self, name: str, body: bytes) -> None:
        stored = self.failures.pop(0) if self.failures else None
        if stored is not False:
            await super().put(name, body)
        if stored is not None:
            raise CellUnavailableError("cut off")


FAILURES = st.lists(st.sampled_from([None, None, None, True, False]), max_size=4)
STEPS: st.SearchStrategy[tuple[str, str, list[bool | None]]] = st.one_of(
    st.tuples(st.just("serve"), st.sampled_from("abcd"), st.just([])),
    st.tuples(st.just("keep"), st.just(""), FAILURES),
    st.tuples(st.just("write"), st.just(""), FAILURES),
)


@given(st.lists(STEPS, max_size=40))
def test_a_tail_and_records_agree_and_what_is_missing_is_told(
    steps: list[tuple[str, str, list[bool | None]]],
) -> None:
    clock = HandClock()
    place = MemoryPlace(clock)
    blobs = place.blobs = place._blobs = FailingBlobs(clock)
    writer = UsageWriter(place, clock, SeededEntropy())
    answered = since = 0

    async def story() -> None:
        nonlocal answered, since
        await writer.open()
        for step, queue, failures in steps:
            clock.advance(4)
            blobs.failures = list(failures)
            try:
                if step == "serve":
                    answered, since = answered + 1, since + 1
                    now_us = clock.now_us()
                    writer.served(served("ReceiveMessage", queue=queue, finished_us=now_us))
                else:
                    await (writer.keep() if step == "keep" else writer.write())
                    since = 0
            except CellUnavailableError:
                continue
            finally:
                blobs.failures = []
        mark = await place.finish(writer.name, ended=1)
        assert mark is not None
        rows = place.rows()  # where two of one number differ, this fails
        counted = sum(row["requests"] for row in rows)
        assert counted == sum(row["requests"] for row in place.rows("access"))
        assert answered - since <= counted <= answered
        assert answered - counted <= mark.unsaved_max
        assert [row["number"] for row in rows] == list(range(1, mark.records + 1))

    asyncio.run(story())
