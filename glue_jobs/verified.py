"""What pointers say of invoices, held to the tables of invoices that they name by their hashes."""

import io
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final

import pyarrow.parquet as pq

from glue_jobs.invoice_terms import EXACT
from glue_jobs.invoicing import CREDIT
from glue_jobs.outputs import ALTERED, Pointer, altered_of, canonical, pointers, set_aside
from glue_jobs.places import Place

_DIGITS: Final = 6
"""Of an invoice's number, at the least."""


@dataclass(frozen=True, slots=True)
class Verified:
    """Runs as they were written: the `closed` ones, and that which counts `before` this one.

    `altered` are by periods the runs of which something is gone, or is not what was written. `told`
    is that with what runs over this period found that were cut off before they could say so.
    """

    before: Pointer | None = None
    closed: Sequence[Pointer] = ()
    altered: Mapping[str, tuple[Pointer, list[str]]] = field(default_factory=dict)
    told: Mapping[str, tuple[Pointer, list[str]]] = field(default_factory=dict)

    def hashes_before(self, period: str) -> dict[str, str]:
        """What pointers of closed periods before one hash to, as they were put."""
        return {its.period: its.sha256 for its in self.closed if its.period < period}


def verified(place: Place, period: str) -> Verified:
    """What was written, for a run over this period."""
    runs = [its for its in pointers(place) if its.closed or its.period == period]
    runs = [_held(place, its) for its in runs]
    before = next((its for its in runs if its.period == period), None)
    altered = altered_of(place, runs)
    told = altered
    if before is not None and (names := _untold(place, before, altered)):
        told = {**altered, period: (before, names)}
    for its, found in altered.values():
        if not its.closed:
            set_aside(place, its, found)
    return Verified(before, [its for its in runs if its.closed], altered, told)


def _untold(
    place: Place, before: Pointer, altered: Mapping[str, tuple[Pointer, list[str]]]
) -> list[str]:
    """What is to be said of a period; of an open one it is written down before it is set aside."""
    _, found = altered.get(before.period, (before, []))
    try:
        known = json.loads(place.read(_note_of(before.period)))
    except (OSError, ValueError):
        known = []
    names = sorted({*known, *found})
    if not before.closed and names != known:
        place.put(_note_of(before.period), canonical(names))
    return names


def end(place: Place, period: str) -> None:
    """Let what was said of a period count as told."""
    name = _note_of(period)
    with suppress(FileNotFoundError):
        place.move(name, f"{ALTERED}/{sha256(place.read(name)).hexdigest()}")


def _note_of(period: str) -> str:
    return f"{ALTERED}/untold-{period}.json"


def _held(place: Place, its: Pointer) -> Pointer:
    """A pointer with what its invoices say, where its own words differ."""
    rows = _rows(place, its, f"invoices/period={its.period}/run={its.run}/invoices/")
    if rows is None:
        return its
    said = its.said
    true: dict[str, Mapping[str, Any] | None] = {
        "invoices": {row["account"]: row["payable"] for row in rows},
        "currencies": {row["account"]: row["currency"] for row in rows},
    }
    if "credits_used" in said:
        true["credits_used"] = _credits(place, its)
    found: dict[str, Any] = {
        name: _as_told(value, said.get(name)) for name, value in true.items() if name in said
    }
    if "numbering" in said:
        numbers = {row["account"]: row["number"] for row in rows}
        found["numbering"] = _numbering(numbers, said["numbering"])
    if all(said.get(name) == value for name, value in found.items()):
        return its
    return replace(its, said={**said, **found}, is_altered=True)


def _rows(place: Place, its: Pointer, prefix: str, **options: Any) -> list[dict[str, Any]] | None:
    """Rows of the tables below a prefix; None where one is not what the run wrote."""
    rows: list[dict[str, Any]] = []
    for one in its.said["files"]:
        if one["name"].startswith(prefix):
            try:
                content = place.read(one["name"])
            except OSError:
                return None
            if sha256(content).hexdigest() != one["sha256"]:
                return None
            rows += pq.read_table(io.BytesIO(content), **options).to_pylist()
    return rows


def _credits(place: Place, its: Pointer) -> dict[str, Decimal] | None:
    prefix = f"invoices/period={its.period}/run={its.run}/lines/date={its.period}-01/"
    columns = ["kind", "sku", "cost"]
    lines = _rows(place, its, prefix, columns=columns, filters=[("kind", "=", CREDIT)])
    if lines is None:
        return None
    used: dict[str, Decimal] = {}
    for line in lines:
        used[line["sku"]] = EXACT.subtract(used.get(line["sku"], Decimal(0)), line["cost"])
    return used


def _as_told(true: Mapping[str, Any] | None, told: Any) -> Any:
    """The facts, in the very words of what is told where those mean them."""
    if true is None or not isinstance(told, Mapping):
        return told if true is None else {key: _text(value) for key, value in true.items()}
    return {
        key: told[key] if key in told and _is_equal(told[key], value) else _text(value)
        for key, value in true.items()
    }


def _is_equal(told: Any, true: Any) -> bool:
    if not isinstance(true, Decimal):
        return bool(told == true)
    try:
        return Decimal(told) == true
    except (ArithmeticError, TypeError, ValueError):
        return False


def _text(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, Decimal) else str(value)


def _numbering(true: Mapping[str, str], told: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers that invoices have; the first and the last are those of no others."""
    ordered = [true[payer] for payer in sorted(true)]
    if not ordered:
        return dict(told)
    first, last = told["first"], told["last"]
    if not (ordered[0].endswith(f"{first:06}") and ordered[-1].endswith(f"{last:06}")):
        first, last = (int(its[-_DIGITS:]) for its in (ordered[0], ordered[-1]))
    return {**told, "first": first, "last": last, "numbers": dict(true)}
