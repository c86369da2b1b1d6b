"""Refusals as responses, in the protocol of the request."""

from collections.abc import Mapping
from typing import Final

from data_plane.core.errors import REQUEST_THROTTLED, Fault, RefusedError
from data_plane.protocol.http import HttpResponse
from data_plane.protocol.service import Service
from data_plane.protocol.wire_protocols import protocol_of

_US_PER_MS: Final = 1_000
_US_PER_S: Final = 1_000_000


class ThrottledError(RefusedError):
    """The request asks for more than its account may have; after `retry_after_us` it may not."""

    def __init__(self, retry_after_us: int) -> None:
        # The words are those recorded from AWS.
        super().__init__(REQUEST_THROTTLED, "Request is throttled.")
        self.retry_after_us = retry_after_us


def encode_refusal(  # noqa: PLR0913, PLR0917 - what an answer says, and how
    headers: Mapping[str, str],
    request_id: str,
    fault: Fault,
    message: str,
    retry_after_us: int = 0,
    service: Service | None = None,
) -> HttpResponse:
    """The response that refuses a request; with a time, it says when to try again.

    `headers` are the request's: its protocol is known by them. `service` is the one that was asked,
    if that is known.
    """
    protocol = protocol_of(headers)
    spelled = protocol.spell(fault, headers)
    response = protocol.encode_fault(request_id, service, spelled, message)
    if not retry_after_us:
        return response
    told = [*response.headers, ("retry-after", str(-(-retry_after_us // _US_PER_S)))]
    if fault is REQUEST_THROTTLED:
        # In milliseconds; boto3 heeds it, and adds nothing to it. So an overloaded server does not
        # send it: all whom it refuses would come back at once.
        told.append(("x-amz-retry-after", str(-(-retry_after_us // _US_PER_MS))))
    return HttpResponse(response.status, tuple(told), response.body)
