"""Consumers and functions of the program that would never be done."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from sdk.tests.group_member import Member, assigned, page, told
from sdk.tests.scripted import ScriptedClient
from sdk.tests.test_queue_consumer import URL, desk, message
from tidegate_sdk import GroupConsumer, QueueConsumer


async def coroutine(_: Any) -> None:
    raise AssertionError("nobody runs it")


def generator(_: Any) -> Iterator[int]:
    yield 1


class Called:
    async def __call__(self, _: Any) -> None:
        raise AssertionError("nobody runs it")

    async def method(self, _: Any) -> None:
        raise AssertionError("nobody runs it")


NEVER_DONE: list[Any] = [
    coroutine,
    generator,
    Called(),
    Called().method,
    partial(coroutine),
    partial(Called()),
]


@pytest.mark.parametrize("function", NEVER_DONE)
def test_who_gives_what_would_never_be_done_is_told_when_it_is_made(function: Any) -> None:
    client = ScriptedClient()
    made: dict[str, Callable[[], Any]] = {
        "handler": lambda: GroupConsumer(client, "readers", function),
        "handler ": lambda: QueueConsumer(client, URL, function),
        "on_assigned": lambda: GroupConsumer(client, "readers", print, on_assigned=function),
        "on_revoked": lambda: GroupConsumer(client, "readers", print, on_revoked=function),
        "on_lost": lambda: GroupConsumer(client, "readers", print, on_lost=function),
    }
    for name, make in made.items():
        with pytest.raises(TypeError, match=rf"^{name.strip()} is .*(asyncio\.run|without yield)"):
            make()


@pytest.mark.parametrize("function", [coroutine, generator])
def test_a_batch_whose_handler_returns_what_is_to_be_awaited_is_not_committed(
    function: Callable[[Any], Any],
) -> None:
    here = Member(handler=lambda batch: function(batch))  # noqa: PLW0108 - it hides what it is
    here.beat(told(assigned("a")))
    here.read(page(1))
    here.keep()
    assert here.committed() == []
    with pytest.raises(TypeError, match="handler has returned a"):
        here.finish()


def test_a_message_whose_handler_returns_what_is_to_be_awaited_comes_again() -> None:
    here = desk(retry_first_s=3)
    consumer: Any = here.consumer
    made = QueueConsumer(here.client, URL, lambda it: coroutine(it))  # noqa: PLW0108 - as above
    consumer._handler = made._handler
    here.receive(message("a"))
    here.handle()
    here.at(1)
    assert here.hidden() == [("a-1", 3)]
    assert here.deleted() == []


def test_a_callback_that_returns_what_is_to_be_awaited_ends_the_consumer() -> None:
    here = Member()
    here.calls["assigned"] = coroutine
    here.beat(told(assigned("a")))
    with pytest.raises(TypeError, match="on_assigned has returned a coroutine"):
        here.finish()
