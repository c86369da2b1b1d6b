"""A group's streams are copied to who joins, shard by shard, and compared with nobody."""

from control_plane.cluster.copies import copy_on
from control_plane.cluster.untold import tell_on
from control_plane.core import shard_map
from control_plane.core.definition import Definition
from control_plane.core.definition import encode as encode_queue
from control_plane.core.stream_definition import (
    PROVISIONED,
    StreamDefinition,
    encode,
    key_of_stream,
)
from control_plane.places.items import PlacedQueue
from data_plane.ports import Key
from data_plane.replication.placement import partition_of
from data_plane.stored.keys import marks, reader_states, records, stream_partitions
from tests.unit.control_plane.cluster.scene import LATER_US, Scene

GROUP = "g3.05"
UID = "00112233445566a5"
WHERE = ("123456789012", "us-east-1", "clicks")
ARN = "arn:aws:kinesis:us-east-1:123456789012:stream/clicks"
READER = "ffeeddccbbaa9985"


def define(scene: Scene, shards: int) -> None:
    account, region, name = WHERE
    definition = StreamDefinition(
        account=account,
        region=region,
        name=name,
        uid=UID,
        cell=GROUP,
        created_ms=1,
        mode=PROVISIONED,
        shards=shard_map.first_shards(shards, 1),
    )
    scene.run(scene.placing.placed(definition))
    scene.run(scene.control.put(key_of_stream(*WHERE), encode(definition)))


def store(scene: Scene, partitions: tuple[str, ...], cells: str = "abc") -> None:
    for cell in cells:
        for partition in partitions:
            scene.run(scene.cells[cell].put(Key(partition, b"k"), {"v": 1, "R": 3, "E": 1}))


def joined(scene: Scene) -> list[str]:
    """The partitions that the member in d has after a copy."""
    scene.run(scene.places.drop_member(GROUP, "a", epoch=1))
    stored = scene.run(scene.places.add_joining(GROUP, "d", epoch=2))
    member = stored.placement.members[-1]
    assert scene.run(copy_on(scene.cluster, stored.placement, "d", {}, LATER_US)) is None
    every = (*stream_partitions(UID, range(4)), "B|0011223344556600|00|0")
    keys = {partition: Key(partition_of(member, partition), b"k") for partition in every}
    return [one for one, key in keys.items() if scene.run(scene.cells["d"].get(key)) is not None]


def test_all_logs_and_anchors_are_copied() -> None:
    scene = Scene("abcd")
    scene.place(GROUP, "abc")
    define(scene, shards=3)
    whole = stream_partitions(UID, range(3))
    store(scene, (*whole, "B|0011223344556600|00|0"))
    assert joined(scene) == list(whole)


def test_one_that_was_deleted_or_never_came_to_be_is_passed_over() -> None:
    scene = Scene("abcd")
    scene.place(GROUP, "abc")
    define(scene, shards=2)
    scene.run(scene.control.delete(key_of_stream(*WHERE)))
    store(scene, stream_partitions(UID, range(2)))
    assert joined(scene) == []


def test_a_copy_goes_on_where_it_broke_off() -> None:
    scene = Scene("abcd")
    scene.place(GROUP, "abc")
    define(scene, shards=4)
    store(scene, stream_partitions(UID, range(4)))
    scene.run(scene.places.drop_member(GROUP, "a", epoch=1))
    stored = scene.run(scene.places.add_joining(GROUP, "d", epoch=2))
    member = stored.placement.members[-1]
    after = {"uid": UID, "partition": records(UID, 2), "after": b"k".hex()}
    assert scene.run(copy_on(scene.cluster, stored.placement, "d", after, LATER_US)) is None
    logs = [Key(partition_of(member, records(UID, shard)), b"k") for shard in range(4)]
    present = [scene.run(scene.cells["d"].get(key)) is not None for key in logs]
    assert present == [False, False, False, True]


def test_what_a_queue_knows_of_the_shards_is_copied_and_compared_with_nobody() -> None:
    scene = Scene("abcd")
    scene.place(GROUP, "abc")
    define(scene, shards=2)
    reader = Definition(
        account=WHERE[0],
        region=WHERE[1],
        name="work",
        uid=READER,
        cell=GROUP,
        created_s=1,
        modified_s=1,
        attributes={"TidegateStreamArn": ARN},
        stream_uid=UID,
    )
    scene.run(scene.placing.placed(reader))
    key = Key("Q|123456789012|us-east-1", b"work")
    scene.run(scene.control.put(key, encode_queue(reader)))
    of_reader = (*(reader_states(READER, shard) for shard in range(2)), marks(READER))
    store(scene, of_reader)
    scene.run(scene.places.drop_member(GROUP, "a", epoch=1))
    stored = scene.run(scene.places.add_joining(GROUP, "d", epoch=2))
    member = stored.placement.members[-1]
    assert scene.run(copy_on(scene.cluster, stored.placement, "d", {}, LATER_US)) is None
    for partition in of_reader:
        found = scene.run(scene.cells["d"].get(Key(partition_of(member, partition), b"k")))
        assert found is not None, partition


def test_nothing_of_a_stream_is_left_to_be_told() -> None:
    scene = Scene("abc")
    scene.place(GROUP, "abc")
    define(scene, shards=1)
    listed = PlacedQueue(*WHERE, UID, is_stream=True)
    assert scene.run(scene.placing.queues_of(GROUP)) == [listed]
    store(scene, stream_partitions(UID, range(1)), "a")
    assert scene.run(tell_on(scene.cluster, 0, {}, LATER_US)) == (None, 0)
