"""Records of a cell's stream: bodies go with removed segments, and never before."""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from control_plane.serverless import stream
from control_plane.serverless.stream import UnknownCellError, handle, read_image
from control_plane.service import ServicePorts
from data_plane.dynamodb.items import encode_item
from data_plane.ports import Attributes, Item, Key
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import keys
from data_plane.stored.bodies import BodyStore, blob_name, slot_blob_name
from tests.unit.data_plane.bag.apart import FailingBlobs, NarrowCell
from tests.unit.repeatable import SECRET, HandClock, SeededEntropy

TABLE = "tidegate"
ARN = f"arn:aws:dynamodb:eu-west-1:123456789012:table/{TABLE}/stream/2026-11-21T00:00:00.000"
UID = "00112233445566aa"
BLOCK = b"0123456789"

Story = Callable[["Site"], Coroutine[Any, Any, None]]


class Site:
    """A cell with its blob store, and the stream of its table."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.cell = NarrowCell(self.clock)
        self.blobs = FailingBlobs(self.clock)
        self.ground = ServicePorts(
            cells={TABLE: self.cell},
            control=self.cell,
            bodies={TABLE: BodyStore(self.blobs)},
            clock=self.clock,
            entropy=SeededEntropy(),
            waits=EventLoopWaits(self.clock),
            registry_secret=SECRET,
            master_keys=None,
        )

    def segment(self, number: int = 0) -> Item:
        """A segment that is two days old and has one to live."""
        sort = keys.be64(self.clock.now_us() - 2 * 86_400_000_000 + number) + BLOCK + b"\0"
        key = Key(keys.segments(UID, 0, 0), sort)
        expires_s = self.clock.now_us() // 1_000_000 + 86_400
        attributes: Attributes = {
            "v": 1,
            "k": "s",
            "o": blob_name(key),
            "g": 1,
            "x": expires_s,
            "b": BLOCK,
        }
        return Item(key, attributes)

    def slot(self, nonce: bytes) -> Item:
        key = Key(keys.slots(UID, 0, 0), keys.be64(7))
        attributes: Attributes = {
            "v": 1,
            "k": "s",
            "w": nonce,
            "o": slot_blob_name(key, nonce),
            "x": 1 << 40,
        }
        return Item(key, attributes)

    async def store(self, *items: Item) -> None:
        for item in items:
            await self.cell.put(item.key, item.attributes)
            await self.blobs.put(str(item.attributes["o"]), b"body")

    async def names(self) -> set[str]:
        return {blob.name for blob in await self.blobs.names(limit=1000)}

    async def handle(self, *records: dict[str, Any]) -> list[str]:
        answer = await handle({"Records": list(records)}, self.ground)
        return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def story(tell: Story) -> Callable[[], None]:
    """A test that is a coroutine over a site."""

    def run() -> None:
        asyncio.run(tell(Site()))

    run.__name__, run.__doc__ = tell.__name__, tell.__doc__
    return run


def in_event(item: Item) -> dict[str, dict[str, Any]]:
    """An image as Lambda gets it: bytes are in base64."""
    return {
        name: {kind: b64encode(value).decode() if kind == "B" else value}
        for name, typed in encode_item(*item).items()
        for kind, value in typed.items()
    }


def removed(item: Item, sequence: int = 1, *, by_time: bool = True) -> dict[str, Any]:
    """A record as AWS documents it: of a removal by time to live, or by somebody."""
    image = in_event(item)
    record: dict[str, Any] = {
        "eventID": f"c4ca4238a0b923820dcc509a6f75849{sequence}",
        "eventName": "REMOVE",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-west-1",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_795_000_000,
            "Keys": {name: image[name] for name in ("pk", "sk")},
            "OldImage": image,
            "SequenceNumber": f"444555550000000000{sequence:05}",
            "SizeBytes": 59,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
        "eventSourceARN": ARN,
    }
    if by_time:
        record["userIdentity"] = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    return record


def test_an_image_is_read_as_the_item_that_was_written() -> None:
    item = Item(
        Key("S|x", b"\0\xff"), {"v": 1, "k": "s", "m3": bytes(34), "d": frozenset({1, 127})}
    )
    assert read_image(in_event(item)) == item


@story
async def test_the_body_of_a_removed_segment_goes(site: Site) -> None:
    gone, kept = site.segment(), site.segment(1)
    await site.store(gone, kept)
    await site.cell.delete(gone.key)
    assert await site.handle(removed(gone)) == []
    assert await site.names() == {kept.attributes["o"]}


@story
async def test_it_goes_whoever_removed_the_segment_and_however_often_that_is_told(
    site: Site,
) -> None:
    gone = site.segment()
    await site.store(gone)
    await site.cell.delete(gone.key)
    for _ in range(2):
        assert await site.handle(removed(gone, by_time=False)) == []
        assert await site.names() == set()


@story
async def test_a_body_that_a_stored_segment_names_stays(site: Site) -> None:
    """The segment was removed, and stored once more by a late retry of its send."""
    segment = site.segment()
    await site.store(segment)
    assert await site.handle(removed(segment)) == []
    assert await site.names() == {segment.attributes["o"]}


@story
async def test_the_body_of_another_write_of_the_slot_stays(site: Site) -> None:
    lost, winner = site.slot(b"a" * 13), site.slot(b"b" * 13)
    await site.store(lost, winner)
    assert await site.handle(removed(lost)) == []
    assert await site.names() == {winner.attributes["o"]}


@story
async def test_other_records_are_passed_over(site: Site) -> None:
    segment = site.segment()
    await site.store(segment)
    await site.cell.delete(segment.key)
    state = Item(Key(keys.states(UID, 0, 0), BLOCK), {"v": 1, "o": 1, "x": 1})
    foreign = Item(site.segment(9).key, segment.attributes)
    inline = Item(segment.key, {"v": 1, "k": "s", "z": b"\x90", "x": 1})
    written = removed(segment) | {"eventName": "MODIFY"}
    without = removed(segment)
    del without["dynamodb"]["OldImage"]
    unreadable = removed(segment)
    unreadable["dynamodb"]["OldImage"]["sk"] = {"B": "####"}
    records = [removed(state), removed(foreign), removed(inline), written, without, unreadable]
    assert await site.handle(*records) == []
    assert await site.names() == {segment.attributes["o"]}


@story
async def test_what_could_not_be_done_is_asked_for_again_from_there_on(site: Site) -> None:
    segments = [site.segment(number) for number in range(stream.AT_ONCE_MAX + 5)]
    await site.store(*segments)
    for segment in segments:
        await site.cell.delete(segment.key)
    records = [removed(segment, number) for number, segment in enumerate(segments)]
    site.blobs.failing = {"delete"}
    assert await site.handle(*records) == [records[0]["dynamodb"]["SequenceNumber"]]
    site.blobs.failing = set()
    assert await site.handle(*records) == []
    assert await site.names() == set()


@story
async def test_a_batch_is_two_requests_for_a_hundred_segments(site: Site) -> None:
    segments = [site.segment(number) for number in range(stream.AT_ONCE_MAX)]
    await site.store(*segments)
    for segment in segments:
        await site.cell.delete(segment.key)
    cell, blobs = site.cell.requests.copy(), site.blobs.requests.copy()
    await site.handle(*(removed(segment, n) for n, segment in enumerate(segments)))
    assert site.cell.requests - cell == {"get_many": 1}
    assert site.blobs.requests - blobs == {"delete": 1}


@story
async def test_the_stream_of_another_table_is_refused(site: Site) -> None:
    record = removed(site.segment()) | {"eventSourceARN": ARN.replace(TABLE, "other")}
    with pytest.raises(UnknownCellError, match="other"):
        await site.handle(record)


def test_the_filter_lets_through_what_is_handled() -> None:
    """By Lambda's rules for such a filter: `exists` holds for leaves that are there."""
    ((image, attribute),) = stream.FILTER["dynamodb"].items()
    ((name, typed),) = attribute.items()
    ((kind, rule),) = typed.items()
    assert (image, name, kind, rule) == ("OldImage", "o", "S", [{"exists": True}])
    record = removed(Site().segment())
    assert record["eventName"] in stream.FILTER["eventName"]
    assert kind in record["dynamodb"]["OldImage"]["o"]
    assert stream.removed_body(record)
