"""The tables of docs/cost.md that are reckoned, not counted.

`python -m tests.conformance.cost_page` prints them.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

from control_plane.core.cost import (
    BYTES_A_GB,
    DOORS,
    GROUP_METRICS,
    LOG_BYTES,
    LOOKS,
    MEASURE_GROUP_READS,
    MEASURE_REQUESTS,
    MEASURE_SHARD_READS,
    QUEUE_METRICS,
    SWEEP_TRANSITIONS,
    TTL_SLACK_S,
    Door,
    Load,
    Timing,
    bill,
    sqs_bill,
    watched,
)
from control_plane.core.price_list import MILLION, PRICES, READ_ON, SECONDS_A_MONTH
from control_plane.core.request_units import (
    TURNS_COUNTED,
    Shape,
    delete,
    item_bytes,
    receive,
    send,
)
from data_plane.blobs.prices import READ_UNIT_BYTES, READS, WRITE_UNIT_BYTES
from data_plane.core.limits import RETENTION_S_DEFAULT
from tests.conformance import capacity_on_paper as capacity

TRANSITIONS_OF_TWO: Final = SWEEP_TRANSITIONS + 3
"""Of an execution of the cluster manager for two tasks, with one round each."""

MESSAGES_PER_S: Final = 10
IDLE_USD_MAX: Final = 0.25
SCRAPED_USD_MAX: Final = 1.00
"""A month of a server with 500 idle queues, without and with scrapes; a test counts its units."""

SIZES: Final = ((1_024, "1 KB"), (65_536, "64 KB"))
CASES: Final = tuple(
    (fifo, size_bytes, size, batch)
    for fifo in (False, True)
    for size_bytes, size in SIZES
    for batch in (1, 10)
)


def tables() -> dict[str, str]:
    """Markdown, by what it shows."""
    return {
        "prices": _prices(),
        "dollars": _dollars(),
        "fixed": _fixed(),
        "manager": _manager(),
        "watched": _watched(),
        "turns": _turns(),
        "even": _even(),
        "waiting": _waiting(),
        "queues": _queues(),
        "account": _account(),
    }


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "|" + "|".join(line) + "|" if line[0] == "---" else f"| {' | '.join(line)} |"
        for line in lines
    )


def _kind(*, fifo: bool) -> str:
    return "FIFO" if fifo else "standard"


def _prices() -> str:
    def tier(start: Decimal, usd: Decimal, unit: str) -> str:
        return f"{usd:f} from {start:,} {unit}s" if start else f"{usd:f}"

    return _markdown(
        ("price", "USD", "for a", "since, or read on", "from"),
        (
            (
                name,
                "; ".join(tier(*one, price.unit) for one in price.tiers),
                price.unit,
                price.since,
                price.source,
            )
            for name, price in PRICES.items()
        ),
    )


def _dollars() -> str:
    def each(load: Load) -> str:
        return f"{bill(load).usd_per_million:.2f}"

    rows = []
    for fifo, size_bytes, size, batch in CASES:
        sqs = sqs_bill(Load(MESSAGES_PER_S, size_bytes, batch, fifo)).usd_per_million
        doors: tuple[Door, ...] = ("rest", "url", "server")
        ours = [each(Load(MESSAGES_PER_S, size_bytes, batch, fifo, door=door)) for door in doors]
        rows.append((_kind(fifo=fifo), size, str(batch), *ours, f"{sqs:.2f}"))
    return _markdown(
        ("queue", "messages", "at a time", "API Gateway", "function URL", "servers", "Amazon SQS"),
        rows,
    )


def _fixed() -> str:
    return _markdown(
        ("door", "USD a month"),
        ((door, f"{bill(Load(MESSAGES_PER_S, door=door)).usd_fixed:.2f}") for door in DOORS),
    )


def _manager() -> str:
    lines = [line for line in bill(Load(MESSAGES_PER_S, door="url")).lines if line.fixed]
    return _markdown(
        ("what is fixed behind functions", "a month", "of", "USD"),
        ((one.name, f"{one.amount:,.4g}", one.price, f"{one.usd:.3f}") for one in lines),
    )


def _watched() -> str:
    def row(name: str, reads: int, metrics: int = QUEUE_METRICS) -> Sequence[str]:
        lines = watched(metrics=metrics, alarms=2, reads=reads)
        each = [f"{line.usd:.3f}" for line in lines]
        return (name, str(reads), *each, f"{sum(line.usd for line in lines):.2f}")

    return _markdown(
        ("what is watched", "units", "metrics", "two alarms", "reads", "log", "USD a month"),
        (
            row("a queue, idle", MEASURE_REQUESTS),
            row("a queue, sent to each minute, kept 4 days", 90),
            row("a consumer group that is behind, 1 shard", _group_reads(1), GROUP_METRICS),
            row("a consumer group that is behind, 20 shards", _group_reads(20), GROUP_METRICS),
        ),
    )


def _group_reads(shards: int) -> int:
    return MEASURE_GROUP_READS + shards * MEASURE_SHARD_READS


def _turns() -> str:
    def units(shape: Shape, number: int) -> Iterable[str]:
        for call in (send, receive, delete):
            spent = call(shape, number)
            yield f"{spent.writes:.1f} + {spent.reads:.1f}"

    rows = []
    for number in TURNS_COUNTED:
        for fifo in (False, True):
            spent = units(Shape(1_024, 1, fifo), number)
            load = Load(MESSAGES_PER_S, fifo=fifo, door="url", front_ends=number)
            rows.append(
                (
                    str(number),
                    _kind(fifo=fifo),
                    *spent,
                    f"{bill(load).usd_per_million:.2f}",
                )
            )
    return _markdown(
        ("front ends", "queue", "send", "receive", "delete", "USD per million, function URL"), rows
    )


def _even() -> str:
    """From how many messages a second on a month's bill is lower than the other."""

    def usd(door: str, per_s: float, batch: int) -> Decimal:
        if door == "sqs":
            return sqs_bill(Load(per_s, batch=batch)).usd
        named = next(each for each in DOORS if each == door)
        return bill(Load(per_s, batch=batch, door=named)).usd

    def crossing(one: str, other: str, batch: int) -> str:
        rates = [number * 10.0**power for power in range(-1, 4) for number in range(1, 10)]
        for per_s in rates:
            if one == "embedded" and 3 * per_s / batch > 2_000:
                break
            if usd(one, per_s, batch) < usd(other, per_s, batch):
                return f"from {per_s:g}"
        return "never"

    pairs = (("embedded", "sqs"), ("server", "sqs"), ("server", "url"), ("url", "sqs"))
    return _markdown(
        ("cheaper", "than", "one at a time", "in batches of 10"),
        ((one, other, *(crossing(one, other, batch) for batch in (1, 10))) for one, other in pairs),
    )


