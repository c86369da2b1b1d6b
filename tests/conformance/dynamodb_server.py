"""A front end on a DynamoDB cell, in this process, for clients without a socket."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from typing import Any

from data_plane.dynamodb.cell import DynamoCell
from data_plane.dynamodb.opening import make_table
from data_plane.dynamodb.store_time import SECOND_US
from data_plane.memory.blobs import MemoryBlobs
from data_plane.ports import Offload
from data_plane.stored.bodies import BodyStore
from data_plane.system import SystemClock
from tests.conformance.dynamodb_suite import new_table_name
from tests.conformance.in_process import InProcessServer
from tests.conformance.on_driver import in_turn
from tests.conformance.runners import LoopInAThread, NewRunner
from tests.conformance.waited_clock import WaitedClock

THRESHOLD_BYTES = 200


@contextmanager
def serving_on_dynamodb(
    client: Any, new_runner: NewRunner = LoopInAThread, *, verifies: bool = False
) -> Iterator[InProcessServer]:
    """A server on a new table, which goes with it. The engine gets one request at a time.

    With `verifies` signatures count, and quotas hold. Bodies of more than 200 bytes packed lie
    apart, in memory.

    All have the server's time: also the store, and the clock that only runs.
    """
    table, lock = new_table_name(), threading.Lock()
    make_table(client, table)

    def open_cell(clock: WaitedClock, offload: Offload) -> DynamoCell:
        return DynamoCell(
            client,
            table,
            clock,
            in_turn(offload, lock),
            monotonic_us=clock.now_us,
        )

    blobs = MemoryBlobs(SystemClock())
    made = InProcessServer(
        new_runner,
        new_cell=open_cell,
        new_bodies=lambda: BodyStore(blobs, THRESHOLD_BYTES),
        verifies=verifies,
        held_on_tables=verifies,
    )

    def tell_time(response_dict: Any, **_: object) -> None:
        date_s = made.clock.now_us() // SECOND_US
        response_dict["headers"]["date"] = formatdate(date_s, usegmt=True)

    client.meta.events.register("before-parse.dynamodb", tell_time)
    try:
        with made as server:
            yield server
    finally:
        client.meta.events.unregister("before-parse.dynamodb", tell_time)
        client.delete_table(TableName=table)
