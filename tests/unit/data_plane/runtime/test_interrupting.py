import asyncio

import pytest

from data_plane.runtime.interrupting import Interrupting


class GivenUpError(Exception):
    pass


def test_calls_of_a_name_are_given_up_together_and_others_go_on() -> None:
    async def scenario() -> list[object]:
        calls, answer = Interrupting(GivenUpError), asyncio.Event()

        async def ask() -> str:
            await answer.wait()
            return "answered"

        under_way = [asyncio.create_task(calls(name, ask)) for name in ("a", "a", "b")]
        await asyncio.sleep(0)
        calls.give_up("a")
        calls.give_up("a")
        done, _ = await asyncio.wait(under_way[:2])
        assert len(done) == 2
        answer.set()
        later = asyncio.create_task(calls("a", ask))
        return list(await asyncio.gather(*under_way, later, return_exceptions=True))

    first, second, *others = asyncio.run(scenario())
    assert [type(first), type(second)] == [GivenUpError, GivenUpError]
    assert others == ["answered", "answered"]


def test_what_a_call_raises_is_its_own() -> None:
    async def fails() -> None:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        asyncio.run(Interrupting(GivenUpError)("a", fails))


def test_who_asks_may_still_be_cancelled() -> None:
    async def scenario() -> None:
        waiting = asyncio.create_task(Interrupting(GivenUpError)("a", asyncio.Event().wait))
        await asyncio.sleep(0)
        waiting.cancel()
        await waiting

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scenario())
