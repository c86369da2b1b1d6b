"""What the program is told of its shards: in a thread of its own, one thing at a time, in order.

However long a callback takes, heartbeats, reads and commits go on beside it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from tidegate_sdk.consumer_log import ConsumerLog
from tidegate_sdk.group_shards import GroupShard, HeldShard, HeldShards
from tidegate_sdk.program_functions import that_ends
from tidegate_sdk.stopping import OwnWork

ShardsCallback = Callable[[Sequence[GroupShard]], object]


def nothing(_shards: Sequence[GroupShard]) -> None:
    """Nobody wants to know."""


class Callbacks(NamedTuple):
    """The program's own."""

    on_assigned: ShardsCallback
    on_revoked: ShardsCallback
    on_lost: ShardsCallback


class _What(Enum):
    COME = "come"
    GO = "go"
    LOST = "are lost"


class _News(NamedTuple):
    what: _What
    shards: list[HeldShard]


class ShardNews:
    """What is to be told yet, under the lock of `work`; `fail` takes what a callback raises."""

    def __init__(
        self,
        callbacks: Callbacks,
        held: HeldShards,
        work: OwnWork,
        fail: Callable[[BaseException], None],
        log: ConsumerLog,
    ) -> None:
        self._held, self._work, self._log = held, work, log
        self._callbacks = {
            _What.COME: that_ends("on_assigned", callbacks.on_assigned),
            _What.GO: that_ends("on_revoked", callbacks.on_revoked),
            _What.LOST: that_ends("on_lost", callbacks.on_lost),
        }
        self._changed, self._clock, self._fail = work.changed, work.clock, fail
        self._news: deque[_News] = deque()
        self.is_under_way = False
        """Whether a callback is called just now."""

    @property
    def is_due(self) -> bool:
        """Whether anything is to be told yet, or is being told. The lock is held."""
        return bool(self._news)

    def next_s(self) -> float | None:
        """When there is something to tell: now, or nobody knows. The lock is held."""
        is_now = self._news or self._held.next_to_tell() is not None
        return self._clock.now_s() if is_now else None

    def have_come(self, shards: list[HeldShard]) -> None:
        """These are the member's, and are read once that is told. The lock is held."""
        if shards:
            self._news.append(_News(_What.COME, shards))

    def are_lost(self, shards: list[HeldShard]) -> None:
        """Others may have these already. The lock is held."""
        if shards:
            self._news.append(_News(_What.LOST, shards))
            self._changed.notify_all()

    def tell_next(self) -> bool:
        """Tell what is next; whether there was anything."""
        with self._changed:
            going = None if self._news else self._held.next_to_tell()
            if going is not None:
                self._news.append(_News(_What.GO, [going]))
            if not self._news:
                return False
            news = self._news[0]
        names = [shard.name for shard in news.shards]
        if news.what is _What.LOST:
            self._log.warning("Lost to other members, perhaps: %s", names)
        with self._work.begun():
            self.is_under_way = True
            try:
                self._callbacks[news.what](names)
            except BaseException as error:  # noqa: BLE001 - `run` raises it
                text = "The callback of shards that %s failed, which ends the consumer: %s"
                self._log.exception(text, news.what.value, names)
                if news.what is _What.GO:
                    self._give_up_as_it_is(news.shards)
                self._fail(error)
            with self._changed:
                self.is_under_way = False
                self._news.popleft()
                goes = news.what is _What.GO
                self._held.were_told(news.shards, self._clock.now_s(), goes=goes)
        return True

    def _give_up_as_it_is(self, shards: list[HeldShard]) -> None:
        """The program could not finish with them: nothing more of them is committed."""
        with self._changed:
            for shard in shards:
                self._held.drop(shard)
