"""The messages that a consumer holds: what to handle next, and which calls are due for them.

Nothing here does I/O or looks at a clock. Each message waits, is handled, and then is deleted or
hidden, which is to say that it comes again after a while. As long as it waits or is handled its
visibility is extended. No two calls for one message are under way at a time: the later one could
reach the server first. What may be visible again may be somebody else's by now, whom a call with
its old receipt handle would take it from: it is let go. Only its delete is still sent.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil, floor
from typing import Final

from tidegate_sdk.received_message import ReceivedMessage

BATCH_MAX: Final = 10
"""Of SQS's batches."""

VISIBILITY_S_MAX: Final = 43_200
"""From its receive on a message is hidden for so long at most, however often that is changed."""

_ON_ITS_WAY_S: Final = 10
"""For so long a call may be, and the message still be hidden for as long as it says."""

_EXTENSIONS: Final = 3
"""So often in its visibility timeout a message is extended: one or two may fail."""


class Stage(Enum):
    """What happens to a message that is held."""

    WAITS = "waits"
    IS_HANDLED = "is handled"
    TO_DELETE = "to delete"
    TO_HIDE = "to hide"


@dataclass(slots=True, eq=False)
class HeldMessage:
    """A message, hidden from others until `lease_end_s`; not received before `asked_s`."""

    message: ReceivedMessage
    asked_s: float
    lease_end_s: float
    extend_s: float
    stage: Stage = Stage.WAITS
    since_s: float = 0.0
    """When it came to be deleted or hidden; later, where that has failed."""
    hide_s: int = 0
    in_call: bool = False
    failures: int = 0
    """Of calls for it, in a row."""


@dataclass(slots=True)
class VisibilityCall:
    """A batch of messages to be hidden for so many seconds each, from now on.

    After that those of `hides` are not held any more; the others are extended.
    """

    held: Sequence[HeldMessage]
    seconds: Sequence[int]
    hides: Sequence[bool]


@dataclass(slots=True)
class DeleteCall:
    """A batch of messages to be deleted."""

    held: Sequence[HeldMessage]


QueueCall = VisibilityCall | DeleteCall


