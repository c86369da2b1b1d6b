"""A retry budget: how many failed requests to a dependency may be sent again.

A request that is repeated whenever it fails multiplies the load of a dependency that can least bear
it, and every layer that repeats multiplies it again. So retries are paid for from what calls bring
in: in the long run there is at most one in vain for every ten calls, whatever happens.

A refusal for too much at once is an answer, quickly given, and where half of the requests get one,
a call needs two on average. So what was repeated for refusals costs nothing in the end if the call
succeeds: as long as that helps it goes on, and where it does not, the budget ends it.
"""

from typing import Final

from data_plane.core.token_bucket import Rate, TokenBucket

RETRY_SHARE: Final = 0.1
BURST: Final = 50
TIMEOUT_COST: Final = 5
"""What a request costs that is repeated because it was not answered in time: it holds its place,
and its caller, for as long again."""

_RATE: Final = Rate(per_s=round(RETRY_SHARE * 1_000_000), burst=BURST)
"""Of a bucket whose clock moves by a microsecond with each call."""


class RetryBudget:
    """The budget of one dependency; full at first. Threads that share it may overdraw it a bit."""

    __slots__ = ("_bucket", "_calls", "refused")

    def __init__(self) -> None:
        self.refused = 0
        self._calls = 0
        self._bucket = TokenBucket(_RATE, 0)

    def called(self) -> None:
        """A call has begun, which may be repeated."""
        self._calls += 1

    def succeeded(self, refusals: int) -> None:
        """A call was answered that had paid for so many repetitions after refusals."""
        if refusals:
            self._bucket.give_back(refusals)

    def may_retry(self, *, timed_out: bool = False) -> bool:
        """Whether a failed request may be sent again now; if so, it is paid for."""
        if self._bucket.take(_RATE, self._calls, TIMEOUT_COST if timed_out else 1) == 0:
            return True
        self.refused += 1
        return False
