"""Upkeep: what is stored stays for as long as a retention that was changed asks for."""

from itertools import takewhile

from data_plane.ports import Equals, Key, LessThan, Update
from data_plane.stored import keys
from data_plane.stored.bounds import QUERY_PAGE
from data_plane.stored.segment import FORMAT_VERSION, number
from data_plane.streams.bounds import TTL_SLACK_S
from data_plane.streams.desk import Access


async def restamp(at: Access) -> None:
    """Raise `x` of all that is stored of the shard to what the stream asks for, newest first."""
    until: bytes | None = None
    while page := await at.cell.query(at.log.slots, until=until, limit=QUERY_PAGE, reverse=True):
        for item in page:
            await _raise_ttl(at, item.key, at.slot_ttl_s(number(item.attributes, "t")))
        if keys.slot_of(page[-1].key.sort) == 0:
            return
        until = keys.before(page[-1].key.sort)


async def trim(at: Access) -> None:
    """Let the first slots go whose time is over by the stream, whatever they say themselves.

    The last one stays, by which offsets go on. Where the cell removes nothing by itself (tables),
    all are left to their own time to live.
    """
    kept_us = (at.stream.kept_s + TTL_SLACK_S) * 1_000_000
    past_us = at.log.eras.removable_us(at.cell.now_us(), kept_us)
    after = b""
    while page := await at.cell.query(at.log.slots, after=after, limit=QUERY_PAGE):
        past = [
            item.key
            for item in takewhile(lambda one: number(one.attributes, "t") <= past_us, page[:-1])
        ]
        if past:
            at.cell.expire(past)
        if len(past) < len(page) - 1 or not past:
            return
        after = past[-1].sort


async def _raise_ttl(at: Access, key: Key, expires_s: int) -> None:
    await at.cell.update(
        key,
        Update(assign={"x": expires_s}),
        # Not into being again where it was collected meanwhile.
        ((Equals("v", FORMAT_VERSION),), (LessThan("x", expires_s),)),
    )
