"""The producer in virtual time, on a client that answers as a test says."""

import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from queue import Empty
from typing import Any

import pytest

import tidegate_sdk
from sdk.tests.scripted import ScriptedClient, VirtualClock, cut_off, no_thread, refused
from tidegate_sdk import BufferFullError, DeliveryError, Producer, ProducerClosedError
from tidegate_sdk.clock import Backoff
from tidegate_sdk.outbox import HASH_KEY_MAX, HashRange, hash_key_of

MIDDLE = (HASH_KEY_MAX + 1) // 2


def shard(number: int, first: int = 0, last: int = HASH_KEY_MAX) -> dict[str, Any]:
    return {
        "ShardId": f"shard-{number}",
        "HashKeyRange": {"StartingHashKey": str(first), "EndingHashKey": str(last)},
        "SequenceNumberRange": {"StartingSequenceNumber": "1"},
    }


ONE = {"Shards": [shard(0)]}
TWO = {"Shards": [shard(1, 0, MIDDLE - 1), shard(2, MIDDLE, HASH_KEY_MAX)]}


class Server:
    """Stores what is put, under names as a server of Tidegate does, in shards as told."""

    def __init__(self) -> None:
        self.shards = {"shard-0": (0, HASH_KEY_MAX)}
        self.stored: list[bytes] = []
        self._numbers = count(1)

    def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        results = []
        for entry in params["Records"]:
            self.stored.append(entry["Data"])
            key = hash_key_of(entry["PartitionKey"])
            [to] = [name for name, (low, high) in self.shards.items() if low <= key <= high]
            results.append({"ShardId": to, "SequenceNumber": str(next(self._numbers))})
        return {"FailedRecordCount": 0, "Records": results}


class Site:
    def __init__(self, **options: Any) -> None:
        self.clock = VirtualClock()
        self.client = ScriptedClient()
        self.server = Server()
        names = count(1)
        self.producer = Producer(
            self.client,
            "clicks",
            clock=self.clock,
            backoff=Backoff(fraction=lambda: 0.0),
            new_name=lambda: f"call-{next(names)}",
            spawn=no_thread,
            **options,
        )
        self.clock.while_waiting = self.run

    def run(self) -> None:
        """All that is due now."""
        while self._step() or self.producer.do_next() or self._step():
            pass

    def _step(self) -> bool:
        """One step of what threads do. Whether there was one."""
        producer = self.producer
        for steps in (producer._tellings, producer._callbacks.steps, producer._calls):
            with suppress(Empty):
                if (step := steps.get_nowait()) is not None:
                    step()
                return True
        return False

    def at(self, time_s: float) -> None:
        """As above, at so many seconds after the start."""
        self.clock.time_s = 1_000.0 + time_s
        self.run()

    def sent(self) -> list[list[bytes]]:
        return [
            [entry["Data"] for entry in params["Records"]]
            for params in self.client.asked("put_records")
        ]


@pytest.fixture
def make() -> Any:
    made: list[Site] = []

    def site(**options: Any) -> Site:
        made.append(Site(**options))
        made[-1].client.lay_down("list_shards", ONE)
        return made[-1]

    yield site
    for each in made:
        each.producer.close(0)


Make = Callable[..., Site]


def test_records_wait_for_others(make: Make) -> None:
    site = make(linger_s=0.5)
    site.client.lay_down("put_records", site.server)
    first = site.producer.put(b"a", "k")
    site.at(0.4)
    second = site.producer.put(b"b", "k")
    assert site.sent() == []
    site.at(0.5)
    assert site.sent() == [[b"a", b"b"]]
    assert first.result(0) == ("shard-0", "1")
    assert second.result(0).sequence_number == "2"


@pytest.mark.parametrize(
    ("options", "records", "sizes"),
    [({}, [b"x"] * 501, [500]), ({"batch_bytes_max": 10}, [b"x" * 4] * 3, [2])],
)
def test_a_full_batch_does_not_wait(
    make: Make, options: dict[str, int], records: list[bytes], sizes: list[int]
) -> None:
    site = make(linger_s=9, **options)
    site.client.lay_down("put_records", site.server)
    for data in records:
        site.producer.put(data, "k")
    site.at(0)
    assert [len(call) for call in site.sent()] == sizes


def test_batches_are_cut_by_shards(make: Make) -> None:
    site = make()
    site.client._answers.clear()
    site.client.lay_down("list_shards", {**TWO, "NextToken": "more"}, {"Shards": []})
    site.client.lay_down("put_records", site.server)
    keys = [f"key-{n}" for n in range(20)]
    for key in keys:
        site.producer.put(key.encode(), key)
    site.at(1)
    low = [key.encode() for key in keys if hash_key_of(key) < MIDDLE]
    assert sorted(site.sent()) == sorted([low, [k.encode() for k in keys if k.encode() not in low]])
    asked = site.client.asked("list_shards")
    assert asked == [
        {"StreamName": "clicks", "ShardFilter": {"Type": "AT_LATEST"}},
        {"NextToken": "more"},
    ]


