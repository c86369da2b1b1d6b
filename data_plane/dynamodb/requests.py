"""Requests to DynamoDB: sent until one is answered, at most for so long, and never misread.

Everything here blocks; the cell runs it through the Offload port. botocore makes one attempt of
each request, because its own retries are counted and not timed, and because it takes a damaged
answer of status 200 for one that says nothing. Which failures are repeated is decided in one place,
`_is_transient`.
"""

from binascii import crc32
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    HTTPClientError,
    ReadTimeoutError,
)
from botocore.exceptions import ConnectionError as NoConnectionError
from botocore.parsers import ResponseParserError
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_before_delay,
    wait_random_exponential,
)

from data_plane.core.attempt_patience import AttemptPatience
from data_plane.core.retry_budget import RetryBudget
from data_plane.core.undecodable import UNDECODABLE
from data_plane.dynamodb.store_time import ClockExchange, read_date_us
from data_plane.ports import CellThrottledError, CellUnavailableError, DeadlinePassedError

T = TypeVar("T")

WAIT_S_FIRST: Final = 0.05
WAIT_S_MAX: Final = 1.0
SHORT_US: Final = 2_000_000
"""For so long a store that is well does not take; the client's read timeout."""

"""Bounds of the wait before a repetition: it is drawn between 0 and a bound that doubles."""

_REFUSED: Final = "ConditionalCheckFailedException"
_THROTTLES: Final = frozenset(
    {
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "TransactionConflictException",
    }
)
_MISTAKES: Final = frozenset({"ValidationException", "SerializationException"})
"""What only a change of this code cures."""

_ALWAYS_THERE: Final = {"query": "Items", "batch_get_item": "Responses"}
"""Members without which an answer would read as if there was nothing."""

_TOO_BIG: Final = "exceeded the maximum allowed size"
_OK: Final = 200
_SERVER_ERRORS: Final = 500


class ItemTooBigError(Exception):
    """The item would be bigger than the 400 KB that DynamoDB takes; nothing was written."""


class DamagedAnswerError(Exception):
    """An answer that did not arrive as it was sent: what it says, or does not say, is unknown."""


class _UnprocessedError(Exception):
    """DynamoDB left out a part of a batch."""


_TRANSIENT: Final = (
    NoConnectionError,
    HTTPClientError,
    ResponseParserError,
    DamagedAnswerError,
    _UnprocessedError,
)


_TIMEOUTS: Final = (ReadTimeoutError, ConnectTimeoutError)


class Answer(NamedTuple):
    """What a request brought.

    `refused` says that the condition of a write did not hold; `body` then is the error's, with the
    occupant as `Item`.
    """

    body: Mapping[str, Any]
    refused: bool
    exchange: ClockExchange


@dataclass(slots=True)
class RequestCounters:
    """What was sent since the start. `units` are capacity units by operation, where reported."""

    requests: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    units: Counter[str] = field(default_factory=Counter)