def _waiting() -> str:
    """A consumer that polls an empty queue all month."""

    def usd(door: Door, wait_s: float) -> str:
        idle = Load(0.000_001, door=door, empty_receives_per_s=1 / max(wait_s, 1), wait_s=wait_s)
        its = bill(idle)
        return f"{its.usd - its.usd_fixed:.2f}"

    def sqs(wait_s: float) -> str:
        idle = Load(0.000_001, empty_receives_per_s=1 / max(wait_s, 1))
        return f"{sqs_bill(idle).usd:.2f}"

    return _markdown(
        ("wait", "API Gateway", "function URL", "servers", "Amazon SQS"),
        (
            (text, usd("rest", wait_s), usd("url", wait_s), usd("server", wait_s), sqs(wait_s))
            for wait_s, text in ((0, "none, once a second"), (5, "5 s"), (20, "20 s"))
        ),
    )


def _queues() -> str:
    rows = []
    for fifo, size_bytes, size, batch in CASES:
        shape = Shape(size_bytes, batch, fifo)
        bound, *others = capacity.of_queue(shape, functions=True)
        behind = others[0]
        rows.append(
            (
                _kind(fifo=fifo),
                size,
                str(batch),
                f"{bound.messages_per_s:,.0f}: {bound.by}",
                f"{behind.messages_per_s:,.0f}: {behind.by}",
            )
        )
    return _markdown(
        ("queue", "messages", "at a time", "messages a second, bounded by", "then by"), rows
    )


