"""Run Tidegate with a bug: `python -m tests.rehearsal.planted BUG serve ...`.

Each bug is one that an adapter of a remote store may have; the storms have to find it.
"""

import sys
from collections.abc import Callable, Mapping
from os import urandom
from typing import Any, Final

from control_plane.cli.main import main
from data_plane.dynamodb import requests
from data_plane.dynamodb.cell import DynamoCell
from data_plane.dynamodb.items import SORT_PREFIX
from data_plane.ports import Append, Appended, CellUnavailableError, Key, Update, Written

_SLICE_BYTES: Final = 8


def _take_damage_for_absence() -> None:
    """Read any answer of status 200 as if it were whole."""

    def check_nothing(response_dict: Mapping[str, Any], **_: object) -> None:
        """Find everything right."""

    requests.check_answer = check_nothing


def _repeat_appends_under_new_keys() -> None:
    """Make a new segment of each repetition of an append."""
    attempt = requests.Requests._attempt
    sent: set[bytes] = set()

    def attempt_anew(
        self: requests.Requests, operation: str, parameters: Mapping[str, Any]
    ) -> requests.Answer:
        item = parameters.get("Item", {})
        if item.get("k") == {"S": "s"}:
            sort, block = item["sk"]["B"], item["b"]["B"]
            if sort in sent:
                other = urandom(len(block))
                visible, index = sort[: len(SORT_PREFIX) + _SLICE_BYTES], sort[-1:]
                item = {**item, "b": {"B": other}, "sk": {"B": visible + other + index}}
                parameters = {**parameters, "Item": item}
            sent.add(sort)
        return attempt(self, operation, parameters)

    requests.Requests._attempt = attempt_anew  # type: ignore[method-assign]


def _believe_in_sends() -> None:
    """Acknowledge a send that nobody answered."""
    append = DynamoCell.append

    async def append_or_hope(self: DynamoCell, record: Append) -> Appended:
        try:
            return await append(self, record)
        except CellUnavailableError:
            stamp_us = record.proposed_us
            sort = (stamp_us + record.delay_us).to_bytes(_SLICE_BYTES, "big") + record.suffix
            return Appended(Key(record.partition, sort), stamp_us, stamp_us // 1000)

    DynamoCell.append = append_or_hope  # type: ignore[method-assign]


def _believe_in_updates(concerned: Callable[[Update], bool]) -> None:
    update = DynamoCell.update

    async def update_or_hope(
        self: DynamoCell, key: Key, change: Update, *rest: Any, **named: Any
    ) -> Written:
        try:
            return await update(self, key, change, *rest, **named)
        except CellUnavailableError:
            if not concerned(change):
                raise
            return Written(applied=True, before=None, time_ms=self.now_us() // 1000)

    DynamoCell.update = update_or_hope  # type: ignore[method-assign]


def _believe_in_deletes() -> None:
    """Acknowledge a delete that nobody answered."""
    _believe_in_updates(lambda change: "d" in change.add)


def _believe_in_leases() -> None:
    """Hand out messages whose leases nobody has confirmed."""
    _believe_in_updates(lambda change: any(name.startswith("m") for name in change.assign))


def _tell_what_happened() -> None:
    """Let the store's own errors through."""

    def translate_nothing(operation: str, error: Exception) -> None:
        """Leave every error as it is."""

    requests._translated = translate_nothing


BUGS: Final = {
    "take damage for absence": _take_damage_for_absence,
    "repeat appends under new keys": _repeat_appends_under_new_keys,
    "believe in sends": _believe_in_sends,
    "believe in deletes": _believe_in_deletes,
    "believe in leases": _believe_in_leases,
    "tell what happened": _tell_what_happened,
}

if __name__ == "__main__":
    BUGS[sys.argv.pop(1)]()
    main()