def test_a_call_is_repeated_as_it_was_and_nothing_overtakes_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make()
    named: list[tuple[str, int]] = []

    def call(method: Any, name: str, before: int, params: dict[str, Any]) -> Any:
        named.append((name, before))
        return method(**params)

    monkeypatch.setattr("tidegate_sdk.named_calls.call", call)
    site.client.lay_down("put_records", cut_off(), refused("InternalFailure", 500), site.server)
    site.producer.put(b"a", "k")
    site.at(0.05)
    later = site.producer.put(b"b", "k")
    site.at(0.14)
    assert site.sent() == [[b"a"]]
    site.at(0.15)
    site.at(0.35)
    assert site.sent() == [[b"a"], [b"a"], [b"a"], [b"b"]]
    assert named == [("call-1", 0), ("call-1", 1), ("call-1", 2), ("call-2", 0)]
    assert later.result(0)


def test_what_is_stored_of_a_call_is_told_and_all_of_it_is_repeated(make: Make) -> None:
    site = make()
    half = {
        "FailedRecordCount": 1,
        "Records": [
            {"ShardId": "shard-0", "SequenceNumber": "7"},
            {"ErrorCode": "InternalFailure", "ErrorMessage": "no"},
        ],
    }
    site.client.lay_down("put_records", half, site.server)
    futures = [site.producer.put(data, "k") for data in (b"a", b"b")]
    site.at(0.05)
    assert (futures[0].result(0).sequence_number, futures[1].done()) == ("7", False)
    site.at(0.15)
    assert site.sent() == [[b"a", b"b"]] * 2
    assert futures[0].result(0).sequence_number == "7"
    assert futures[1].result(0)


def test_another_lane_goes_on_while_one_is_repeated(make: Make) -> None:
    site = make()
    site.client._answers.clear()
    site.client.lay_down("list_shards", TWO)
    site.client.lay_down("put_records", cut_off(), site.server)
    low = next(f"{n}" for n in range(99) if hash_key_of(f"{n}") < MIDDLE)
    high = next(f"{n}" for n in range(99) if hash_key_of(f"{n}") >= MIDDLE)
    site.producer.put(b"low", low)
    other = site.producer.put(b"high", high)
    site.at(0.05)
    assert site.sent() == [[b"low"], [b"high"]]
    assert other.done()


def test_a_split_shows_in_an_answer_and_keeps_the_order(make: Make) -> None:
    site = make()
    site.client.lay_down("put_records", site.server)
    site.producer.put(b"a", "k")
    site.at(1)
    site.server.shards = {"shard-1": (0, MIDDLE - 1), "shard-2": (MIDDLE, HASH_KEY_MAX)}
    site.client.lay_down("list_shards", TWO)
    site.client._answers["list_shards"].popleft()
    site.producer.put(b"b", "k")
    site.at(2)
    is_low = hash_key_of("k") < MIDDLE
    other = next(f"{n}" for n in range(99) if (hash_key_of(f"{n}") < MIDDLE) != is_low)
    site.producer.put(b"c", other)
    site.producer.put(b"d", "k")
    site.at(3)
    assert site.server.stored[:2] == [b"a", b"b"]
    assert {tuple(call) for call in site.sent()[2:]} == {(b"c",), (b"d",)}
    assert len(site.client.asked("list_shards")) == 2


def test_a_batch_of_before_a_split_blocks_what_it_became(make: Make) -> None:
    site = make()
    site.client.lay_down("put_records", cut_off(), cut_off(), site.server)
    site.producer.put(b"a", "k")
    site.at(0.05)
    site.producer._outbox.recut(
        [HashRange(0, MIDDLE - 1, "shard-1"), HashRange(MIDDLE, HASH_KEY_MAX, "shard-2")]
    )
    site.producer.put(b"b", "k")
    site.at(0.2)
    assert site.sent() == [[b"a"], [b"a"]]
    site.at(0.5)
    assert site.sent()[2:] == [[b"a"], [b"b"]]


def test_without_a_list_of_shards_the_server_places_records(make: Make) -> None:
    site = make()
    site.client._answers.clear()
    site.client.lay_down("list_shards", refused("AccessDeniedException"))
    site.client.lay_down("put_records", site.server)
    futures = [site.producer.put(b"x", f"{n}") for n in range(3)]
    site.at(60)
    assert all(future.done() for future in futures)
    assert (len(site.sent()), len(site.client.asked("list_shards"))) == (1, 1)