class Requests:
    """Sends requests of a client (opening.connect makes it) until they are answered.

    The last attempt begins before `until_us` (`monotonic_us`), so a call takes that long and the
    client's timeouts at most. A failed request is sent again as long as `budget` allows it. Where
    there is a `patient` client, with longer timeouts, it serves while the store is slow.

    May be used by several threads; counters are then approximate. `send` and `send_batch` raise
    CellUnavailableError, and ItemTooBigError; what is a mistake of this code is raised as it comes.
    """

    def __init__(
        self,
        client: Any,
        monotonic_us: Callable[[], int],
        *,
        report_units: bool = False,
        patient: Any = None,
    ) -> None:
        self.counters = RequestCounters()
        self.budget = RetryBudget()
        self._patience = AttemptPatience(SHORT_US)
        self._patient = patient or client
        self._client = client
        self._monotonic_us = monotonic_us
        self._report_units = report_units
        check_answers(client)
        check_answers(self._patient)

    def send(self, operation: str, parameters: Mapping[str, Any], until_us: int) -> Answer:
        """The answer to one request; `operation` is the client's method."""
        return self._repeat(operation, until_us, lambda: self._attempt(operation, parameters))

    def send_batch(
        self, operation: str, parameters: Mapping[str, Any], until_us: int, unprocessed: str
    ) -> list[Answer]:
        """The answers to a batch, repeated until nothing is left under the member `unprocessed`."""
        answers: list[Answer] = []
        left = dict(parameters)

        def attempt() -> None:
            answers.append(self._attempt(operation, left))
            rest = answers[-1].body.get(unprocessed)
            if rest:
                left["RequestItems"] = rest
                raise _UnprocessedError(f"DynamoDB did not get to a part of a {operation}")

        self._repeat(operation, until_us, attempt)
        return answers

    def _repeat(self, operation: str, until_us: int, attempt: Callable[[], T]) -> T:
        left_s = (until_us - self._monotonic_us()) / 1_000_000
        if left_s <= 0:
            # Whoever asked has waited long enough, and those behind it need the thread.
            raise DeadlinePassedError(f"{operation}: no thread was free for it in time")
        self.budget.called()
        refusals = 0

        def may_retry(error: BaseException) -> bool:
            nonlocal refusals
            again = self._may_retry(error)
            refusals += again and (_is_throttle(error) or isinstance(error, _UnprocessedError))
            return again

        retrying = Retrying(
            retry=retry_if_exception(may_retry),
            stop=stop_before_delay(left_s),
            wait=wait_random_exponential(multiplier=WAIT_S_FIRST, max=WAIT_S_MAX),
            before_sleep=self._count_retry,
            reraise=True,
        )
        try:
            answer = retrying(attempt)
        except Exception as error:
            told = _translated(operation, error)
            if told is None:
                raise
            raise told from error
        self.budget.succeeded(refusals)
        return answer

    def _may_retry(self, error: BaseException) -> bool:
        timed_out = isinstance(error, _TIMEOUTS)
        return _is_transient(error) and self.budget.may_retry(timed_out=timed_out)

    def _count_retry(self, _state: RetryCallState) -> None:
        self.counters.retries += 1

    def _attempt(self, operation: str, parameters: Mapping[str, Any]) -> Answer:
        self.counters.requests[operation] += 1
        if self._report_units:
            parameters = {**parameters, "ReturnConsumedCapacity": "TOTAL"}
        refused = False
        sent_us = self._monotonic_us()
        try:
            body = self._call(operation, parameters, sent_us)
        except ClientError as error:
            if error.response["Error"].get("Code") != _REFUSED:
                raise
            body, refused = error.response, True
        received_us = self._monotonic_us()
        member = _ALWAYS_THERE.get(operation)
        if member is not None and member not in body:
            raise DamagedAnswerError(f"the answer to a {operation} has no {member}")
        self._count_units(operation, body.get("ConsumedCapacity"))
        date = body["ResponseMetadata"]["HTTPHeaders"].get("date", "")
        try:
            exchange = ClockExchange(sent_us, received_us, read_date_us(date))
        except ValueError as error:
            raise DamagedAnswerError(
                f"an answer does not say when it was made: {date!r}"
            ) from error
        return Answer(body, refused, exchange)

    def _call(self, operation: str, parameters: Mapping[str, Any], sent_us: int) -> Any:
        patient = self._patience.begin()
        timed_out = False
        try:
            return getattr(self._patient if patient else self._client, operation)(**parameters)
        except ReadTimeoutError:
            timed_out = True
            raise
        finally:
            took_us = self._monotonic_us() - sent_us
            self._patience.ended(took_us, patient=patient, timed_out=timed_out)

    def _count_units(self, operation: str, consumed: Any) -> None:
        for one in consumed if isinstance(consumed, list) else [consumed]:
            if one is not None:
                self.counters.units[operation] += one.get("CapacityUnits", 0)


def check_answers(client: Any) -> None:
    """Let the client raise DamagedAnswerError for answers that are not whole."""
    client.meta.events.register("before-parse.dynamodb", check_answer, unique_id="check-answer")


def check_answer(response_dict: Mapping[str, Any], **_: object) -> None:
    """Raise DamagedAnswerError for a body that is not whole, before anybody reads it.

    DynamoDB sends the CRC-32 of the body. Where it is missing (a proxy took it away) the body must
    be a JSON object, of which half cannot be one. 5xx are failures whatever they say.
    """
    status, body = response_dict["status_code"], response_dict["body"]
    if status >= _SERVER_ERRORS:
        return
    sent = response_dict["headers"].get("x-amz-crc32")
    if sent is not None:
        if str(crc32(body)) == sent.strip():
            return
        raise DamagedAnswerError(f"an answer of status {status} does not have its checksum")
    try:
        msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except UNDECODABLE as error:
        raise DamagedAnswerError(
            f"an answer of status {status} is no JSON object ({len(body)} bytes)"
        ) from error


def _is_throttle(error: BaseException) -> bool:
    return isinstance(error, ClientError) and error.response["Error"].get("Code") in _THROTTLES


def _is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed a moment later."""
    if isinstance(error, ClientError):
        status = error.response["ResponseMetadata"].get("HTTPStatusCode", 0)
        return _is_throttle(error) or status >= _SERVER_ERRORS
    return isinstance(error, _TRANSIENT)


def _translated(operation: str, error: Exception) -> Exception | None:
    """What the caller of a request is told; None: the error itself."""
    match error:
        case ClientError():
            code = error.response["Error"].get("Code")
            message = error.response["Error"].get("Message", "")
            if code in _THROTTLES:
                return CellThrottledError(f"DynamoDB answered {operation} with {code}: {message}")
            if code not in _MISTAKES:
                return CellUnavailableError(f"DynamoDB answered {operation} with {code}: {message}")
            return ItemTooBigError(f"{operation}: {message}") if _TOO_BIG in message else None
        case BotoCoreError() | ResponseParserError() | DamagedAnswerError() | _UnprocessedError():
            return CellUnavailableError(f"{operation}: {' '.join(str(error).split())}")
    return None
