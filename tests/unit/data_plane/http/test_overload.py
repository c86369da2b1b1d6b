"""When requests are refused as they arrive, and how."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from data_plane.http import overload
from data_plane.http.overload import Overload, OverloadSettings
from data_plane.protocol.http import HttpResponse


class _Entropy:
    def random_bytes(self, count: int) -> bytes:
        return b"\x01" * count


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the monotonic clock."""
    now_s = [100.0]
    monkeypatch.setattr(overload, "monotonic", lambda: now_s[0])

    def set_to(time_s: float) -> None:
        now_s[0] = time_s

    return set_to


def test_so_many_requests_are_worked_on_and_those_that_wait_do_not_count(
    at: Callable[[float], None],
) -> None:
    at(100.0)
    waiting = [0]
    limit = Overload(OverloadSettings(requests_max=10), lambda: waiting[0], _Entropy())
    assert not limit.is_full(10)
    assert limit.is_full(11)
    waiting[0] = 500
    assert not limit.is_full(510)
    assert limit.is_full(511)


def test_what_arrives_behind_a_busy_loop_is_refused(at: Callable[[float], None]) -> None:
    at(100.0)
    limit = Overload(OverloadSettings(lag_s_max=0.5), lambda: 0, _Entropy())
    at(100.54)
    assert not limit.is_full(1)
    at(100.56)
    assert limit.is_full(1)

    async def come_round() -> None:
        watching = asyncio.create_task(limit.watch())
        await asyncio.sleep(0)
        watching.cancel()

    asyncio.run(come_round())
    assert not limit.is_full(1)


@pytest.mark.parametrize(
    ("headers", "content_type", "said"),
    [
        (
            {"x-amz-target": "AmazonSQS.SendMessage"},
            "application/x-amz-json-1.0",
            b'"__type":"com.amazon.coral.service#ServiceUnavailable"',
        ),
        ({"content-type": "application/x-www-form-urlencoded"}, "text/xml", b"<Code>ServiceUnav"),
    ],
)
def test_refusals_are_in_the_protocol_of_the_request(
    headers: dict[str, str], content_type: str, said: bytes
) -> None:
    limit = Overload(OverloadSettings(), lambda: 0, _Entropy())
    response = limit.refusal(headers, OverloadSettings().requests_max + 1)
    assert response is not None
    told = dict(response.headers)
    assert response.status == 503
    assert told["content-type"].startswith(content_type)
    assert told["retry-after"] == "1"
    assert "x-amz-retry-after" not in told
    assert said in response.body
    assert not response.held_back
    assert (limit.busy, limit.exhausted) == (1, 0)


def test_where_there_is_room_quotas_are_asked() -> None:
    answer = HttpResponse(403, (), b"")
    answers = iter((None, answer))
    limit = Overload(OverloadSettings(), lambda: 0, _Entropy(), lambda _headers: next(answers))

    assert limit.refusal({}, 1) is None
    assert limit.refusal({}, 1) == replace(answer, held_back=True)
    assert (limit.busy, limit.exhausted) == (0, 1)


def test_who_has_used_up_a_quota_waits_for_the_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits takes no place from others; beyond a bound nothing is held back."""
    monkeypatch.setattr(overload, "HELD_MAX", 2)
    monkeypatch.setattr(overload, "HELD_S", 0)
    answer = HttpResponse(403, (), b"")
    settings = OverloadSettings(requests_max=2)
    limit = Overload(settings, lambda: 0, _Entropy(), lambda _headers: answer)

    async def refused(in_flight: int) -> int:
        refusal = limit.refusal({}, in_flight)
        assert refusal is not None
        assert refusal.held_back
        await limit.hold_back()
        return refusal.status

    async def story() -> None:
        held = [asyncio.create_task(refused(number)) for number in (1, 2)]
        await asyncio.sleep(0)
        assert limit.held == 2
        assert await refused(4) == 403
        assert not any(task.done() for task in held)
        assert await asyncio.gather(*held) == [403, 403]

    asyncio.run(story())
    assert (limit.held, limit.exhausted, limit.busy) == (0, 3, 0)