@pytest.mark.parametrize("code", ["ResourceNotFoundException", "UnrecognizedClientException"])
def test_shards_are_asked_for_again_once_there_is_a_stream_or_a_valid_key(
    make: Make, code: str
) -> None:
    site = make()
    site.client._answers.clear()
    site.client.lay_down("list_shards", refused(code), TWO)
    site.client.lay_down("put_records", refused(code), site.server)
    site.producer.put(b"x", "k")
    site.at(1)
    stored = [site.producer.put(b"x", f"{n}") for n in range(3)]
    site.at(5)
    assert all(future.result() for future in stored)
    for n in range(20):
        site.producer.put(b"y", f"{n}")
    site.at(10)
    assert len(site.client.asked("list_shards")) == 2
    assert len(site.sent()) == 4, "one for each shard"


def test_what_is_not_acknowledged_in_time_fails_and_says_how(make: Make) -> None:
    site = make(delivery_s_max=10)
    site.client.lay_down("put_records", cut_off())
    sent = site.producer.put(b"a", "k")
    site.at(0.05)
    unsent = site.producer.put(b"b", "k")
    for time_s in (*range(1, 10), 10.06):
        site.at(time_s)
    errors = [future.exception(0) for future in (sent, unsent)]
    assert [isinstance(e, DeliveryError) and e.may_be_stored for e in errors] == [True, False]
    assert "nowhere.example" in str(errors[0] and errors[0].__cause__)
    assert site.producer._outbox.held_bytes == 0


def test_a_full_buffer_makes_a_put_wait_and_refuses_it_in_the_end(make: Make) -> None:
    site = make(buffer_bytes_max=10, linger_s=5, put_s_max=2)
    site.client.lay_down("put_records", *[cut_off()] * 3, site.server)
    site.producer.put(b"x" * 8, "k")
    site.run()
    assert site.sent() == []
    with pytest.raises(BufferFullError):
        site.producer.put(b"yy", "k", timeout_s=0.1)
    assert site.sent() == [[b"x" * 8]], "a full buffer does not linger"
    site.producer.put(b"yy", "k")
    assert site.server.stored == [b"x" * 8]


def test_a_buffer_of_small_records_counts_what_python_takes_for_each(make: Make) -> None:
    site = make(buffer_bytes_max=10 * (2_048 + 2), linger_s=5)
    site.client.lay_down("put_records", *[cut_off()] * 3)
    for _ in range(10):
        site.producer.put(b"x", "k")
    with pytest.raises(BufferFullError):
        site.producer.put(b"x", "k", timeout_s=0.1)


def test_close_sends_what_is_there_and_takes_no_more(make: Make) -> None:
    site = make(linger_s=60)
    site.client.lay_down("put_records", site.server)
    site.clock.while_waiting = site.run
    with site.producer as producer:
        future = producer.put(b"a", "k")
        # The senders, which are threads elsewhere.
        site.producer.flush(0)
        site.run()
    assert future.result(0)
    with pytest.raises(ProducerClosedError):
        site.producer.put(b"b", "k")
    site.producer.close()


def test_close_gives_up_in_time(make: Make) -> None:
    site = make()
    site.client.lay_down("put_records", cut_off())
    sent = site.producer.put(b"a", "k")
    site.at(0.05)
    unsent = site.producer.put(b"b", "k")
    site.producer.close(3)
    assert 1_002 < site.clock.now_s() < 1_003.05
    errors = [future.exception(0) for future in (sent, unsent)]
    assert [isinstance(e, DeliveryError) and e.may_be_stored for e in errors] == [True, False]


