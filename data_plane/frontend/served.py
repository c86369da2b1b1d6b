"""What one request was and did, for logs, metrics and bills."""

from collections.abc import Callable

import msgspec


class Served(msgspec.Struct, frozen=True, gc=False):
    """One answered request.

    `operation` is "" where the request named none that exists (one of another service than SQS has
    that before it: "kinesis:PutRecord"), `queue` the name of the queue it named ("" for none, and
    for a text that is no name), `account` the queue's, else the caller's. `code` is "" or the code
    of the error it got. `messages` were sent, received or deleted; `bytes` is the size of those
    sent or received; `failed_entries` of a batch were not. `units` is what it is billed by, where
    those are not chunks of that size (0); `behind_ms` as in Work, `kind` as in Stored. Of those
    sent, `duplicates` and `duplicate_bytes` were there already, and not stored again. `cell` has
    the queue's messages; `counted`: what is stored there says that this request is one. `principal`
    is the caller's ARN, where a signature proved it ("": it did not), `access_key_id` whose
    signature that was. `exception` is set where something broke that no client can cause.
    """

    request_id: str
    operation: str
    account: str
    region: str
    queue: str
    protocol: str
    status: int
    code: str
    started_us: int
    finished_us: int
    messages: int
    bytes: int
    failed_entries: int
    client: str
    cell: str = ""
    principal: str = ""
    access_key_id: str = ""
    duplicates: int = 0
    duplicate_bytes: int = 0
    counted: bool = False
    units: int = 0
    behind_ms: int = 0
    kind: str = ""
    exception: BaseException | None = None


Unobserved = Callable[[str, Exception], None]
"""Is told who did not hear of an answer, and why. Where serving is to go on, it raises nothing."""


def raise_unobserved(_observer: str, error: Exception) -> None:
    """Raise it, where nobody but tests asks for answers."""
    raise error
