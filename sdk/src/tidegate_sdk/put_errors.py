"""Why a record is not taken in, or not stored."""

from copy import copy
from functools import partial
from typing import Any

from botocore.exceptions import ClientError


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

    def __reduce__(self) -> tuple[Any, ...]:
        """For copy and pickle, which else call the class with its text alone."""
        return partial(type(self), may_be_stored=self.may_be_stored), self.args


class PartlyStoredError(Exception):
    """Some records of a call failed; whether one of those may be stored all the same."""

    def __init__(self, message: str, *, may_be_stored: bool) -> None:
        super().__init__(message)
        self.may_be_stored = may_be_stored


def like(error: Exception) -> Exception:
    """Another one that says the same, of the same class: each raise lengthens an error's traceback.

    copy.copy would make a plain ClientError of one of a client's `exceptions`.
    """
    try:
        if isinstance(error, ClientError):
            other: Exception = type(error)(error.response, error.operation_name)
        else:
            other = copy(error)
    except Exception:  # noqa: BLE001 - not every class can be made again: then it is shared
        return error
    other.__cause__, other.__context__ = error.__cause__, error.__context__
    other.__suppress_context__ = error.__suppress_context__
    return other.with_traceback(error.__traceback__)
