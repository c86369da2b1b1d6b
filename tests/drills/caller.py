"""One connection to a server: calls in AWS JSON, and pages."""

import http.client
import json
import time
from typing import Any, Final, Self

REPLY_S_MAX: Final = 30.0
UNAVAILABLE: Final = 503
_INSISTS_S: Final = 300.0
_NAP_S: Final = 0.25


class RefusedError(Exception):
    """The server answered, but not with 200."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status
        self.text = text


class LostConnectionError(Exception):
    """There was no answer, or half of one."""


class Caller:
    """Waits for each answer. Opens its connection with the first call."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REPLY_S_MAX)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def call(self, operation: str, **params: object) -> dict[str, Any]:
        """Make a call and return its answer. Raises RefusedError, LostConnectionError."""
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"AmazonSQS.{operation}",
        }
        text = self._exchange("POST", "/", json.dumps(params).encode(), headers)
        answer: dict[str, Any] = json.loads(text) if text else {}
        return answer

    def insist(self, operation: str, **params: object) -> dict[str, Any]:
        """Call again where the answer is 503, as it may be on a busy machine, for minutes.

        Raises as `call`.
        """
        until_s = time.monotonic() + _INSISTS_S
        while True:
            try:
                return self.call(operation, **params)
            except RefusedError as error:
                if error.status != UNAVAILABLE or time.monotonic() > until_s:
                    raise
            time.sleep(_NAP_S)  # between two tries

    def page(self, path: str) -> str:
        """Get a page. Raises RefusedError, LostConnectionError."""
        return self._exchange("GET", path, None, {})

    def _exchange(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> str:
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise LostConnectionError(str(error)) from error
        if response.status != http.client.OK:
            raise RefusedError(response.status, text)
        return text
