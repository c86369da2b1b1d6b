"""What is wanted of records that were received from a queue of the Kinesis API."""

from typing import Final, NamedTuple

from data_plane.core.receipt_handle import ReceiptHandle

ACKNOWLEDGE: Final = "acknowledge"
HIDE: Final = "hide"
RESTORE: Final = "restore"


class Wish(NamedTuple):
    """To be rid of a record, to hide it for `visibility_s` from now, or to restore a dead letter.

    `act` is one of ACKNOWLEDGE, HIDE and RESTORE.
    """

    handle: ReceiptHandle
    act: str
    visibility_s: int = 0
