"""What a send leaves in memory: nothing that waits for the garbage collector."""

import gc
from collections.abc import Iterator

import pytest

from data_plane.core.message import Outgoing, SendCall
from data_plane.log.sending import _Parcel
from tests.unit.data_plane.log.conftest import Bench


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_messages_that_were_sent_are_let_go_of_without_the_collector(bench: Bench) -> None:
    """It counts objects, and comes after thousands: a few of these may hold a megabyte each."""

    async def story() -> None:
        for number in range(3):
            message = Outgoing(body="b", size=1, group="g", deduplication_id=str(number))
            call = SendCall(bench.queue.account, [message], b"", batch=False)
            await bench.log.send(bench.queue, call)

    bench.run(story())
    assert not [one for one in gc.get_objects() if isinstance(one, _Parcel)]
