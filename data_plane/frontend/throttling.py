"""The stages that hold accounts and queues to their quotas: RequestThrottled beyond them.

Every server counts for itself, and a batch counts as one call (SQS's quotas are per action and
second, too). What is refused costs its account nothing: a queue at its limit does not use up what
the account's other queues may do.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from data_plane.core.token_bucket import Rate, TokenBucket
from data_plane.frontend.exchange import Exchange
from data_plane.frontend.refusals import ThrottledError
from data_plane.ports import AccountQuotas

_BUCKETS_MAX: Final = 16_384
_EXHAUSTED_MAX: Final = 4_096
_EXHAUSTED_US_MAX: Final = 1_000_000
"""So long may a quota that was raised, or a clock that was set, be overlooked."""
_FILL_US: Final = 20_000
"""Who has exhausted a quota is let in again when the bucket has filled for so long, or by half:
in dense traffic most requests come in between then, where to refuse them costs little."""
_BYTES: Final = "bytes"
_ANSWERS: Final = "answers"
_CLAIMS: Final = "claims"
_US_PER_S: Final = 1_000_000

_BucketName = tuple[str, str]
"""Account, or uid of a queue, and operation class."""


class Throttle:
    """The buckets of the accounts and queues that were used last; those forgotten are full."""

    def __init__(self, quotas: AccountQuotas, buckets_max: int = _BUCKETS_MAX) -> None:
        self._quotas = quotas
        self._buckets_max = buckets_max
        self._buckets: OrderedDict[_BucketName, TokenBucket] = OrderedDict()
        self._exhausted_until_us: dict[tuple[str, str], int] = {}

    def exhausted_for_us(self, headers: Mapping[str, str], now_us: int) -> int:
        """For how long requests with these headers are refused whatever is in them; 0: who knows.

        Nothing is verified here: an access key in the headers means that its account, if it has
        sent the request, has used up what it may do. So a flood of calls costs little to refuse.
        """
        if not self._exhausted_until_us:
            return 0
        _, _, credential = headers.get("authorization", "").partition("Credential=")
        name = (credential.partition("/")[0], headers.get("x-amz-target", ""))
        until_us = self._exhausted_until_us.get(name, 0)
        if until_us and not now_us < until_us <= now_us + _EXHAUSTED_US_MAX:
            del self._exhausted_until_us[name]
            return 0
        return max(0, until_us - now_us)

    def _note_exhausted(self, exchange: Exchange, wait_us: int) -> None:
        caller = exchange.caller
        if caller is None or not caller.access_key_id:
            return
        if len(self._exhausted_until_us) >= _EXHAUSTED_MAX:
            self._exhausted_until_us.clear()
        name = (caller.access_key_id, exchange.served_by.target(exchange.chosen))
        self._exhausted_until_us[name] = exchange.started_us + min(wait_us, _EXHAUSTED_US_MAX)

    async def by_account(self, exchange: Exchange) -> None:
        """Count the call against what its caller's account may do. Raises ThrottledError."""
        account = exchange.account
        quotas = await self._quotas.find_quotas(account)
        operation = exchange.quota_class
        now_us = exchange.started_us
        rate = quotas.account.get(operation)
        if rate is not None and rate.per_s:
            try:
                self._take((account, operation), rate, now_us)
            except ThrottledError as error:
                half_full_us = rate.burst * _US_PER_S // (2 * rate.per_s)
                wait_us = max(error.retry_after_us, min(_FILL_US, half_full_us))
                self._note_exhausted(exchange, wait_us)
                raise
        try:
            if quotas.received_bytes.per_s:
                self._take((account, _ANSWERS), quotas.received_bytes, now_us, 0)
            if quotas.sent_bytes.per_s:
                size = len(exchange.request.body)
                self._take((account, _BYTES), quotas.sent_bytes, now_us, size)
        except ThrottledError:
            self._give_back((account, operation), 1)
            raise

    async def claim(self, account: str, size: int, now_us: int) -> None:
        """Count a long body that is to be read on this account, which nobody has proved yet.

        Raises ThrottledError. It counts apart, or strangers could use up what the account has; so
        all that name it together have what it has.
        """
        rate = (await self._quotas.find_quotas(account)).sent_bytes
        if rate.per_s:
            self._take((account, _CLAIMS), rate, now_us, size)

    async def charge_answer(self, exchange: Exchange) -> None:
        """Count the answer, whose size was not known before, against what its account may get.

        Where that is more than it has, the account waits with its next call.
        """
        response, account = exchange.response, exchange.account
        if response is None or not account:
            return
        rate = (await self._quotas.find_quotas(account)).received_bytes
        if rate.per_s:
            self._bucket((account, _ANSWERS), rate, exchange.started_us).charge(
                rate, exchange.started_us, len(response.body)
            )

    async def by_queue(self, exchange: Exchange) -> None:
        """Count the call against what its queue may be asked for. Raises ThrottledError.

        The queue's account has set the limit, whoever calls.
        """
        queue = exchange.queue
        if queue is None:
            return
        quotas = await self._quotas.find_quotas(queue.account)
        operation = exchange.quota_class
        rate = quotas.queue.get(operation)
        if rate is None or not rate.per_s:
            return
        try:
            self._take((queue.uid, operation), rate, exchange.started_us)
        except ThrottledError:
            self._give_back((exchange.account, operation), 1)
            self._give_back((exchange.account, _BYTES), len(exchange.request.body))
            raise

    def _take(self, name: _BucketName, rate: Rate, now_us: int, tokens: int = 1) -> None:
        wait_us = self._bucket(name, rate, now_us).take(rate, now_us, tokens)
        if wait_us:
            raise ThrottledError(wait_us)

    def _bucket(self, name: _BucketName, rate: Rate, now_us: int) -> TokenBucket:
        bucket = self._buckets.get(name)
        if bucket is not None:
            self._buckets.move_to_end(name)
            return bucket
        bucket = self._buckets[name] = TokenBucket(rate, now_us)
        if len(self._buckets) > self._buckets_max:
            self._buckets.popitem(last=False)
        return bucket

    def _give_back(self, name: _BucketName, tokens: int) -> None:
        bucket = self._buckets.get(name)
        if bucket is not None:
            bucket.give_back(tokens)
