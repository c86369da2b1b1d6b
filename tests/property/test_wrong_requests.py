"""Whatever is wrong with a request, of any operation: no answer is a 5xx or has a wrong form.

And what is refused changes nothing: queues, attributes, tags and counts are as before.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.ports import Clock, Offload, Waits
from data_plane.protocol.http import HttpRequest
from data_plane.runtime.event_loop import EventLoopWaits
from tests.conformance.doors import Door
from tests.conformance.in_process import ACCOUNT
from tests.conformance.on_driver import inline
from tests.conformance.raw_calls import PROTOCOLS, Bench, Reply, read_reply, url
from tests.property.request_corpus import ARNS, QUEUES, REDRIVE, SPARE_ACCOUNT, Corpus

T = TypeVar("T")

REQUESTS = 10
_PROFILE = settings.get_profile(settings.get_current_profile_name())
OF_SEVERAL_CELLS = {
    f"Tidegate{action}Cell{plural}"
    for action, plural in (
        *(("Add", ""), ("Drain", ""), ("Fail", ""), ("List", "s"), ("Remove", ""), ("Restore", "")),
    )
} | {"TidegateMoveQueue"}
"""Refused by a service that has one."""

OF_USAGE = {"TidegateGetUsage", "TidegateSetBudgets"}
"""Refused by a service that counts nothing."""

NO_ACTION = b"<UnknownOperationException/>"


class _NoWaiting(EventLoopWaits):
    """Ends long polls at once, as a server does that is about to stop."""

    async def wait_for(self, _channel: Hashable, _seen: int, _until_us: int) -> bool:
        return False


class _NoLongPolls:
    """An event loop in the caller's thread."""

    serves_one_at_a_time = True
    new_door: Callable[[Any], Door] | None = None

    def __init__(self, clock: Clock) -> None:
        self.waits: Waits = _NoWaiting(clock)
        self.offload: Offload = inline
        self._loop = asyncio.new_event_loop()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(call)

    def close(self) -> None:
        self._loop.close()


@contextmanager
def opened(protocol: str) -> Iterator[Bench]:
    bench = Bench(protocol, _NoLongPolls)
    try:
        for name in QUEUES:
            fifo = name.endswith(".fifo")
            attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
            bench.ask("CreateQueue", QueueName=name, Attributes=attributes if fifo else {})
        redrive = {"RedrivePolicy": REDRIVE}
        bench.ask("SetQueueAttributes", QueueUrl=url("orders"), Attributes=redrive)
        yield bench
    finally:
        bench.close()


def handles(bench: Bench) -> dict[str, str]:
    """Of a message in flight in each queue, of a task that moves messages, and an access key's."""
    task = bench.ask("StartMessageMoveTask", SourceArn=ARNS[2])
    for account in (ACCOUNT, SPARE_ACCOUNT):
        bench.ask("TidegateCreateAccount", Name="shop", AccountId=account)
    key = bench.ask("TidegateCreateAccessKey", AccountId=ACCOUNT)
    held = {name: bench.handle(name) for name in QUEUES[:3]}
    return {"task": task["TaskHandle"], "key": key["AccessKeyId"], **held}


KINESIS_JSON = "application/x-amz-json-1.1"


def answer_is_well_formed(bench: Bench, request: HttpRequest) -> Reply:
    """The answer, in the protocol that the request's headers ask for."""
    headers = request.headers
    response = bench.server.answer(request)
    assert response.status < 500, response.body
    if response.body == NO_ACTION:
        assert response.status == 404
        return Reply(404)
    content_type = headers.get("content-type", "")
    target = headers.get("x-amz-target", "")
    if content_type.startswith(KINESIS_JSON) and not target.startswith("AmazonSQS"):
        return Reply(response.status)  # It is answered as by Kinesis, which has it no operation.
    if not content_type.startswith("application/x-www-form-urlencoded") and (
        target or content_type.startswith("application/x-amz-json")
    ):
        return read_reply(response, "json")
    legacy = "application/json" in headers.get("accept", "")
    return read_reply(response, "legacy-json" if legacy else "query")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=_PROFILE.max_examples // 2)
@given(random=st.randoms(use_true_random=False))
def test_no_request_breaks_the_server(protocol: str, random: Random) -> None:
    with opened(protocol) as bench:
        held = handles(bench)
        corpus = Corpus(random, protocol, bench.operations, held)
        state = bench.state()
        for _ in range(REQUESTS):
            request = corpus.wrong()
            refused = answer_is_well_formed(bench, request).status != 200
            before, state = state, bench.state()
            if refused:
                assert state == before, request


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_the_corpus_starts_from_is_valid(protocol: str) -> None:
    with opened(protocol) as bench:
        held = handles(bench)
        never = set(bench.operations)
        for seed in range(20):
            corpus = Corpus(Random(seed), protocol, bench.operations, held)
            for action in sorted(bench.operations):
                request = corpus.request(action, corpus.valid(action, least=seed % 2 == 0))
                if answer_is_well_formed(bench, request).status == 200:
                    never.discard(action)
            bench.server.run(bench.server.move_runner.step())
    assert never == OF_SEVERAL_CELLS | OF_USAGE
