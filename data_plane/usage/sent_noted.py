"""What a server has noted of sends that may be dropped, as it is stored.

docs/storage.md, "Sends of cells without a ledger".
"""

from typing import Final

import msgspec

from data_plane.ports import Attributes, Value
from data_plane.stored.ledger import CallSums
from data_plane.stored.segment import UnknownFormatError, check_version, number
from data_plane.stored.sent_minutes import SentKey, SentTo
from data_plane.usage.sent_reading import NOTHING_NOTED, DeskMinute, Noted

NOTED_VERSION: Final = 2
"""Of an item with notes: who does not know them would take what was dropped for never sent."""


class _Row(msgspec.Struct, array_like=True):
    """What a desk has sent in a minute, by SendMessageBatch or else."""

    minute: int
    desk: str
    batch: bool
    calls: int
    units: int
    messages: int
    size_bytes: int


def noted_item(noted: Noted) -> dict[str, Value]:
    """The attributes that say it."""
    rows = [
        _Row(at.minute, at.desk.hex(), key.batch, *added)
        for at, sums in sorted(noted.found.items())
        for key, added in sorted(sums.items())
    ]
    return {
        "v": NOTED_VERSION,
        "d": noted.until_us,
        "s": msgspec.json.encode(rows).decode(),
    }


def read_noted(to: SentTo, item: Attributes) -> Noted:
    """What is noted of the queue. Raises UnknownFormatError."""
    if item["v"] != NOTED_VERSION:
        check_version(item)
    if "s" not in item:
        return NOTHING_NOTED
    found: dict[DeskMinute, dict[SentKey, CallSums]] = {}
    try:
        rows = msgspec.json.decode(str(item["s"]), type=list[_Row])
    except msgspec.DecodeError as error:
        raise UnknownFormatError(f"what was noted of sends is damaged: {error}") from error
    for row in rows:
        at = DeskMinute(row.minute, bytes.fromhex(row.desk))
        key = SentKey(to.account, to.region, to.queue, to.uid, row.batch)
        amounts = (row.calls, row.units, row.messages, row.size_bytes)
        found.setdefault(at, {})[key] = CallSums(*amounts)
    return Noted(number(item, "d"), found)
