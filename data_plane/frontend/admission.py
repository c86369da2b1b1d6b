"""Who may send a long body, and how long: decided before it is read, by what is in front of it.

A short body (SMALL_BODY_BYTES_MAX) costs so little that it is read whoever sends it, and looked at
afterwards. A longer one is read for an operation that has such bodies, and, where signatures are
verified, for somebody who names an access key that exists: what strangers send is never held.
"""

from typing import NamedTuple

from data_plane.core.errors import (
    INVALID_ACTION,
    SERVICE_UNAVAILABLE,
    RefusedError,
    request_too_large,
)
from data_plane.frontend.authentication import claimed_key
from data_plane.frontend.throttling import Throttle
from data_plane.ports import CellUnavailableError, Clock, Credentials
from data_plane.protocol.http import HttpRequest
from data_plane.protocol.service import Services
from data_plane.protocol.wire_protocols import Found, protocol_of


class Admitted(NamedTuple):
    """A body may come. `account` is charged with holding it ("": nobody's in particular).

    It may have `bytes_max`; None: its beginning has to say for what it is.
    """

    account: str
    bytes_max: int | None


class Admission:
    """Admits long bodies. Without `credentials` it asks nobody who they are."""

    def __init__(
        self,
        services: Services,
        credentials: Credentials | None,
        clock: Clock,
        throttle: Throttle | None = None,
    ) -> None:
        self._services = services
        self._credentials = credentials
        self._clock = clock
        self._throttle = throttle

    async def admit(self, head: HttpRequest, length: int) -> Admitted:
        """Whether a body of this length may follow the head. Raises RefusedError if not."""
        account = ""
        found = self._find(head)
        if self._credentials is not None:
            try:
                names = self._services.names if found is None else (found[0].name,)
                _, key = await claimed_key(head, names, self._credentials, self._clock)
            except CellUnavailableError as error:
                message = "The service is unavailable. Try again."
                raise RefusedError(SERVICE_UNAVAILABLE, message) from error
            account = key.caller.account
        bytes_max = _bytes_max(found) if found is not None else None
        if bytes_max is not None and length > bytes_max:
            raise request_too_large(bytes_max)
        if self._throttle is not None:
            await self._throttle.claim(account, length, self._clock.now_us())
        return Admitted(account, bytes_max)

    def bytes_max(self, beginning: HttpRequest) -> int:
        """How long a form may be of which this is the head and the beginning.

        Raises RefusedError where it names no operation.
        """
        found = self._find(beginning)
        if found is None:
            raise RefusedError(INVALID_ACTION, "The request names no action, or names it too late.")
        return _bytes_max(found)

    def _find(self, request: HttpRequest) -> Found | None:
        return protocol_of(request.headers).find(self._services, request)


def _bytes_max(found: Found) -> int:
    service, operation = found
    return service.body_bytes_max[operation.name]
