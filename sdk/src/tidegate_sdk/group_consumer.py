"""A member of a consumer group: it reads the shards that the group gives it, and commits."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from tidegate_sdk.batch_handling import TOO_LONG, BatchHandler, BatchHandling
from tidegate_sdk.clock import SYSTEM_CLOCK, Backoff, Clock, Spawn, guarded, start_thread
from tidegate_sdk.consumer_log import log_of
from tidegate_sdk.failures import code_of, is_passing
from tidegate_sdk.group_callbacks import Callbacks, ShardNews, ShardsCallback, nothing
from tidegate_sdk.group_commits import commit
from tidegate_sdk.group_leaving import Leaving
from tidegate_sdk.group_membership import Membership
from tidegate_sdk.group_options import check_names, check_work
from tidegate_sdk.group_reading import behind, is_passing_read, read
from tidegate_sdk.group_shards import (
    COMMIT_AFTER,
    SHARD_END,
    CommitPolicy,
    HeldShard,
    HeldShards,
    RecordBatch,
    ShardLostError,
)
from tidegate_sdk.long_poll import wait_s_max
from tidegate_sdk.stopping import STOP_SIGNALS, OwnWork, run_to_end, stopped_by

_BEAT_GAP_S: Final = 0.1
"""Heartbeats are so far apart at least."""

_IDLE_S: Final = 0.5
"""A shard that had nothing is asked again after this, where the read did not wait for records."""

_GONE: Final = frozenset({"TidegateUnknownMember", "TidegateFencedMember"})
_PASSING: Final = frozenset({"InternalFailure", "TidegateUnreleasedInstance"})


class GroupConsumer:
    """Reads the shards that a consumer group gives to this member; `handler` gets their records.

    `client` is one that `tidegate_sdk.client(url, "kinesis")` makes. `handler` is called with
    batches of `records_max` records at most, fewer where they take long (docs/sdk.md), of each
    shard in order, one at a time; of `workers` shards side by side. When it raises, the consumer
    ends with that error, and commits nothing of the batch.

    `on_assigned` is told which shards come, before they are read; `on_revoked` which are given up
    or were read to their end, after their last batch and before their last commit; `on_lost` which
    other members may have already. `stop` ends it: handlers finish, what they did is committed, and
    the group is left. Calls that hang are left behind when the session is over.
    With an `instance_id` the member is to be back within its session, and keeps its shards.
    `clock`, `backoff` and `spawn` are for tests.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own, by its name
        self,
        client: Any,
        group: str,
        handler: BatchHandler,
        *,
        commits: CommitPolicy = COMMIT_AFTER,
        on_assigned: ShardsCallback = nothing,
        on_revoked: ShardsCallback = nothing,
        on_lost: ShardsCallback = nothing,
        instance_id: str | None = None,
        workers: int = 4,
        records_max: int = 1_000,
        wait_s: int = 2,
        clock: Clock = SYSTEM_CLOCK,
        backoff: Backoff = Backoff(),  # noqa: B008 - immutable
        spawn: Spawn = start_thread,
    ) -> None:
        check_names(client, group, instance_id)
        check_work(commits, workers, records_max, wait_s)
        self._client, self._commits = client, commits
        self._log = log_of(f"group {group}")
        self._workers = workers
        self._handling = BatchHandling(handler, records_max, clock, self._log)
        self._wait_s = min(wait_s, wait_s_max(client))
        self._clock, self._backoff, self._spawn = clock, backoff, spawn
        # `run` and `stop` take the lock itself: a signal that interrupts the taking of a condition,
        # which is written in Python, would leave it taken.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._held = HeldShards(commits)
        self._membership = Membership(group, instance_id, clock.now_s(), wait_s_max(client))
        self._beat_s = self._sent_s = clock.now_s()
        self._work = OwnWork(self._changed, clock)
        callbacks = Callbacks(on_assigned, on_revoked, on_lost)
        self._news = ShardNews(callbacks, self._held, self._work, self._fail, self._log)
        self._leaving = Leaving(client, self._changed, clock, backoff, self._log)
        self._beats_failed = self._said_shards = 0
        self._is_joining = self._has_run = self._stopping = self._ended = self._leaves = False
        self._failure: BaseException | None = None

    def run(self, *, signals: Sequence[int] = STOP_SIGNALS) -> None:
        """Work until `stop` is called or one of the signals comes (in the main thread alone).

        Raises what ended it otherwise: what the handler or a callback raised, or an error that
        does not pass by itself, as where there is no such group, or access is denied. What
        interrupts it, as Ctrl-C may without signals, stops it as `stop` does and is raised then.
        """
        with self._lock:
            if self._has_run:
                raise RuntimeError("a consumer runs once: make another one")
            self._has_run = True
        with stopped_by(signals, self.stop):
            try:
                run_to_end(self._start_all, self._wait_until_over, self.stop)
            finally:
                self._end()
        if self._failure is not None:
            raise self._failure

    def _start_all(self) -> None:
        self._start(self._keep, "keeper")
        self._start(self._tell, "teller")
        for number in range(self._workers):
            self._start(self._read_on, f"reader-{number}")
        # Last: the shards that it takes, the others give up. If one of them cannot be started,
        # there are none.
        self._start(self._beat, "heartbeat")

    def _wait_until_over(self) -> None:
        while not self._ended:
            self._expire()
            with self._lock:
                self._ended = self._is_over()
                if not self._ended:
                    self._clock.wait(self._changed, self._until_end_s())
                self._changed.notify_all()
        self._end()

    def _end(self) -> None:
        """May be called again, where it was interrupted."""
        self._ended = True
        with self._lock:
            self._changed.notify_all()
        self._leave()

    def _is_over(self) -> bool:
        is_late = self._clock.now_s() >= self._end_s
        is_joining = self._is_joining and not is_late
        # A callback whose call hangs keeps what is behind it from being told.
        tells = self._news.is_due and not (is_late and self._news.is_under_way)
        goes_on = is_joining or tells or self._work.goes_on or len(self._held) > 0
        return self._stopping and not goes_on

    @property
    def _end_s(self) -> float:
        """What the member has is dropped then: its session is over, or its stop does not get on."""
        end_s = self._membership.session_end_s
        if self._stopping and not self._work.goes_on:
            end_s = min(end_s, self._work.got_on_s + self._membership.session_s)
        return end_s

    def _until_end_s(self) -> float | None:
        """So long `run` waits, unless something changes."""
        left_s = self._end_s - self._clock.now_s()
        is_awaited = len(self._held) or self._is_joining or self._news.is_due
        return left_s if left_s > 0 and is_awaited else None

    def stop(self) -> None:
        """Let it end as soon as it may; returns at once. May be called from anywhere, and again."""
        with self._lock:
            if not self._stopping:
                self._stopping = True
                self._work.got_on()
            self._held.revoke()
            self._changed.notify_all()

    def _start(self, loop: Callable[[], None], name: str) -> None:
        self._spawn(guarded(loop, self._fail), f"tidegate-{name}-{self._membership.group}")

    def _fail(self, error: BaseException) -> None:
        """End because of this."""
        with self._changed:
            if self._failure is None:
                self._failure = error
                error.add_note(f"It ended the consumer of group {self._membership.group}")
            self.stop()

    def _loop(self, do_next: Callable[[], bool], next_s: Callable[[], float | None]) -> None:
        """Do what is due, over and over, and wait until something is."""
        while not self._ended:
            if not do_next():
                with self._changed:
                    if not self._ended:
                        times_s = [next_s(), self._end_s if len(self._held) else None]
                        known_s = [time_s for time_s in times_s if time_s is not None]
                        idle_s = min(known_s) - self._clock.now_s() if known_s else None
                        self._clock.wait(self._changed, idle_s)

    def _expire(self) -> None:
        """Drop all, where the group has not heard of the member for a session, or a call hangs."""
        with self._lock:
            if self._clock.now_s() >= self._end_s:
                self._news.are_lost(self._held.drop_all())

    def _tell(self) -> None:
        self._loop(self.tell_next, self._news.next_s)

    def tell_next(self) -> bool:
        """Tell the program what is new; whether anything was. The teller's thread calls it."""
        return self._news.tell_next()

    # Heartbeats

    def _beat(self) -> None:
        self._loop(self.beat_next, self._next_beat_s)

    def _next_beat_s(self) -> float | None:
        return None if self._stopping and self._membership.is_to_join else self._beat_s

    def beat_next(self) -> bool:
        """Send a heartbeat, if one is due; whether one was. The heartbeat's thread calls it."""
        self._expire()
        sent_s = self._clock.now_s()
        with self._changed:
            next_s = self._next_beat_s()
            if self._ended or next_s is None or next_s > sent_s:
                return False
            self._sent_s, self._is_joining = sent_s, self._membership.is_to_join
            waits = not (self._held.is_giving_up or self._stopping)
            self._said_shards = len(self._held)
            params = self._membership.heartbeat(self._held.owned, sent_s, waits=waits)
        try:
            answer = self._client.tidegate_group_heartbeat(**params)
        except Exception as error:  # noqa: BLE001 - it ends the consumer, or passes
            if not self._ended:
                self._note_failed_beat(error)
        else:
            self._note_beat(answer, sent_s)
        with self._changed:
            self._is_joining = False
            self._changed.notify_all()
        return True

    def _note_beat(self, answer: dict[str, Any], sent_s: float) -> None:
        with self._changed:
            is_late, joined = self._ended, self._is_joining
            if joined or not is_late:
                self._membership.came(answer, sent_s)
            # Where `run` has returned, what was joined since is left.
            params = self._membership.leave() if is_late and joined else None
        if params is not None:
            self._leaving.say(params)
        if is_late:
            return
        with self._changed:
            self._beats_failed, now_s = 0, self._clock.now_s()
            has_said = len(self._held) == self._said_shards
            # Who stops keeps what is under way, and takes nothing more.
            new, lost = self._held.told(answer["Assignment"], now_s, takes=not self._stopping)
            self._news.are_lost(lost)
            self._news.have_come(new)
            if self._stopping or (self._held.is_giving_up and has_said):
                # What is given up before is told at once (`_forget`).
                self._beat_s = now_s + self._membership.interval_s
            else:
                gap_s = _BEAT_GAP_S if self._membership.may_wait else _IDLE_S
                self._beat_s = max(now_s, sent_s + gap_s)
            self._changed.notify_all()

    def _note_failed_beat(self, error: Exception) -> None:
        if code_of(error) in _GONE:
            self._join_anew(error)
            return
        passes = is_passing(error) or code_of(error) in _PASSING
        if not passes:
            self._fail(error)
        with self._changed:
            self._beats_failed += 1
            pause_s = min(self._membership.interval_s, self._backoff.pause_s(self._beats_failed))
            self._beat_s = self._clock.now_s() + pause_s
        if passes:
            self._log.warning("No heartbeat, will try again in %.1f s: %s", pause_s, error)
        else:
            self._log.error("No heartbeat, which ends the consumer: %s", error)

    def _join_anew(self, error: Exception) -> None:
        was_away = self._beats_failed or self._clock.now_s() >= self._membership.session_end_s
        hint = "" if was_away else f" (If that comes often: {TOO_LONG}.)"
        text = "The group takes this member for gone, it joins again: %s%s"
        self._log.warning(text, error, hint)
        with self._changed:
            self._news.are_lost(self._held.drop_all())
            self._membership.is_gone()
            self._beat_s = self._clock.now_s() + _BEAT_GAP_S
            self._changed.notify_all()

    def _beat_soon(self) -> None:
        """The group is to know what the member has no more. The lock is held."""
        soon_s = max(self._clock.now_s(), self._sent_s + _BEAT_GAP_S)
        self._beat_s = min(self._beat_s, soon_s)
        self._changed.notify_all()

    def _leave(self) -> None:
        """Leave the group; where nobody answers until the session is over, it ends by itself."""
        with self._lock:
            params, end_s = self._membership.leave(), self._end_s
        if params is None or self._clock.now_s() >= end_s:
            return
        if not self._leaves:
            self._start(lambda: self._leaving.say(params), "leaver")
            self._leaves = True
        self._leaving.wait(end_s)

    # What is read and handled

    def _read_on(self) -> None:
        self._loop(self.read_next, self._held.next_read_s)

    def read_next(self) -> bool:
        """Read a shard, and let the handler work; whether there was one. The workers call it."""
        self._expire()
        with self._changed:
            now_s = self._clock.now_s()
            shard = None if self._stopping else self._held.next_to_read(now_s)
            wait_s = self._wait_s if len(self._held) <= self._workers else 0
        if shard is None:
            return False
        try:
            page = read(self._client, shard, self._handling.records_max(shard.name), wait_s)
        except Exception as error:  # noqa: BLE001 - it ends the consumer, or passes
            self._note_failed_read(shard, error)
            return True
        self._expire()
        with self._changed:
            shard.failures = 0
            may_handle = self._held.begin(shard)
        if may_handle:
            self._take(shard, page, 0 if wait_s else _IDLE_S)
        with self._changed:
            self._held.finish(shard)
            self._changed.notify_all()
        return True

    def _note_failed_read(self, shard: HeldShard, error: Exception) -> None:
        passes = is_passing_read(shard, error)
        if not passes:
            self._fail(error)
        with self._changed:
            self._held.finish(shard)
            shard.iterator = ""
            shard.failures += 1
            pause_s = self._backoff.pause_s(shard.failures)
            shard.read_s = self._clock.now_s() + pause_s
            self._changed.notify_all()
        if passes:
            self._log.warning(
                "Cannot read %s, will try again in %.1f s: %s", shard.name, pause_s, error
            )
        else:
            self._log.error("Cannot read %s, which ends the consumer: %s", shard.name, error)

    def _take(self, shard: HeldShard, page: dict[str, Any], idle_s: float) -> None:
        """Handle what was read, and go on behind it. Nobody else has the shard meanwhile."""
        records = page["Records"]
        last = records[-1]["SequenceNumber"] if records else ""
        if records and not self._handle(shard, records, last, page.get("MillisBehindLatest", 0)):
            return
        with self._changed:
            shard.iterator = page.get("NextShardIterator") or ""
            if records:
                shard.last_read = last
                shard.position = behind(last)
            shard.is_read = "NextShardIterator" not in page
            shard.read_s = self._clock.now_s() + (0 if records else idle_s)
        if records and not self._commits.manual and not self._commits.every_s:
            self._commit_until_told(shard)

    def _handle(
        self, shard: HeldShard, records: Sequence[dict[str, Any]], last: str, behind_ms: int
    ) -> bool:
        """Whether the batch is handled, so that it may be committed."""
        if self._commits.before:
            with self._changed:
                shard.done = last
            if not self._commit_until_told(shard):
                return False

        commit_to = partial(self._commit_for_handler, shard)
        batch = RecordBatch(
            shard.name, records, behind_ms, self._membership.group, shard.epoch, commit_to
        )
        with self._work.begun():
            if self._ended:
                return False
            try:
                self._handling.handle(batch, self._membership.rebalance_s)
            except BaseException as error:  # noqa: BLE001 - `run` raises it
                self._fail(error)
                return False
        if not self._commits.manual:
            with self._changed:
                shard.done = last
        return True

    # What is committed and given up

    def _keep(self) -> None:
        self._loop(self.keep_next, self._held.next_keep_s)

    def keep_next(self) -> bool:
        """Commit or give up what is due; whether anything was. The keeper's thread calls it."""
        self._expire()
        with self._changed:
            shard = self._held.next_to_keep(self._clock.now_s())
            gives_up = shard is not None and shard.is_revoked and shard.is_told
        if shard is None:
            return False
        is_committed = self._commit(shard)
        with self._changed:
            shard.is_kept = False
            if is_committed:
                shard.commit_s = self._clock.now_s() + self._commits.every_s
                if gives_up or shard.committed == SHARD_END:
                    self._forget(shard)
            self._changed.notify_all()
        return True

    def _forget(self, shard: HeldShard) -> None:
        """The member has it no more, which the group is to know soon. The lock is held."""
        if self._held.drop(shard) and not (self._stopping and self._held.is_giving_up):
            self._beat_soon()
        self._changed.notify_all()

    def _commit_until_told(self, shard: HeldShard) -> bool:
        """Commit what is done, however often it takes; whether the member still has the shard."""
        while self._held.has(shard):
            if self._commit(shard):
                return True
            with self._changed:
                while self._held.has(shard) and (left_s := shard.keep_s - self._clock.now_s()) > 0:
                    self._clock.wait(self._changed, left_s)
        return False

    def _commit_for_handler(self, shard: HeldShard, number: str) -> None:
        with self._changed:
            if shard.has_committed(number):
                return
            if not shard.done or int(shard.done) < int(number):
                shard.done = number
        with self._work.begun(is_own=False):
            is_told = self._commit_until_told(shard)
        if not is_told:
            raise ShardLostError(f"{shard.name.shard_id} is not this member's any more")

    def _commit(self, shard: HeldShard) -> bool:
        """Commit once what is done and not told yet; whether it is told."""
        with self._changed:
            if not self._held.has(shard):
                return False
            number, member_id = shard.to_commit, self._membership.id
        if not number:
            return True
        try:
            commit(self._client, self._membership.group, member_id, shard, number)
        except Exception as error:  # noqa: BLE001 - it ends the consumer, or passes
            self._note_failed_commit(shard, error)
            return False
        with self._changed:
            shard.failures = 0
            if not shard.has_committed(number):  # As where another thread was faster.
                shard.committed = number
            self._work.got_on()
            if number == SHARD_END:
                self._forget(shard)
        return True

    def _note_failed_commit(self, shard: HeldShard, error: Exception) -> None:
        if isinstance(error, ShardLostError):
            self._log.warning("Cannot commit %s, which is lost: %s", shard.name, error)
            self._lose(shard)
        elif not is_passing(error) and code_of(error) not in _PASSING:
            self._fail(error)
            self._lose(shard)
        else:
            with self._changed:
                shard.failures += 1
                pause_s = self._backoff.pause_s(shard.failures)
                shard.keep_s = self._clock.now_s() + pause_s
            text = "Cannot commit %s, will try again in %.1f s: %s"
            self._log.warning(text, shard.name, pause_s, error)

    def _lose(self, shard: HeldShard) -> None:
        with self._changed:
            is_lost = self._held.drop(shard)
            if is_lost:
                self._news.are_lost([shard])
                self._beat_soon()
