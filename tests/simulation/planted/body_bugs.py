"""Planted bugs of bodies that lie apart; see bugs.py."""

from collections.abc import Iterable
from typing import Any, Final

from data_plane.bag import sending
from data_plane.bag.desk import Access, channel
from data_plane.ports import Append, Blob, Cell, CellUnavailableError, Waits
from data_plane.stored import bodies, counting
from data_plane.stored.bodies import BodyStore
from tests.simulation.plan import make_plan
from tests.simulation.planted import PlantedBug
from tests.simulation.planted.bugs import DELIVERED

_append = sending._append
_put_apart = BodyStore.put_apart
_orphans = bodies._orphans


class _Held:
    """Takes bodies, and stores them nowhere."""

    def __init__(self) -> None:
        self.put_so_far: list[tuple[str, bytes]] = []

    async def put(self, name: str, body: bytes) -> None:
        self.put_so_far.append((name, body))


async def _append_before_its_body(at: Access, delay_us: int, parcels: list[Any]) -> None:
    store = at.bodies
    if store is None:
        await _append(at, delay_us, parcels)
        return
    messages = [message for parcel in parcels for message in parcel.messages]
    queue = parcels[-1].queue
    attributes, suffix = await sending._sealed_segment(at, parcels, messages)
    attributes["x"] = sending._expires_s(queue, at.proposed_us() + delay_us)
    record = Append(
        at.lane.segments,
        suffix,
        attributes,
        at.proposed_us(),
        delay_us,
        lambda stamp_us: counting.sent(queue, stamp_us, delay_us, len(messages), 0),
    )
    held: Any = _Held()
    record = await BodyStore(held, store.threshold_bytes).put_apart(
        record, [m[0] for m in messages], at.now_us()
    )
    await at.cell.append(record)
    at.desk.waits.signal(channel(at.lane), len(messages))
    for name, body in held.put_so_far:
        await store._blobs.put(name, body)


async def _put_with_luck(
    self: BodyStore, record: Append, ids: Iterable[bytes], now_us: int
) -> Append:
    held: Any = _Held()
    record = await _put_apart(BodyStore(held, self.threshold_bytes), record, ids, now_us)
    for name, body in held.put_so_far:
        try:
            await self._blobs.put(name, body)
        except CellUnavailableError:
            continue
    return record


async def _orphans_of_any_age(
    cell: Cell, waits: Waits, found: list[Blob], now_us: int
) -> list[str]:
    old = [Blob(blob.name, 0) for blob in found]
    return await _orphans(cell, waits, old, now_us)


async def _all_are_orphans(
    _cell: Cell, _waits: Waits, found: list[Blob], _now_us: int
) -> list[str]:
    return [blob.name for blob in found]


def _has_blobs(seed: int) -> bool:
    return make_plan(seed).blob_threshold_bytes is not None


BODY_BUGS: Final = tuple(
    PlantedBug(name, DELIVERED, patches, first, _has_blobs)
    for name, first, patches in (
        ("segment before its body", 62, ((sending, "_append", _append_before_its_body),)),
        ("a body that failed is taken for stored", 47, ((BodyStore, "put_apart", _put_with_luck),)),
        ("young bodies are swept", 131, ((bodies, "_orphans", _orphans_of_any_age),)),
        (
            "bodies are swept without a look at their segments",
            12,
            ((bodies, "_orphans", _all_are_orphans),),
        ),
    )
)
