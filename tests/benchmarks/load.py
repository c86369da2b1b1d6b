"""What a load generator is told and what it tells: plain data that crosses a process boundary."""

from array import array
from collections import Counter
from dataclasses import dataclass, field

from tests.benchmarks.signing import AccessKey


@dataclass(frozen=True, slots=True)
class Group:
    """Connections that do the same.

    `work` names a conversation (conversations.py). With `rate_hz` 0 the loop is closed: a
    connection sends as soon as it is answered. Else requests start at that rate whatever the
    answers do, and their time counts from when they should have started. `messages_max` ends the
    work of the group; 0 leaves the end to the clock. To a FIFO queue go messages of so many
    `message_groups`, in turns, and to a stream records of so many keys; 0: it is a standard one,
    and keys are drawn. With a `key` requests are signed, and bodies bear no stamps. Errors that say
    what is `tolerated` are no failures but the point: they are counted apart. Work on streams has
    the stream's name for a URL, `count` records of `record_bytes` a call, and reads `shards`.
    """

    work: str
    queue_url: str
    connections: int
    rate_hz: float = 0
    count: int = 10
    messages_max: int = 0
    message_groups: int = 0
    key: AccessKey | None = None
    tolerated: str = ""
    record_bytes: int = 1024
    shards: int = 1


@dataclass(frozen=True, slots=True)
class Load:
    """One run against the server on a port of this machine.

    `server_pid` is that of the process whose CPU time is charged to the run, with its children.
    Requests under way at the end are awaited for `drain_s`, so that they do not burden what is
    measured next.
    """

    port: int
    groups: tuple[Group, ...]
    seconds: float
    warm_up_s: float = 0
    server_pid: int = 0
    drain_s: float = 1.0


@dataclass(slots=True)
class Tally:
    """What one group measured.

    `times_s` are those of the requests by operation; `deliveries_s` the times from the sending of a
    message until a consumer had it. `offered` counts the messages that were asked to be sent;
    `messages` those sent, or received and deleted. `useful_at_s` is when the last one was. `stock`
    are those that a cycle has sent and not deleted. `refused` are the errors that are tolerated.
    """

    times_s: dict[str, "array[float]"] = field(default_factory=dict)
    deliveries_s: "array[float]" = field(default_factory=lambda: array("d"))
    messages: int = 0
    offered: int = 0
    empty: int = 0
    empty_in_a_row: int = 0
    useful_at_s: float = 0
    stock: int = 0
    refused: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def record(self, operation: str, time_s: float) -> None:
        """Add the time of a request."""
        try:
            self.times_s[operation].append(time_s)
        except KeyError:
            self.times_s[operation] = array("d", [time_s])

    def forget(self) -> None:
        """Start to measure: what was is warm-up. Errors stay, and what `messages_max` limits."""
        self.times_s.clear()
        del self.deliveries_s[:]
        self.messages = 0
        self.empty = 0
        self.refused = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run measured: a tally per group, the time it took, the CPU time of all."""

    tallies: tuple[Tally, ...]
    elapsed_s: float
    generator_cpu_s: float
    server_cpu_s: float
    machine_cpu_s: float

    @property
    def errors(self) -> Counter[str]:
        """All errors, by their text."""
        total: Counter[str] = Counter()
        for tally in self.tallies:
            total.update(tally.errors)
        return total

    @property
    def messages(self) -> int:
        """Messages of all groups."""
        return sum(tally.messages for tally in self.tallies)

    @property
    def other_cores(self) -> float:
        """How many cores the machine was busy with anything else: what made the run noisy."""
        other_s = self.machine_cpu_s - self.server_cpu_s - self.generator_cpu_s
        return max(0.0, other_s) / self.elapsed_s if self.elapsed_s else 0.0

    def rate(self) -> float:
        """Messages a second, of all groups."""
        return self.messages / self.elapsed_s if self.elapsed_s else 0.0
