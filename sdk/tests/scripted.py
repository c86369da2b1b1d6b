"""A clock, threads and a client that do what a test says: no time passes, no socket is opened."""

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from botocore.exceptions import ClientError, EndpointConnectionError

T = TypeVar("T")

STEP_S = 0.1
"""Who waits is woken so often, as any condition may."""

FACT_S_MAX = 60
"""What real threads do in milliseconds is there within this."""


class VirtualClock:
    """Time passes where somebody waits, and as a test says."""

    def __init__(self) -> None:
        self.time_s = 1_000.0
        self.while_waiting: Callable[[], Any] = lambda: None
        """What goes on beside whoever waits."""

    def now_s(self) -> float:
        return self.time_s

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> None:
        assert timeout_s is not None, "nobody would end this"
        self.time_s += min(timeout_s, STEP_S)
        condition.release()
        try:
            self.while_waiting()
        finally:
            condition.acquire()

    def take(self, queue: "SimpleQueue[T]", timeout_s: float | None) -> T | None:
        assert timeout_s is not None, "nobody would end this"
        until_s = self.time_s + timeout_s
        while True:
            self.while_waiting()
            with suppress(Empty):
                return queue.get_nowait()
            self.time_s = min(until_s, self.time_s + STEP_S)
            if self.time_s >= until_s:
                return None


def beside(what: Callable[[], object]) -> None:
    """Another thread can do it, and comes to its end."""
    thread = threading.Thread(target=what, daemon=True)
    thread.start()
    thread.join(FACT_S_MAX)
    assert not thread.is_alive()


def no_thread(_target: Callable[[], None], _name: str) -> None:
    """Start nothing: the test calls what a thread would."""


def leave_at_once(target: Callable[[], None], name: str) -> None:
    """As above, but for the thread that a consumer waits for at its end."""
    if name.startswith("tidegate-leaver-"):
        target()


class _Events:
    def register(self, *_: object, **__: object) -> None:
        """Nothing is sent that could be numbered."""


class _Meta:
    events = _Events()

    class service_model:  # noqa: N801 - as boto3 has it
        service_name = "kinesis"

        class service_id:  # noqa: N801 - as above
            @staticmethod
            def hyphenize() -> str:
                return "kinesis"


class UnexpectedCallError(BaseException):
    """Nobody laid down an answer. What is tested, which catches all errors, lets it pass."""


class ScriptedClient:
    """Answers each operation with what was laid down for it, in order; the last one stays.

    An answer is a value, an exception to raise, or a function of the call's parameters.
    """

    meta = _Meta()

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._answers: defaultdict[str, deque[Any]] = defaultdict(deque)

    def lay_down(self, operation: str, *answers: Any) -> None:
        self._answers[operation].extend(answers)

    def asked(self, operation: str) -> list[dict[str, Any]]:
        return [params for name, params in self.calls if name == operation]

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def answer(**params: Any) -> Any:
            self.calls.append((operation, params))
            answers = self._answers[operation]
            if not answers:
                raise UnexpectedCallError(f"{operation}: {params}")
            said = answers.popleft() if len(answers) > 1 else answers[0]
            if callable(said):
                said = said(params)
            if isinstance(said, BaseException):
                raise said
            return said

        return answer


def refused(
    code: str, status: int = 400, *, text: str = "", attempts_before: int = 0
) -> ClientError:
    answer: Any = {
        "Error": {"Code": code, "Message": text or code},
        "ResponseMetadata": {"HTTPStatusCode": status, "RetryAttempts": attempts_before},
    }
    return ClientError(answer, "Call")


def cut_off() -> Exception:
    return EndpointConnectionError(endpoint_url="http://nowhere.example")
