"""Bugs planted into how KMS keys are asked for; they show in universes in which keys are closed."""

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

from data_plane.bag import receiving
from data_plane.bag.engine import Bag
from data_plane.core.errors import RefusedError
from data_plane.core.message import SendCall
from data_plane.core.queue import Queue
from data_plane.core.sealing import DataSeal
from data_plane.log import reading as log_reading
from data_plane.stored import data_keys
from data_plane.stored.data_keys import Opener, QueueKeys
from data_plane.stored.segment import LoadedSegment
from tests.simulation.keys.universe import run, run_fifo
from tests.simulation.planted import PlantedBug

OPENS = frozenset({"what opens is delivered"})
REASONS = frozenset({"refusals have a reason"})
REFUSED = frozenset({"the refused is not stored"})
LOST = frozenset({"nothing breaks", "acknowledged is delivered"})

KeyBug: Final = partial(PlantedBug, run=run)
FifoKeyBug: Final = partial(PlantedBug, run=run_fifo)

_fetch = QueueKeys._fetch
_send = Bag.send
_openable = log_reading._openable


async def _refused_for_good(keys: QueueKeys, id_: bytes) -> DataSeal:
    """What KMS said once of a data key goes for all time."""
    said: dict[bytes, RefusedError] = keys._shared.__dict__.setdefault("said", {})
    if id_ in said:
        raise said[id_]
    try:
        return await _fetch(keys, id_)
    except RefusedError as refusal:
        said[id_] = refusal
        raise


async def _asks_after_it_has_stored(bag: Bag, queue: Queue, call: SendCall, **how: Any) -> Any:
    sent = await _send(bag, queue, call, **how)
    if queue.master_key_id:
        await bag._desk.data_keys.of(queue)._newest_or_new(queue.master_key_id)
    return sent


def _all_or_none(
    at: Any,
    segments: dict[int, LoadedSegment],
    opener: Opener,
    opened: dict[int, Any],
    needed: Collection[int],
) -> Mapping[int, LoadedSegment]:
    """One key that is not to be had keeps all back."""
    failures: Iterable[Exception] = opener.failures.values()
    for failure in failures:
        raise failure
    return _openable(at, segments, opener, opened, needed)


KEY_BUGS: Final = (
    KeyBug(
        "one key keeps all back", OPENS, ((receiving, "is_of_kms", lambda _refusal: False),), 104
    ),
    KeyBug("refused once, refused for good", REASONS, ((QueueKeys, "_fetch", _refused_for_good),)),
    KeyBug("stored, then refused", REFUSED, ((Bag, "send", _asks_after_it_has_stored),)),
    KeyBug(
        "disabled means damaged",
        LOST,
        ((data_keys, "_DAMAGED", frozenset({"Disabled", "AccessDenied"})),),
    ),
)

FIFO_KEY_BUGS: Final = (
    FifoKeyBug("one key keeps all groups back", OPENS, ((log_reading, "_openable", _all_or_none),)),
)