def _account() -> str:
    return _markdown(
        ("messages", "at a time", "one table, by its default quota", "functions of one account"),
        (
            (
                size,
                str(batch),
                f"{capacity.of_table(Shape(size_bytes, batch)):,.0f}",
                f"{capacity.of_account(Shape(size_bytes, batch)):,.0f}",
            )
            for size_bytes, size in SIZES
            for batch in (1, 10)
        ),
    )


def prose() -> Sequence[str]:
    """What the page says of dollars outside its tables, word by word."""
    write, read, put, get = (
        PRICES[name].first for name in ("write unit", "read unit", "object put", "object get")
    )
    storage = PRICES["table storage"].first
    item = READS * read / READ_UNIT_BYTES * WRITE_UNIT_BYTES + write
    apart = put + get
    kept_gb = Decimal(item_bytes(Shape(1_024))) * MILLION / BYTES_A_GB
    kept = kept_gb * (RETENTION_S_DEFAULT + TTL_SLACK_S) / SECONDS_A_MONTH
    listed = MILLION / 500 * put / MILLION
    url = bill(Load(MESSAGES_PER_S, door="url"))
    timed = sum(line.usd for line in url.lines if line.price == "lambda arm64" and not line.fixed)
    timing, of_receive = Timing(), receive(Shape(1_024))
    items_gb = Decimal(BYTES_A_GB) / 1_024 / MILLION
    day = Decimal(86_400) / SECONDS_A_MONTH
    transition = PRICES["state transition"].of(Decimal(1)) / MILLION
    each_minute = LOOKS * TRANSITIONS_OF_TWO * transition
    return (
        f"USD {items_gb * write:.2f} for a GB of items of 1 KB",
        f"USD {items_gb / 4 * read:.2f} to read it first",
        f"at most USD {14 * day * storage:.2f} (14 days",
        f"by default USD {4 * day * storage:.2f} (4 days)",
        f"for 72,000 items, USD {72_000 * write / MILLION:.3f}",
        f"never more than USD {100 * 3_600 * write / MILLION:.3f} an hour",
        f"USD {write} for a million write units (1 KB each)",
        f"USD {read} for a million read units (4 KB each, strongly consistent)",
        f"USD {storage} a GB and month a million messages of 1 KB",
        f"are about USD {kept * storage:.2f}",
        f"USD {2 * read:.2f} for a million receives",
        f"{write} for write units of 1 KB",
        f"{read} for\nread units of 4 KB",
        f"{put} for a PUT and {get} for a GET",
        f"| send | {write} n | {put} |",
        f"| {read} n / 4 | {get} |",
        f"| sum | {item:.4f} n | {apart} |",
        f"at {apart} / {item:.4f} = {apart / item:.1f} KB",
        f"that is {64 * item:.0f} dollars in items and {apart} apart",
        f"{storage} dollars for a GB and month",
        f"{PRICES['object storage'].first} in S3",
        f"({put} for a million requests of 500 names)",
        f"{listed + read:.3f} dollars each time",
        f"{timed / (url.usd - url.usd_fixed):.0%} of the bill",
        f"{PRICES['transfer out'].first} dollars a GB out to the internet",
        f"{timing.dynamodb_ms:g} ms for a request to DynamoDB, {timing.s3_ms:g} ms for one to S3",
        f"{timing.own_ms:g} ms that a function works on a call itself",
        f"{timing.server_cpu_ms:g} ms of a processor for a call of a server on DynamoDB",
        f"{timing.embedded_cpu_ms:g} ms on its own disk",
        f"{LOG_BYTES['url']} bytes of logs for a call, {LOG_BYTES['rest']:,} behind API Gateway",
        f"reads {of_receive.reads:.0f} units and writes two",
        f"were {TRANSITIONS_OF_TWO} transitions each time: {each_minute:.2f}",
        f"20 units for three tables: {LOOKS * 20 * read / MILLION:.2f}",
        f"some 20 transitions: {20 * transition:.4f} an execution",
        f"costs less than USD {IDLE_USD_MAX:.2f} a month, and less than USD {SCRAPED_USD_MAX:.2f}",
        f"Read on {READ_ON} ",
    )


if __name__ == "__main__":
    for name, table in tables().items():
        print(f"{name}\n\n{table}\n")
    print("\n".join(prose()))
