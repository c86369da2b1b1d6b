"""Bodies of slots apart: what an item of a table holds beside them."""

import asyncio

import pytest

from data_plane.ports import Attributes, CellUnavailableError, Key
from data_plane.stored.bodies import BodyStore
from data_plane.stored.bounds import ITEM_BODY_BYTES_MAX
from tests.unit.data_plane.bag.apart import FailingBlobs
from tests.unit.repeatable import HandClock

SLOT = Key("N|aaaa112233445566|00000000|0", bytes(8))
NONCE = bytes(13)
BODY = bytes(ITEM_BODY_BYTES_MAX - len(NONCE) - 59)


def stored(producers: int, threshold_bytes: int, *, away: bool = False) -> Attributes:
    clock = HandClock()
    blobs = FailingBlobs(clock)
    blobs.failing = {"put"} if away else set()
    store = BodyStore(blobs, threshold_bytes)
    slot: Attributes = {"v": 1, "w": NONCE, "pe": bytes(59 * producers), "z": BODY}
    return asyncio.run(store.put_slot_apart(SLOT, slot, clock.now_us()))


@pytest.mark.parametrize("away", [False, True])
def test_a_body_stays_beside_few_producers(*, away: bool) -> None:
    assert "z" in stored(1, ITEM_BODY_BYTES_MAX)
    assert ("z" in stored(1, 200, away=away)) is away


def test_no_body_stays_where_all_producers_leave_it_no_room() -> None:
    assert "z" not in stored(2, ITEM_BODY_BYTES_MAX)
    with pytest.raises(CellUnavailableError):
        stored(2, 200, away=True)
