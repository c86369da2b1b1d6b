"""Which usage record the answer to a request is going to be, where that is known before it.

A function knows, as it serves one request at a time. What is stored for the request says it then
(docs/storage.md, `ra`), so that its sends can be told from those whose records got lost. As a
deadline, it belongs to a context. Servers, and work that no request waits for, have none.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from struct import Struct
from typing import Final, NamedTuple

_PACKED: Final = Struct(">8sII")
_RECORD: ContextVar[bytes] = ContextVar("answer_record", default=b"")


class AnswerRecord(NamedTuple):
    """The record's identity (docs/usage.md), and the minute since the epoch that it is of.

    `writer` has 16 hexadecimal digits.
    """

    writer: str
    number: int
    minute: int

    def packed(self) -> bytes:
        """The 16 bytes that are stored of it."""
        return _PACKED.pack(bytes.fromhex(self.writer), self.number, self.minute)


def answer_record() -> bytes:
    """The record of the request whose work this is, packed; b"" where nobody knows it."""
    return _RECORD.get()


@contextmanager
def answered_as(record: AnswerRecord) -> Iterator[None]:
    """Work for a request whose answer becomes this record."""
    before = _RECORD.set(record.packed())
    try:
        yield
    finally:
        _RECORD.reset(before)