class HeldMessages:
    """What a consumer holds of one queue; of a FIFO queue one message of each group at a time."""

    def __init__(self, *, is_fifo: bool, held_max: int, visibility_s: int, linger_s: float) -> None:
        self._is_fifo = is_fifo
        self._held_max = held_max
        self._visibility_s = visibility_s
        self._linger_s = linger_s
        self._held: dict[str, HeldMessage] = {}
        self._is_stopping = False
        self._give_back_s = self._over_s = float("inf")
        self._polls_end_s = float("-inf")

    def __len__(self) -> int:
        return len(self._held)

    @property
    def room(self) -> int:
        """So many more may be held."""
        return self._held_max - len(self._held)

    def take(self, messages: Iterable[ReceivedMessage], asked_s: float, now_s: float) -> None:
        """Hold what was received just now, by a poll that began at `asked_s`."""
        for message in messages:
            self._held[message.receipt_handle] = HeldMessage(
                message, asked_s, now_s + self._visibility_s, now_s + self._extend_after_s
            )

    def stop(self, now_s: float, over_s: float, give_back_s: float, polls_end_s: float) -> None:
        """Begin nothing more; what waits stays hidden until `give_back_s`, and is given back.

        What is given back while the consumer's own poll is under way comes again by that. As other
        consumers may stop now, too, nothing is visible before `polls_end_s`, when all their polls
        have ended. Nobody waits for calls after `over_s`.
        """
        self._is_stopping, self._over_s, self._give_back_s = True, over_s, give_back_s
        self._polls_end_s = polls_end_s
        for held in self._held.values():
            if held.failures:
                latest_s = now_s + (over_s - now_s) / 2
                held.since_s = min(held.since_s, latest_s)
                held.extend_s = min(held.extend_s, latest_s)

    def poll_has_ended(self, now_s: float) -> None:
        """Nothing more is received after a stop: what waits is given back now."""
        self._give_back_s = min(self._give_back_s, now_s)

    def next_to_handle(self, now_s: float) -> HeldMessage | None:
        """The next message, which counts as being handled; None: there is none."""
        held = self._next(now_s)
        if held is not None:
            held.stage = Stage.IS_HANDLED
        return held

    def has_next(self, now_s: float) -> bool:
        """Whether there is a message to handle."""
        return self._next(now_s) is not None

    def _next(self, now_s: float) -> HeldMessage | None:
        if self._is_stopping:
            return None
        busy = self._busy_groups()
        for held in self._in(Stage.WAITS):
            if held.lease_end_s <= now_s:
                busy.add(held.message.group)
            elif not self._is_fifo or held.message.group not in busy:
                return held
        return None

    def delete(self, held: HeldMessage, now_s: float) -> None:
        """It is done."""
        held.stage, held.since_s = Stage.TO_DELETE, now_s

    def hide(self, held: HeldMessage, seconds: int, now_s: float) -> None:
        """It is to come again; of its group nothing comes before it."""
        if self._is_stopping:
            held.stage, held.hide_s = Stage.WAITS, seconds
            return
        self._hide(held, seconds, now_s)
        self._give_back_group(held, now_s)

    def let_go(self, now_s: float) -> bool:
        """Lose what may be visible again, but for what is done; whether there is more room now."""
        before = len(self._held)
        for held in self._in(Stage.WAITS, Stage.IS_HANDLED, Stage.TO_HIDE):
            if held.lease_end_s <= now_s and not held.in_call:
                self._lose(held, now_s)
        return len(self._held) < before

    def next_call(self, now_s: float) -> QueueCall | None:
        """The call to make now, whose messages are in no other one; None: there is none."""
        if self._give_back_s <= now_s:
            for held in self._in(Stage.WAITS):
                self._hide(held, held.hide_s, now_s)
        extended = self._extendable(now_s)
        hidden = self._by_time(Stage.TO_HIDE)
        due = [
            *(hidden if hidden and hidden[0].since_s <= now_s else ()),
            *(extended if any(held.extend_s <= now_s for held in extended) else ()),
        ][:BATCH_MAX]
        if due:
            hides = [held.stage is Stage.TO_HIDE for held in due]
            seconds = [
                self._hide_s(held, now_s) if hidden else self._extension_s(held, now_s)
                for held, hidden in zip(due, hides, strict=True)
            ]
            return VisibilityCall(_called(due), seconds, hides)
        deleted = self._by_time(Stage.TO_DELETE)
        is_full = sum(held.since_s <= now_s for held in deleted) >= BATCH_MAX
        if is_full or min(self._delete_times_s(deleted), default=now_s + 1) <= now_s:
            return DeleteCall(_called(deleted[:BATCH_MAX]))
        return None

    def next_s(self) -> float | None:
        """When a call is due that is not now; None: not before something happens."""
        times_s = [held.extend_s for held in self._ready(lambda _: True)]
        if self._in(Stage.WAITS):
            times_s.append(self._give_back_s)
        times_s += [held.since_s for held in self._by_time(Stage.TO_HIDE)]
        times_s += self._delete_times_s(self._by_time(Stage.TO_DELETE))
        return min(times_s, default=None)

    def has_been_called(
        self,
        call: QueueCall,
        refused: Sequence[HeldMessage],
        repeated: Sequence[HeldMessage],
        called_s: float,
        now_s: float,
    ) -> None:
        """The call was answered; what it refused is not this consumer's any more.

        What is to be repeated stays as it is.
        """
        for number, held in enumerate(call.held):
            if held in repeated:
                continue
            held.in_call = False
            held.failures = 0
            if isinstance(call, DeleteCall) or call.hides[number]:
                del self._held[held.message.receipt_handle]
            elif held in refused:
                self._lose(held, now_s)
            else:
                held.lease_end_s = called_s + call.seconds[number]
                held.extend_s = called_s + self._extend_after_s

    def has_failed(
        self, held: Iterable[HeldMessage], now_s: float, pause_s: Callable[[int], float]
    ) -> float:
        """The call for these is repeated, after a pause that goes by how often it has failed.

        While a message is hidden a pause takes half of what is left of that, or the first pause,
        at most: a server that is back is asked before it is too late. So it is before the end of a
        stop. Returns the shortest pause.
        """
        pauses_s: list[float] = []
        for each in held:
            each.in_call = False
            each.failures += 1
            again_s = pause_s(each.failures)
            for left_s in (each.lease_end_s - now_s, self._over_s - now_s):
                if left_s > 0:
                    again_s = min(again_s, max(left_s / 2, pause_s(1)))
            if each.stage in (Stage.TO_HIDE, Stage.TO_DELETE):
                each.since_s = now_s + again_s
            else:
                each.extend_s = now_s + again_s
            pauses_s.append(again_s)
        return min(pauses_s, default=0.0)

    @property
    def _extend_after_s(self) -> float:
        return self._visibility_s / _EXTENSIONS

    def _lose(self, held: HeldMessage, now_s: float) -> None:
        """It is not this consumer's any more. Who handles it goes on."""
        if held.stage in (Stage.WAITS, Stage.TO_HIDE):
            del self._held[held.message.receipt_handle]
            if held.stage is Stage.WAITS and not self._is_stopping:
                self._give_back_group(held, now_s)
        held.lease_end_s, held.extend_s = now_s, float("inf")

    def _hide(self, held: HeldMessage, seconds: int, now_s: float) -> None:
        held.stage, held.since_s, held.hide_s = Stage.TO_HIDE, now_s, seconds

    def _hide_s(self, held: HeldMessage, now_s: float) -> int:
        hide_s = held.hide_s
        if self._is_stopping:
            hide_s = max(hide_s, ceil(self._polls_end_s - now_s))
        return max(0, min(hide_s, _left_s(held, now_s)))

    def _extension_s(self, held: HeldMessage, now_s: float) -> int:
        return min(self._visibility_s, _left_s(held, now_s))

    def _give_back_group(self, first: HeldMessage, now_s: float) -> None:
        if self._is_fifo:
            for held in self._in(Stage.WAITS):
                if held.message.group == first.message.group:
                    self._hide(held, 0, now_s)

    def _in(self, *stages: Stage) -> list[HeldMessage]:
        return [held for held in self._held.values() if held.stage in stages]

    def _busy_groups(self) -> set[str]:
        """Of these nothing may begin."""
        if not self._is_fifo:
            return set()
        return {held.message.group for held in self._in(Stage.IS_HANDLED, Stage.TO_HIDE)}

    def _by_time(self, stage: Stage) -> list[HeldMessage]:
        """Those in no call, which go together: where one is due, so are those that have failed."""
        free = [held for held in self._in(stage) if not held.in_call]
        return sorted(free, key=lambda held: held.since_s)

    def _delete_times_s(self, held: Iterable[HeldMessage]) -> list[float]:
        """When each of these is to be deleted: at the latest when it would be extended."""
        busy = self._busy_groups()
        may_begin = any(held.message.group not in busy for held in self._in(Stage.WAITS))
        # Where nothing may begin, and nothing be received before there is room, workers are idle.
        lingers = not self._is_stopping and (self.room > 0 or may_begin)
        linger_s = self._linger_s if lingers else 0.0
        return [
            each.since_s if each.failures else min(each.since_s + linger_s, each.extend_s)
            for each in held
        ]

    def _extendable(self, now_s: float) -> list[HeldMessage]:
        """Those to extend now, if that hides them for longer."""
        ready = self._ready(lambda held: held.extend_s <= now_s + self._extend_after_s / 2)
        for held in ready:
            if now_s + self._extension_s(held, now_s) <= held.lease_end_s:
                held.extend_s = float("inf")
        return [held for held in ready if held.extend_s < float("inf")]

    def _ready(self, is_due: Callable[[HeldMessage], bool]) -> list[HeldMessage]:
        """Those to extend that are in no call."""
        return [
            held
            for held in self._in(Stage.WAITS, Stage.IS_HANDLED)
            if not held.in_call and is_due(held)
        ]


def _left_s(held: HeldMessage, now_s: float) -> int:
    """For so long it may be hidden from now on: more would be refused."""
    return floor(held.asked_s + VISIBILITY_S_MAX - _ON_ITS_WAY_S - now_s)


def _called(held: Sequence[HeldMessage]) -> Sequence[HeldMessage]:
    for each in held:
        each.in_call = True
    return held