def test_close_warns_of_what_it_gives_up(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    site = make()
    site.client.lay_down("put_records", cut_off())
    site.producer.put(b"a", "k")
    site.at(0.05)
    site.producer.put(b"b", "k")
    site.producer.put(b"c", "k").cancel()
    for _ in range(2):
        site.producer.close(0)
    [said] = caplog.messages
    assert said.startswith("2 records for clicks are not acknowledged, and the producer is closed")
    assert said.endswith(": EndpointConnectionError")


def test_who_cancels_a_record_in_time_has_it_not_sent(make: Make) -> None:
    site = make()
    site.client.lay_down("put_records", site.server)
    site.producer.put(b"a", "k")
    assert site.producer.put(b"b", "k").cancel()
    site.at(1)
    assert site.server.stored == [b"a"]
    assert site.producer._outbox.held_bytes == 0


@pytest.mark.parametrize(
    ("data", "key", "options"),
    [
        (b"x" * 2**20, "k", {}),
        (b"", "", {}),
        (b"", "k" * 257, {}),
        (b"", "k", {"explicit_hash_key": 2**128}),
    ],
)
def test_what_no_stream_takes_is_refused_at_once(
    make: Make, data: bytes, key: str, options: dict[str, int]
) -> None:
    with pytest.raises(ValueError, match=r"a record of|a partition key|a hash key"):
        make().producer.put(data, key, **options)


@pytest.mark.parametrize(
    ("data", "key", "hash_key", "said"),
    [
        ("text", "k", None, "encode a text first"),
        (b"", 5, None, "a text or None"),
        (b"", "k", "5", "an int or None, not str"),
        (b"", "k", 5.0, "an int or None, not float"),
    ],
)
def test_what_is_neither_bytes_nor_a_key_is_refused_at_once(
    make: Make, data: Any, key: Any, hash_key: Any, said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        make().producer.put(data, key, explicit_hash_key=hash_key)


def test_records_may_say_their_hash_key_or_have_no_key(make: Make) -> None:
    site = make()
    site.client.lay_down("put_records", lambda params: {"Records": _placed(params)})
    site.producer.put(b"a", "k", explicit_hash_key=5)
    site.producer.put(b"b", None)
    site.at(1)
    [call] = site.client.asked("put_records")
    assert call["Records"] == [
        {"Data": b"a", "PartitionKey": "k", "ExplicitHashKey": "5"},
        {"Data": b"b"},
    ]


def _placed(params: dict[str, Any]) -> list[dict[str, str]]:
    return [{"ShardId": "shard-0", "SequenceNumber": "1"} for _ in params["Records"]]


@pytest.mark.parametrize(
    ("stream", "options", "kind", "said"),
    [
        # It looks no longer for repeats than a server does.
        ("clicks", {"delivery_s_max": 151}, ValueError, "delivery_s_max"),
        ("clicks", {"senders": 0}, ValueError, "senders"),
        ("clicks", {"senders": -1}, ValueError, "senders"),
        ("clicks", {"senders": 1.5}, TypeError, "senders is a whole number, not 1.5"),
        ("clicks", {"delivery_s_max": None}, TypeError, "delivery_s_max is a number of seconds"),
        ("clicks", {"delivery_s_max": float("nan")}, ValueError, "delivery_s_max"),
        ("clicks", {"linger_s": None}, TypeError, "linger_s is a number of seconds, not None"),
        ("clicks", {"linger_s": -1}, ValueError, "linger_s"),
        ("clicks", {"put_s_max": None}, TypeError, "put_s_max"),
        ("clicks", {"put_s_max": float("nan")}, ValueError, "put_s_max"),
        ("clicks", {"buffer_bytes_max": "1"}, TypeError, "buffer_bytes_max is a whole number"),
        ("clicks", {"buffer_bytes_max": 0}, ValueError, "buffer_bytes_max is 1 or more"),
        ("clicks", {"batch_bytes_max": 1e6}, TypeError, "batch_bytes_max"),
        ("clicks", {"record_bytes_max": None}, TypeError, "record_bytes_max"),
        ("", {}, ValueError, "stream is empty"),
        (None, {}, TypeError, "stream is a text, not None"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_made(
    stream: Any, options: dict[str, Any], kind: type[Exception], said: str
) -> None:
    started: list[str] = []
    with pytest.raises(kind, match=said):
        Producer(ScriptedClient(), stream, spawn=lambda _, name: started.append(name), **options)
    assert started == []


def test_a_client_of_another_service_is_refused() -> None:
    sqs = tidegate_sdk.client("http://127.0.0.1:1", region_name="us-east-1")
    with pytest.raises(TypeError, match="one of kinesis, not of sqs"):
        Producer(sqs, "clicks", spawn=no_thread)


def test_a_fork_takes_no_producer_along(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = make().producer
    with monkeypatch.context() as forked:
        forked.setattr("os.getpid", lambda: -1)
        with pytest.raises(RuntimeError, match="make a producer here"):
            producer.put(b"a", "k")
        with pytest.raises(RuntimeError, match="make a producer here"):
            producer.flush()
        producer.close()


def test_threads_send_by_themselves() -> None:
    client, server = ScriptedClient(), Server()
    client.lay_down("list_shards", ONE)
    client.lay_down("put_records", server)
    before = threading.active_count()
    with Producer(client, "arn:aws:kinesis:::stream/clicks", linger_s=0) as producer:
        futures = [producer.put(f"{n}".encode(), "k") for n in range(2_000)]
        assert [future.result(60).shard_id for future in futures] == ["shard-0"] * 2_000
    assert server.stored == [f"{n}".encode() for n in range(2_000)]
    assert client.asked("put_records")[0]["StreamARN"].startswith("arn:")
    assert threading.active_count() == before
