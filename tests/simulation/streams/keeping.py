"""Retentions of streams that somebody changes, and for how long a record is kept then."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.simulation.clients import Client
from tests.simulation.history import Call, History
from tests.simulation.ledger import NEVER_US
from tests.simulation.streams.plan import HOUR_US, RETENTION_US

KNOWN_US: Final = 25_000_000
"""So long after its answer a change has reached every front end that can read it, and every read
that was under way."""
CHANGES: Final = ("DecreaseStreamRetentionPeriod", "IncreaseStreamRetentionPeriod")
REFUSED: Final = range(400, 500)


class _Span(NamedTuple):
    """Until then front ends may go by any retention between these two."""

    until_us: int
    least_us: int
    most_us: int


async def keep(client: Client, streams: Sequence[str], was_hours: int, hours: int) -> list[str]:
    """Change the retention of these streams; which of them have the new one for sure."""
    operation = CHANGES[hours > was_hours]
    changed = []
    for stream in streams:
        params = {"StreamName": stream, "RetentionPeriodHours": hours}
        if await client.call(operation, stream, params) is not None:
            changed.append(stream)
    return changed


class Retentions:
    """What a history says of the retentions of its streams; `slack_us` is how wrong clocks were."""

    def __init__(self, history: History, slack_us: int) -> None:
        self._slack_us = slack_us
        calls: dict[str, list[Call]] = defaultdict(list)
        for call in history.calls:
            if call.operation in CHANGES:
                calls[call.queue].append(call)
        self._spans = {stream: _spans(those) for stream, those in calls.items()}

    def may_be_gone(self, stream: str, put_us: int, by_us: int) -> bool:
        """Whether the time of what was not stored before `put_us` may have been over by then."""
        return any(
            min(span.until_us, by_us) - put_us > span.least_us - self._slack_us
            for span in self._until(stream, by_us)
        )

    def is_gone(self, stream: str, stored_us: int, asked_us: int) -> bool:
        """Whether the time of what was stored by `stored_us` was over when somebody asked."""
        return any(
            min(span.until_us, asked_us) - stored_us > span.most_us + self._slack_us
            for span in self._until(stream, asked_us)
        )

    def _until(self, stream: str, by_us: int) -> list[_Span]:
        spans = self._spans.get(stream, [_Span(NEVER_US, RETENTION_US, RETENTION_US)])
        ended = [span for span in spans if span.until_us < by_us]
        return spans[: len(ended) + 1]


def _spans(calls: Sequence[Call]) -> list[_Span]:
    spans: list[_Span] = []
    least_us = most_us = RETENTION_US
    for call in calls:
        if all(attempt.status in REFUSED for attempt in call.attempts):
            continue
        asked_us = int(call.params["RetentionPeriodHours"]) * HOUR_US
        spans.append(_Span(call.attempts[0].invoked_us, least_us, most_us))
        least_us, most_us = min(least_us, asked_us), max(most_us, asked_us)
        done_us = [one.answered_us for one in call.attempts if one.ok and one.answered_us]
        # An attempt that nobody answered may still be at work.
        if done_us and len(done_us) == len(call.attempts):
            spans.append(_Span(min(done_us) + KNOWN_US, least_us, most_us))
            least_us = most_us = asked_us
    return [*spans, _Span(NEVER_US, least_us, most_us)]
