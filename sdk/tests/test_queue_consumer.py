"""The consumer of queues in virtual time, on a client that answers as a test says."""

import signal
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import tidegate_sdk
from sdk.tests.scripted import STEP_S, ScriptedClient, VirtualClock, cut_off, no_thread, refused
from tidegate_sdk import QueueConsumer, ReceivedMessage
from tidegate_sdk.clock import Backoff

URL = "http://queues.example/0/orders"
FIFO = URL + ".fifo"
NOTHING: dict[str, Any] = {}


def message(name: str, *, group: str = "", count: int = 1) -> dict[str, Any]:
    return {
        "MessageId": name,
        "Body": name,
        "ReceiptHandle": f"{name}-{count}",
        "Attributes": {
            "ApproximateReceiveCount": f"{count}",
            **({"MessageGroupId": group} if group else {}),
        },
    }


class Desk:
    """A consumer whose threads are the test."""

    def __init__(self, url: str = URL, **options: Any) -> None:
        self.clock, self.client = VirtualClock(), ScriptedClient()
        self.handled: list[str] = []
        self.raises: dict[str, BaseException] = {}
        self.meanwhile: Callable[[], Any] = lambda: None
        self.consumer = QueueConsumer(
            self.client,
            url,
            self._handler,
            clock=self.clock,
            backoff=Backoff(fraction=lambda: 0.0),
            spawn=no_thread,
            **options,
        )

    def _handler(self, received: ReceivedMessage) -> None:
        self.meanwhile()
        self.handled.append(received.body)
        if received.body in self.raises:
            raise self.raises[received.body]

    def receive(self, *messages: dict[str, Any]) -> None:
        self.client._answers["receive_message"].clear()
        self.client.lay_down("receive_message", {"Messages": list(messages)})
        assert self.consumer.receive_next()

    def handle(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.consumer.handle_next()

    def at(self, time_s: float) -> None:
        """All calls that are due so many seconds after the start."""
        self.clock.time_s = 1_000.0 + time_s
        while self.consumer.call_next():
            pass

    def deleted(self) -> list[list[str]]:
        return [
            [entry["ReceiptHandle"] for entry in call["Entries"]]
            for call in self.client.asked("delete_message_batch")
        ]

    def hidden(self) -> list[tuple[str, int]]:
        return [
            (entry["ReceiptHandle"], entry["VisibilityTimeout"])
            for call in self.client.asked("change_message_visibility_batch")
            for entry in call["Entries"]
        ]


def desk(url: str = URL, **options: Any) -> Desk:
    made = Desk(url, **options)
    made.client.lay_down("delete_message_batch", NOTHING)
    made.client.lay_down("change_message_visibility_batch", NOTHING)
    return made


def test_what_is_done_is_deleted_together_after_a_while() -> None:
    here = desk(linger_s=0.5)
    here.receive(message("a"), message("b"))
    here.handle(2)
    here.at(0.4)
    assert here.deleted() == []
    here.at(0.5)
    assert here.deleted() == [["a-1", "b-1"]]
    assert len(here.consumer._held) == 0


def test_ten_that_are_done_do_not_linger() -> None:
    here = desk(linger_s=9)
    here.receive(*[message(f"{n}") for n in range(10)])
    here.handle(10)
    here.at(0)
    assert [len(call) for call in here.deleted()] == [10]


def test_no_more_is_received_than_there_is_room_for() -> None:
    here = desk(workers=2, prefetch=1)
    here.receive(message("a"), message("b"))
    here.receive(message("c"))
    assert [call["MaxNumberOfMessages"] for call in here.client.asked("receive_message")] == [3, 1]
    assert not here.consumer.receive_next()


def test_what_waits_or_is_handled_is_extended_and_what_is_done_is_not() -> None:
    here = desk(visibility_s=30, linger_s=99)
    here.receive(*[message(name) for name in "abc"])
    here.handle()

    def time_passes() -> None:
        for time_s in (9.9, 10, 20):
            here.at(time_s)

    here.meanwhile = time_passes
    here.handle()
    assert here.hidden() == [("b-1", 30), ("c-1", 30)] * 2


def test_what_comes_between_a_workers_look_and_its_wait_is_handled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = desk(workers=1)
    look = here.consumer.handle_next

    def look_just_before_it_comes() -> bool:
        found = look()
        if not here.client.asked("receive_message"):
            here.receive(message("a"))
        return found

    monkeypatch.setattr(here.consumer, "handle_next", look_just_before_it_comes)
    here.meanwhile = lambda: setattr(here.consumer, "_ended", True)
    here.consumer._handle()
    assert here.handled == ["a"]


def test_a_failed_extension_is_tried_again() -> None:
    here = desk(visibility_s=30)
    here.client._answers.clear()
    here.client.lay_down("change_message_visibility_batch", cut_off(), NOTHING)
    here.receive(message("a"))
    here.at(10)
    assert len(here.hidden()) == 1
    here.at(10.1)
    assert len(here.hidden()) == 2
    here.at(15)
    assert len(here.hidden()) == 2


def test_what_may_be_visible_again_is_not_begun() -> None:
    here = desk(visibility_s=30)
    here.client._answers.clear()
    here.client.lay_down("change_message_visibility_batch", cut_off())
    here.receive(message("a"))
    here.at(29.9)
    here.clock.time_s += 0.1
    assert not here.consumer.handle_next()
    assert (here.handled, len(here.consumer._held)) == ([], 0)


def test_what_the_queue_says_is_somebody_elses_is_not_begun() -> None:
    here = desk(visibility_s=30)
    failed = {"Id": "0", "Code": "MessageNotInflight", "SenderFault": True}
    here.client._answers.clear()
    here.client.lay_down("change_message_visibility_batch", {"Failed": [failed]})
    here.receive(message("a"), message("b"))
    here.at(10)
    here.handle()
    assert here.handled == ["b"]


def test_an_entry_that_failed_by_the_servers_fault_is_repeated() -> None:
    here = desk(linger_s=0)
    failed = {"Id": "1", "Code": "InternalError", "SenderFault": False}
    here.client._answers.clear()
    here.client.lay_down("delete_message_batch", {"Failed": [failed]}, cut_off(), NOTHING)
    here.receive(message("a"), message("b"))
    here.handle(2)
    for time_s in (0, 0.1, 0.4):
        here.at(time_s)
    assert here.deleted() == [["a-1", "b-1"], ["b-1"], ["b-1"]]
    assert len(here.consumer._held) == 0


def test_messages_of_a_group_are_handled_one_at_a_time() -> None:
    here = desk(FIFO)
    here.receive(message("a1", group="a"), message("a2", group="a"), message("b1", group="b"))
    here.meanwhile = lambda: here.consumer.handle_next() if not here.handled else None
    here.handle()
    assert here.handled == ["b1", "a1"], "b1 began and ended while a1 was handled"
    here.handle()
    assert here.handled[-1] == "a2"


def test_a_failure_gives_back_what_follows_in_its_group() -> None:
    here = desk(FIFO)
    here.raises["a1"] = ValueError()
    here.receive(message("a1", group="a"), message("b1", group="b"), message("a2", group="a"))
    here.handle(2)
    assert not here.consumer.handle_next()
    here.at(0)
    assert here.hidden() == [("a1-1", 2), ("a2-1", 0)]


def test_a_standard_queue_has_no_order_of_groups() -> None:
    here = desk()
    here.raises["a1"] = ValueError()
    here.receive(message("a1", group="a"), message("a2", group="a"))
    here.handle(2)
    assert here.handled == ["a1", "a2"]


def test_a_call_waits_for_the_one_before_it() -> None:
    here = desk()
    here.raises["a"] = ValueError()
    here.receive(message("a"))
    meanwhile: list[bool] = []

    def fail_meanwhile(_params: dict[str, Any]) -> dict[str, Any]:
        if not here.handled:
            here.handle()
            meanwhile.append(here.consumer.call_next())
        return NOTHING

    here.client._answers.clear()
    here.client.lay_down("change_message_visibility_batch", fail_meanwhile)
    here.at(10)
    assert here.hidden() == [("a-1", 30), ("a-1", 2)]
    assert meanwhile == [False]


def test_stopping_gives_back_what_is_not_begun_and_finishes_the_rest() -> None:
    here = desk(linger_s=99)

    def stop_and_receive() -> None:
        here.consumer.stop()
        here.at(0)
        assert not here.consumer.receive_next()

    here.receive(message("a"), message("b"))
    here.meanwhile = stop_and_receive
    here.handle()
    assert not here.consumer.handle_next()
    here.at(0)
    assert (here.hidden(), here.deleted()) == ([("b-1", 11)], [["a-1"]])
    here.consumer.run(signals=())


def test_what_a_long_poll_brings_after_the_stop_is_given_back() -> None:
    here = desk()

    def stop_meanwhile(_params: dict[str, Any]) -> dict[str, Any]:
        here.consumer.stop()
        return {"Messages": [message("a")]}

    here.client.lay_down("receive_message", stop_meanwhile)
    assert here.consumer.receive_next()
    here.at(0)
    assert here.hidden() == [("a-1", 11)]


def test_what_a_poll_brings_that_run_left_behind_is_given_back() -> None:
    here = desk(stop_s_max=5)

    def ends_late(_params: dict[str, Any]) -> dict[str, Any]:
        here.consumer.stop()
        here.consumer.run(signals=())
        return {"Messages": [message("a"), message("b")]}

    here.client.lay_down("receive_message", ends_late)
    here.consumer._receive()
    assert here.clock.now_s() == pytest.approx(1_005)
    assert here.hidden() == [("a-1", 0), ("b-1", 0)]
    assert (here.handled, len(here.consumer._held)) == ([], 0)


@pytest.mark.parametrize(
    ("stop_s_max", "wait_s"), [(None, 10), (60, 10), (20, 10), (9, 4), (1, 0), (0, 0)]
)
def test_a_poll_leaves_time_to_give_back_what_it_brings(
    stop_s_max: float | None, wait_s: int
) -> None:
    here = desk(stop_s_max=stop_s_max)
    here.receive()
    assert here.client.asked("receive_message")[0]["WaitTimeSeconds"] == wait_s


def test_polls_of_an_empty_queue_that_do_not_wait_have_pauses_between_them() -> None:
    here = desk(wait_s=0)
    pauses_s = []
    for _ in range(6):
        before_s = here.clock.now_s()
        here.receive()
        pauses_s.append(here.clock.now_s() - before_s)
    assert pauses_s == pytest.approx([0.1, 0.2, 0.4, 0.8, 1, 1])
    before_s = here.clock.now_s()
    here.receive(message("a"))
    assert here.clock.now_s() == before_s
    here.receive()
    assert here.clock.now_s() == pytest.approx(before_s + 0.1)


def test_a_stop_ends_the_pause_between_polls() -> None:
    here = desk(wait_s=0)
    for _ in range(5):
        here.receive()
    here.clock.while_waiting = here.consumer.stop
    before_s = here.clock.now_s()
    here.receive()
    assert here.clock.now_s() == pytest.approx(before_s + STEP_S)


def test_polls_that_wait_have_no_pauses_between_them() -> None:
    here = desk()
    here.receive()
    assert here.clock.now_s() == 1_000


def test_a_network_that_fails_is_waited_for() -> None:
    here = desk()
    here.client.lay_down(
        "receive_message", cut_off(), refused("ServiceUnavailable", 503), {"Messages": []}
    )
    for _ in range(3):
        assert here.consumer.receive_next()
    assert here.clock.now_s() == pytest.approx(1_000.3)
    assert here.consumer._failure is None


@pytest.mark.parametrize("operation", ["receive_message", "delete_message_batch"])
def test_an_error_that_never_passes_ends_it(operation: str) -> None:
    here = desk(linger_s=0)
    here.receive(message("a"))
    here.handle()
    here.client._answers[operation].clear()
    here.client.lay_down(operation, refused("AWS.SimpleQueueService.NonExistentQueue"))
    if operation == "receive_message":
        here.consumer.receive_next()
    here.at(0)
    with pytest.raises(Exception, match="NonExistentQueue"):
        here.consumer.run(signals=())


def test_what_ends_a_thread_ends_the_consumer() -> None:
    here = desk()
    here.raises["a"] = SystemExit(3)
    here.receive(message("a"))
    here.handle()
    here.at(0)
    assert here.hidden() == [("a-1", 11)]
    assert isinstance(here.consumer._failure, SystemExit)


def test_what_interrupts_run_stops_it_first() -> None:
    here = desk()
    here.receive(message("a"), message("b"))

    def interrupt() -> None:
        here.clock.while_waiting = lambda: here.at(1)
        raise KeyboardInterrupt

    here.clock.while_waiting = interrupt
    # The clock of tests waits for nothing without an end.
    here.consumer._patience_s = lambda: 60.0  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        here.consumer.run(signals=())
    assert here.hidden() == [("a-1", 11), ("b-1", 11)]
    assert here.consumer._ended
    assert not here.consumer.receive_next()


def test_it_gives_up_waiting_for_handlers_in_time() -> None:
    here = desk(stop_s_max=5)
    here.receive(message("a"))
    assert here.consumer._held.next_to_handle(here.clock.now_s())
    here.consumer.stop()
    here.consumer.run(signals=())
    assert here.clock.now_s() == pytest.approx(1_005)


def test_threads_have_the_name_of_the_queue() -> None:
    names: list[str] = []
    consumer = QueueConsumer(
        ScriptedClient(), FIFO, print, workers=1, spawn=lambda _, name: names.append(name)
    )
    consumer._start_all()
    whose = ["caller-0", "caller-1", "handler-0", "receiver"]
    assert names == [f"tidegate-{each}-orders.fifo" for each in whose]


@pytest.mark.parametrize(
    "options",
    [{"visibility_s": 0}, {"workers": 0}, {"prefetch": -1}, {"wait_s": -1}, {"wait_s": 21}],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(options))} is "):
        desk(**options)


