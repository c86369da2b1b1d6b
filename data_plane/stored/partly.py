"""Calls whose parts are stored side by side: what a caller is told when some of them fail."""

from collections.abc import Iterable

from data_plane.core.errors import RefusedError
from data_plane.ports import CellUnavailableError


def failure_of(outcomes: Iterable[object], *, is_stored: bool) -> Exception | None:
    """The failure of a call with these outcomes, of which a part `is_stored`; None: it has none.

    What is refused has stored nothing. So a refusal is told only where that holds of all parts:
    else the call is worth another try, which finds what is stored.
    """
    refusal: RefusedError | None = None
    for outcome in outcomes:
        if isinstance(outcome, RefusedError):
            refusal = outcome
        elif isinstance(outcome, Exception):
            return outcome
    if refusal is not None and is_stored:
        return CellUnavailableError(f"a part of the call is stored, another is not: {refusal}")
    return refusal
