"""The front end: every request passes the same list of stages."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from data_plane.core.deadline import reset_deadline
from data_plane.core.errors import (
    INTERNAL_FAILURE,
    SERVICE_UNAVAILABLE,
    Fault,
    RefusedError,
)
from data_plane.core.identifiers import is_shown_name, random_uuid_text
from data_plane.core.limits import SMALL_BODY_BYTES_MAX
from data_plane.core.long_answers import use_room
from data_plane.core.turns import InTurns, at_once
from data_plane.frontend.admission import Admission
from data_plane.frontend.authentication import authenticate
from data_plane.frontend.authorisation import authorise, name_resource
from data_plane.frontend.deadlines import allow_waiting, begin
from data_plane.frontend.dispatch import encode_output, measure, perform
from data_plane.frontend.exchange import Exchange, Stage
from data_plane.frontend.identity import identify
from data_plane.frontend.intake import (
    check_size_and_syntax,
    decode_params,
    find_operation,
)
from data_plane.frontend.making import Making
from data_plane.frontend.places import Places
from data_plane.frontend.queue_address import ExpectedQueue, find_queue, require_queue
from data_plane.frontend.refusals import ThrottledError, encode_refusal
from data_plane.frontend.repeats import recognise_repeats
from data_plane.frontend.served import Served, Unobserved, raise_unobserved
from data_plane.frontend.settings import FrontEndSettings
from data_plane.frontend.storing import StorageUse, hold_to_storage
from data_plane.frontend.throttling import Throttle
from data_plane.frontend.validation import check_required
from data_plane.ports import (
    AccountQuotas,
    CellFullError,
    CellUnavailableError,
    Clock,
    Credentials,
    Entropy,
    Queues,
)
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.protocol.service import Service, Services
from data_plane.protocol.wire_protocols import protocol_of

_REQUEST_ID_BYTES: Final = 16
_US_PER_S: Final = 1_000_000
_SERVER_ERRORS: Final = 500


class FrontEnd:
    """Answers requests, whoever serves them.

    `observe` is called once for each answer, also where it is a failure. What it raises, or what
    measures, goes to `unobserved`, and not to who asked: it was done. Without `expected` queues
    a send to one that is missing is refused; without `quotas` nobody is throttled, without `stored`
    nobody held to what may be stored, and without `making` there is no end to what long answers
    hold; without `credentials` neither are signatures verified nor policies asked. Others have
    their turn while something long goes on. `machine` is the machine's clock, where `clock` is
    another one.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what an answer depends on
        self,
        services: Iterable[Service],
        queues: Queues,
        clock: Clock,
        entropy: Entropy,
        settings: FrontEndSettings,
        observe: Callable[[Served], None],
        expected: ExpectedQueue | None = None,
        quotas: AccountQuotas | None = None,
        credentials: Credentials | None = None,
        stored: StorageUse | None = None,
        unobserved: Unobserved = raise_unobserved,
        in_turns: InTurns = at_once,
        machine: Clock | None = None,
        making: Making | None = None,
    ) -> None:
        self._clock = clock
        self._making = making
        self._machine = machine or clock
        self._entropy = entropy
        self._settings = settings
        self._observe = observe
        self._unobserved = unobserved
        known = Services(services)
        self._throttle = Throttle(quotas) if quotas else None
        places = Places(settings.calls_max, settings.long_polls_max, quotas)
        self._verifies = credentials is not None
        self.admission = Admission(known, credentials, clock, self._throttle)
        self._stages: tuple[Stage, ...] = (
            check_size_and_syntax(settings),
            find_operation(known),
            authenticate(credentials, self._machine, in_turns)
            if credentials
            else identify(settings),
            *((self._throttle.by_account,) if self._throttle else ()),
            decode_params(in_turns),
            find_queue(queues, expected, settings.base_url),  # metadata
            name_resource,
            *((authorise(queues),) if credentials else ()),
            *((self._throttle.by_queue,) if self._throttle else ()),
            allow_waiting(settings),
            require_queue,
            *((hold_to_storage(quotas, stored),) if quotas and stored else ()),
            check_required,  # validate
            recognise_repeats,  # deduplicate
            places.around(perform(settings, clock)),  # dispatch
            measure(unobserved),  # meter
            encode_output(in_turns),  # answer
        )

    def refuse_unread(self, headers: Mapping[str, str]) -> HttpResponse | None:
        """The refusal of a request that is certain from its headers, if it is; not observed."""
        if self._throttle is None:
            return None
        wait_us = self._throttle.exhausted_for_us(headers, self._clock.now_us())
        if not wait_us:
            return None
        request_id = random_uuid_text(self._entropy.random_bytes(_REQUEST_ID_BYTES))
        error = ThrottledError(wait_us)
        return encode_refusal(headers, request_id, error.fault, error.message, wait_us)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer one request. Raises nothing that a request or a store can cause."""
        exchange = Exchange(
            request,
            request.request_id or random_uuid_text(self._entropy.random_bytes(_REQUEST_ID_BYTES)),
            self._clock.now_us(),
            protocol_of(request.headers),
            machine_us=self._machine.now_us() if self._verifies else 0,
        )
        code = ""
        failure: Exception | None = None
        deadline = begin(exchange, self._settings)
        room = self._making.room(exchange) if self._making is not None else None
        use_room(room)
        try:
            for stage in self._stages:
                waiting = stage(exchange)
                if waiting is not None:
                    await waiting
                if exchange.response is not None:
                    break
            if self._throttle is not None:
                await self._throttle.charge_answer(exchange)
            _name_payer(exchange)
        except Exception as error:  # noqa: BLE001 - observed with its traceback, and answered 500
            fault, message, unexpected = _explain(error)
            code = exchange.protocol.spell(fault, request.headers).code
            failure = error if unexpected else None
            exchange.response = encode_refusal(
                request.headers,
                exchange.request_id,
                fault,
                message,
                self._retry_after_us(fault, error),
                exchange.service,
            )
            if isinstance(error, ThrottledError):
                exchange.response = replace(exchange.response, held_back=True)
        finally:
            reset_deadline(deadline)
            use_room(None)  # What was begun within the request may outlive it, with its context.
            if room is not None:
                room.leave()
        response = exchange.response
        if response is None:
            raise TypeError("the last stage makes the response")
        if self._verifies and exchange.caller is None and response.status < _SERVER_ERRORS:
            response = replace(response, held_back=True)
        try:
            self._observe(self._served(exchange, response.status, code, failure))
        except Exception as error:  # noqa: BLE001 - told; the answer stands
            self._unobserved("answer", error)
        return response

    def _retry_after_us(self, fault: Fault, error: Exception) -> int:
        if isinstance(error, ThrottledError):
            return error.retry_after_us
        return self._settings.retry_after_s * _US_PER_S if fault is SERVICE_UNAVAILABLE else 0

    def _served(
        self, exchange: Exchange, status: int, code: str, failure: Exception | None
    ) -> Served:
        caller = exchange.caller
        key_id = caller.access_key_id if caller is not None else ""
        work, stored = exchange.work, exchange.stored
        named = exchange.queue_name  # Policies may have been asked about whatever text was sent.
        return Served(
            request_id=exchange.request_id,
            operation=exchange.shown_operation,
            account=exchange.owner,
            region=exchange.region,
            queue=named if is_shown_name(named) else "",
            protocol=exchange.protocol.name,
            status=status,
            code=code,
            started_us=exchange.started_us,
            finished_us=self._clock.now_us(),
            messages=work.messages,
            bytes=work.size,
            failed_entries=work.failed_entries,
            client=exchange.request.client,
            cell=exchange.queue.cell if exchange.queue else "",
            principal=caller.arn if caller is not None and key_id else "",
            access_key_id=key_id,
            duplicates=work.messages - stored.messages if work.sent else 0,
            duplicate_bytes=work.size - stored.size_bytes if work.sent else 0,
            counted=stored.counted,
            units=work.units,
            behind_ms=work.behind_ms,
            kind=stored.kind,
            exception=failure,
        )


def _name_payer(exchange: Exchange) -> None:
    """Say of a long answer who is charged with what waits of it."""
    response = exchange.response
    if response is not None and len(response.body) > SMALL_BODY_BYTES_MAX and exchange.account:
        exchange.response = replace(response, account=exchange.account)


def _explain(error: Exception) -> tuple[Fault, str, bool]:
    """The fault and message for an exception, and whether nobody expected it."""
    match error:
        case RefusedError():
            return error.fault, error.message, False
        case CellFullError():
            return SERVICE_UNAVAILABLE, "The service has no room for more messages.", False
        case CellUnavailableError():
            return SERVICE_UNAVAILABLE, "The service is unavailable. Try again.", False
        case _:
            return INTERNAL_FAILURE, "The service encountered an internal error.", True