def test_a_client_of_another_service_and_no_handler_are_refused_at_once() -> None:
    endpoint: dict[str, Any] = {"region_name": "any"}
    kinesis = tidegate_sdk.client("http://nowhere.example", "kinesis", **endpoint)
    queues = tidegate_sdk.client("http://nowhere.example", **endpoint)
    nothing: Any = None
    with pytest.raises(TypeError, match=r"tidegate_sdk.client\(url\)"):
        QueueConsumer(kinesis, URL, lambda _: None)
    with pytest.raises(TypeError, match="handler"):
        QueueConsumer(queues, URL, nothing)
    QueueConsumer(queues, URL, lambda _: None)


def test_a_consumer_runs_once() -> None:
    here = desk()
    here.consumer.stop()
    here.consumer.run(signals=())
    with pytest.raises(RuntimeError, match="runs once"):
        here.consumer.run(signals=())


def test_a_poll_waits_for_half_of_the_clients_read_timeout() -> None:
    client: Any = ScriptedClient()
    client.meta = SimpleNamespace(config=SimpleNamespace(read_timeout=10))
    client.lay_down("receive_message", NOTHING)
    assert QueueConsumer(client, URL, lambda _: None, wait_s=20).receive_next()
    assert client.asked("receive_message")[0]["WaitTimeSeconds"] == 5


def _stopped_meanwhile(_params: dict[str, Any]) -> dict[str, Any]:
    signal.raise_signal(signal.SIGTERM)
    return NOTHING


def test_threads_work_until_a_signal_comes() -> None:
    client = ScriptedClient()
    client.lay_down("receive_message", *[{"Messages": [message(f"{n}")]} for n in range(50)])
    client.lay_down("receive_message", _stopped_meanwhile)
    client.lay_down("delete_message_batch", NOTHING)
    client.lay_down("change_message_visibility_batch", NOTHING)
    before = threading.active_count()
    handled: list[str] = []
    consumer = QueueConsumer(client, URL, lambda received: handled.append(received.body))
    consumer.run()
    deleted = [entry for call in client.asked("delete_message_batch") for entry in call["Entries"]]
    given_back = client.asked("change_message_visibility_batch")
    assert len(deleted) == len(handled)
    assert len(handled) + sum(len(call["Entries"]) for call in given_back) == 50
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    while threading.active_count() > before:
        pass  # its threads see that it is over
