"""One call of a producer for one batch: what its futures are told, and what is to be done next.

Senders do this, several at a time, each for a batch of its own. What it means for the outbox, which
the keeper has for itself, they say as a step for the keeper.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from botocore.exceptions import ClientError

from tidegate_sdk import named_calls
from tidegate_sdk.clock import Backoff, Clock
from tidegate_sdk.failures import is_of_contents, is_passing, may_be_done
from tidegate_sdk.outbox import Outbox, PutBatch
from tidegate_sdk.put_errors import PartlyStoredError
from tidegate_sdk.put_records import entry, fail, fail_sent, partly_stored, settle

Step = Callable[[], None]

_log: Final = logging.getLogger("tidegate_sdk")


class BatchSending:
    """Sends batches of an outbox to a stream, which `params` names as calls do."""

    def __init__(  # noqa: PLR0913 - each is a setting of its own, by its name
        self,
        client: Any,
        stream: str,
        params: Mapping[str, str],
        outbox: Outbox,
        *,
        note_stored: Callable[[PutBatch, set[str]], None],
        delivery_s_max: float,
        clock: Clock,
        backoff: Backoff,
        new_name: Callable[[], str],
    ) -> None:
        self._client, self._stream, self._params = client, stream, params
        self._outbox, self._note_stored = outbox, note_stored
        self._delivery_s_max, self._new_name = delivery_s_max, new_name
        self._clock, self._backoff = clock, backoff
        self.last_failure: Exception | None = None
        """Of any call, for who asks why something was not sent."""

    def send(self, batch: PutBatch) -> Step:
        """Send it and settle what can be; what the keeper has to do then."""
        batch.attempts += 1
        params = {**self._params, "Records": [entry(record) for record in batch.records]}
        try:
            answer = named_calls.call(
                self._client.put_records, batch.name, batch.attempts - 1, params
            )
        except Exception as error:  # noqa: BLE001 - the futures tell it
            return self._failed(batch, error)
        results = answer["Records"]
        settle(batch, results)
        if answer.get("FailedRecordCount", 0):
            return self._failed(batch, partly_stored(results))
        self._log_if_last(batch)
        return partial(self._note_stored, batch, {result["ShardId"] for result in results})

    def _failed(self, batch: PutBatch, error: Exception) -> Step:
        """Repeat the batch later, or give it up."""
        self.last_failure = error
        if isinstance(error, PartlyStoredError):
            is_refused, is_unsure = False, error.may_be_stored
        else:
            is_refused, is_unsure = not is_passing(error), may_be_done(error)
        batch.may_be_stored = batch.may_be_stored or is_unsure
        now_s = self._clock.now_s()
        until_s = batch.put_s + self._delivery_s_max
        if is_refused:
            # What may be stored is not sent under another name.
            is_new = batch.attempts == 1 and not batch.may_be_stored
            if is_new and is_of_contents(error) and len(batch.records) > 1:
                return partial(self._outbox.split, batch, self._new_name)
        elif now_s < until_s:
            again_s = min(until_s, now_s + self._backoff.pause_s(batch.attempts))
            return partial(self._outbox.put_again, batch, again_s)
        # Its futures tell before others may overtake it.
        if is_refused:
            self._refuse(batch, error)
        else:
            self._log_if_last(batch)
            fail_sent(batch.records, f"not acknowledged within {self._delivery_s_max} s", error)
        return partial(self._outbox.done, batch)

    def _refuse(self, batch: PutBatch, error: Exception) -> None:
        """Fail what is not stored. A refusal says nothing of an attempt whose answer was lost."""
        left = [record for record in batch.records if not record.stored.done()]
        if batch.may_be_stored:
            if left:
                _log.warning(
                    "%d records for %s were sent before, and may be stored or not; now refused: %s",
                    len(left),
                    self._stream,
                    _shown(error),
                )
            self._log_if_last(batch)
            fail_sent(left, "sent once without an answer, and then refused", error)
        else:
            batch.refused, batch.refusal = batch.refused + len(left), error
            self._log_if_last(batch)
            fail(left, error)

    def _log_if_last(self, batch: PutBatch) -> None:
        """A batch that was sent by parts has one line in the log, not one for each record."""
        if batch.rest is None:
            self.log_refused(batch)

    def log_refused(self, batch: PutBatch) -> None:
        """Say how many records are refused by now, if any."""
        if batch.refused:
            text = "%d records for %s are refused, and not stored: %s"
            _log.warning(text, batch.refused, self._stream, _shown(batch.refusal))
            batch.refused = 0


def _shown(error: Exception | None) -> object:
    """Other errors than a service's may quote the records."""
    return error if isinstance(error, ClientError) else type(error).__name__
