"""The oracle that watches what chains answer: what it asks of members, and what not."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes, Key
from data_plane.replication.chain import Chain
from data_plane.replication.placement import Member, Placement
from data_plane.runtime.event_loop import EventLoopWaits
from tests.simulation.replicated.promised import ACKNOWLEDGED, Promised, watched
from tests.simulation.replicated.records import Records
from tests.unit.repeatable import HandClock

STATE = Key("S|u|00|0", b"block")
GROUP = "g1.00"
ALONE = Placement(GROUP, 1, (Member("a"),))


class OneMember:
    """What is known of a group of one member, and of another one that joined: nothing is there."""

    def __init__(self, clock: HandClock, promised: Promised) -> None:
        self._clock = clock
        self.present = {GROUP: ALONE}
        self.broken: list[tuple[str, str]] = []
        promised.records = cast(Records, self)

    @property
    def now_us(self) -> int:
        return self._clock.now_us()

    @property
    def latest_s(self) -> int:
        return self.now_us // 1_000_000

    def group_of(self, _partition: str) -> str:
        return GROUP

    def revision(self, _key: Key, at: tuple[str, int]) -> int | None:
        return 9 if at == ("a", 0) else None

    def taken(self, *_call: object) -> Sequence[Attributes]:
        return ()


@pytest.mark.parametrize("call", ["get", "get_many", "query", "put"])
@pytest.mark.parametrize("collected", [False, True])
def test_what_is_collected_between_a_read_and_its_answer_no_member_has_to_have(
    call: str, monkeypatch: pytest.MonkeyPatch, *, collected: bool
) -> None:
    clock = HandClock()
    cell = MemoryCell(clock)
    done = getattr(cell, call)

    async def late(*args: Any, **options: Any) -> Any:
        found = await done(*args, **options)
        if collected:
            cell.expire([STATE])
            promised.removed(STATE)
        clock.advance(1)
        return found

    async def story() -> None:
        chain = Chain(lambda: ALONE, {"a": cell}, EventLoopWaits(clock))
        await chain.put(STATE, {"v": 1})
        clock.advance(1)
        monkeypatch.setattr(cell, call, late)
        if call == "put":
            await chain.put(STATE, {"v": 1})
        else:
            asked: dict[str, Any] = {"get": STATE, "get_many": [STATE], "query": STATE.partition}
            assert await getattr(chain, call)(asked[call], **_options(call))
        promised.begins_to_serve(GROUP, ("b", 2))

    with watched() as promised:
        records = OneMember(clock, promised)
        asyncio.run(story())
    assert [invariant for invariant, _ in records.broken] == [] if collected else [ACKNOWLEDGED]


def _options(call: str) -> dict[str, int]:
    return {"limit": 9} if call == "query" else {}
