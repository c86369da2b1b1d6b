"""When heartbeats and reads of a group's member come, and how long they wait at the server."""

from typing import Any

import pytest

from sdk.tests.group_member import Member, assigned, joined, page, told


@pytest.mark.parametrize(
    ("read_timeout", "waits"), [(1.9, 0), (4, 2), (11, 5), (60, 20)], ids=lambda each: f"{each}"
)
def test_heartbeats_and_reads_wait_for_half_of_the_clients_read_timeout(
    read_timeout: float, waits: int
) -> None:
    here = Member(read_timeout=read_timeout, wait_s=20)
    answer = {**told(assigned("a")), "HeartbeatIntervalMillis": 30_000}
    here.beat(answer)
    here.read(page())
    here.clock.time_s += 0.5
    assert here.beat(answer)["WaitTimeSeconds"] == waits
    assert here.client.asked("get_records")[-1]["TidegateWaitTimeSeconds"] == waits


def test_what_cannot_wait_comes_and_reads_each_half_second() -> None:
    here = Member(read_timeout=1)
    here.beat(told(assigned("a")))
    here.read(page())
    here.clock.time_s += 0.4
    assert not here.consumer.beat_next()
    assert not here.consumer.read_next()
    here.clock.time_s += 0.1
    here.beat(told(assigned("a", new=False)))
    here.read(page(1))
    here.read(page(2))


def test_what_is_given_up_while_a_heartbeat_is_under_way_is_told_soon_after_it() -> None:
    here = joined("a", "b")
    owned: list[list[str]] = []

    def give_up_meanwhile(_params: dict[str, Any]) -> dict[str, Any]:
        here.keep()
        return told()

    def beat(passed_s: float, answer: Any) -> None:
        here.clock.time_s += passed_s
        owned.append([each["ShardId"] for each in here.beat(answer)["OwnedShards"]])

    def revoke() -> None:
        beat(0.1, told())
        beat(3, give_up_meanwhile)
        beat(0.1, told())

    here.meanwhile = revoke
    here.read(page(1))
    assert owned == [["a", "b"], ["a", "b"], ["a"]]
