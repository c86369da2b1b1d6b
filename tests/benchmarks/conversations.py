"""What a connection says: coroutines that yield the next request and are sent its response."""

import itertools
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final

from tests.benchmarks.load import Group, Tally
from tests.benchmarks.signing import Signer
from tests.benchmarks.stream_wire import (
    failed_records,
    get_request,
    iterator_request,
    next_iterator,
    put_requests,
    record_count,
    shard_iterator,
)
from tests.benchmarks.wire import (
    BATCH,
    DeleteTemplate,
    Request,
    count_failed,
    receipt_handles,
    receive_request,
    send_batch_requests,
    send_requests,
    stamps_ns,
)

Conversation = Generator[tuple[str, Request], bytes, None]
"""Yields the operation and its request; the response that it is sent has status 200."""

LONG_POLL_S: Final = 20
SHORT_WAIT_S: Final = 1
"""Some servers notice late that a client is gone: by then the next run must not have begun."""

VISIBILITY_S: Final = 600
"""Long enough that nothing comes back while a benchmark runs."""


def _sends(
    tally: Tally, group: Group, operation: str, requests: Iterator[Request], each: int
) -> Conversation:
    while not group.messages_max or tally.offered < group.messages_max:
        tally.offered += each
        response = yield operation, next(requests)
        if each > 1 and count_failed(response):
            tally.errors["entries of a batch failed"] += 1
        else:
            tally.messages += each


def _receives(tally: Tally, group: Group, receive: Request, deletes: "_Deletes") -> Conversation:
    while True:
        response = yield "receive", receive
        handles = receipt_handles(response)[: group.count]
        if not handles:
            tally.empty += 1
            tally.empty_in_a_row += 1
            continue
        tally.empty_in_a_row = 0
        if group.count == 1:
            response = yield "delete", deletes.delete(handles[0])
        else:
            response = yield "delete_batch", deletes.delete_batch(handles)
        if count_failed(response):
            tally.errors["entries of a batch failed"] += 1
        tally.messages += len(handles)
        tally.useful_at_s = time.perf_counter()


def _consumes(tally: Tally, receive: Request, deletes: "_Deletes") -> Conversation:
    while True:
        response = yield "long_poll", receive
        now_ns = time.perf_counter_ns()
        tally.deliveries_s.extend((now_ns - sent) / 1e9 for sent in stamps_ns(response))
        handles = receipt_handles(response)
        if not handles:
            tally.empty += 1
            continue
        yield "delete_batch", deletes.delete_batch(handles)
        tally.messages += len(handles)


def _cycles(
    tally: Tally,
    group: Group,
    sends: Iterator[Request],
    receive: Request,
    deletes: "_Deletes",
) -> Conversation:
    """Send, receive as many, delete them; without a send while there is enough to receive."""
    while True:
        if tally.stock < group.connections * group.count:
            tally.stock += group.count
            response = yield "send", next(sends)
            if group.count > 1 and count_failed(response):
                tally.errors["entries of a batch failed"] += 1
        response = yield "long_poll", receive
        handles = receipt_handles(response)
        if not handles:
            tally.empty += 1
            continue
        if group.count == 1:
            response = yield "delete", deletes.delete(handles[0])
        else:
            response = yield "delete", deletes.delete_batch(handles)
        if count_failed(response):
            tally.errors["entries of a batch failed"] += 1
        tally.stock -= len(handles)
        tally.messages += len(handles)


def _puts(tally: Tally, group: Group, requests: Iterator[Request]) -> Conversation:
    while not group.messages_max or tally.offered < group.messages_max:
        tally.offered += group.count
        failed = failed_records((yield "put", next(requests)))
        tally.messages += group.count - failed
        if failed:
            tally.errors["records of a call failed"] += failed


def _reads(tally: Tally, group: Group, port: int, shard: int) -> Conversation:
    """Read a shard from its beginning to its end, and again."""
    begin = iterator_request(port, group.queue_url, shard)
    while True:
        iterator: bytes | None = shard_iterator((yield "iterator", begin))
        read = 1
        while read and iterator:
            response = yield "get", get_request(port, iterator, group.count)
            read = record_count(response)
            iterator = next_iterator(response)
            tally.messages += read


def conversations(port: int, group: Group, tally: Tally) -> Callable[[], Conversation]:
    """Return what starts the conversation of one connection of a group.

    Raises:
        ValueError: no work has this name.
    """
    url, message_groups = group.queue_url, group.message_groups
    signer = Signer(group.key)
    if group.work in {"send", "send_batch"}:
        build = send_requests if group.work == "send" else send_batch_requests
        sends = _in_turns(signer, build(port, url, message_groups))
        each = 1 if group.work == "send" else BATCH
        return lambda: _sends(tally, group, group.work, sends, each)
    if group.work == "put":
        requests = put_requests(port, url, group.count, group.record_bytes, message_groups)
        puts = _in_turns(signer, requests)
        return lambda: _puts(tally, group, puts)
    if group.work == "read":
        shards = itertools.cycle(range(group.shards))
        return lambda: _reads(tally, group, port, next(shards))
    deletes = _Deletes(signer, DeleteTemplate(port, url))
    if group.work == "receive_delete":
        receive = receive_request(port, url, count=group.count, visibility_s=VISIBILITY_S)
        return lambda: _receives(tally, group, signer.signed(receive), deletes)
    if group.work == "long_poll":
        poll = receive_request(port, url, count=group.count, wait_s=LONG_POLL_S)
        return lambda: _consumes(tally, signer.signed(poll), deletes)
    if group.work == "cycle":
        build = send_requests if group.count == 1 else send_batch_requests
        sends = _in_turns(signer, build(port, url, message_groups))
        poll = receive_request(
            port, url, count=group.count, wait_s=SHORT_WAIT_S, visibility_s=VISIBILITY_S
        )
        return lambda: _cycles(tally, group, sends, signer.signed(poll), deletes)
    raise ValueError(f"no such work: {group.work}")


def _in_turns(signer: Signer, requests: list[Request]) -> Iterator[Request]:
    return itertools.cycle([signer.signed(each) for each in requests])


class _Deletes:
    """Deletions, signed when their handles are known."""

    def __init__(self, signer: Signer, template: DeleteTemplate) -> None:
        self._signer = signer
        self._template = template

    def delete(self, handle: bytes) -> Request:
        return self._signer.signed(self._template.delete(handle))

    def delete_batch(self, handles: Sequence[bytes]) -> Request:
        return self._signer.signed(self._template.delete_batch(handles))
