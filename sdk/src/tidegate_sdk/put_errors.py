"""Why a record is not taken in, or not stored."""


class ProducerClosedError(RuntimeError):
    """The producer was closed, and takes no more records."""


class BufferFullError(TimeoutError):
    """The producer's buffer had no room for a record for as long as the caller would wait."""


class DeliveryError(TimeoutError):
    """A record was not acknowledged in time, or its repeat was refused.

    Where it `may_be_stored` it was sent, and no answer says what came of it: it may be stored, or
    be stored yet. Otherwise it was never sent. The last failure is the error's cause.
    """

    def __init__(self, message: str, *, may_be_stored: bool) -> None:
        super().__init__(message)
        self.may_be_stored = may_be_stored


class PartlyStoredError(Exception):
    """Some records of a call failed; whether one of those may be stored all the same."""

    def __init__(self, message: str, *, may_be_stored: bool) -> None:
        super().__init__(message)
        self.may_be_stored = may_be_stored
