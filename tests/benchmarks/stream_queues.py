"""A queue over a stream beside a FIFO queue of its own messages: receive(10) and delete, in turns.

Each run has a queue of its own, filled before: what was in flight when another one ended would
block groups.
"""

from typing import Final

from tests.benchmarks.group_member import call
from tests.benchmarks.load import Group, Outcome
from tests.benchmarks.plan import Plan
from tests.benchmarks.report import Fact, Report
from tests.benchmarks.server_process import FIFO, Line, ServerProcess
from tests.benchmarks.throughput import FILL_CONNECTIONS, FILL_S_MAX, fill, row_of, run_load
from tests.benchmarks.wire import BATCH

OWN: Final = "own messages"
OVER: Final = "over a stream"
GROUPS: Final = 1_000
"""Of messages, and keys of records; what is stored by one call has one."""

SHARE_MIN: Final = 0.8
"""What a queue over a stream hands out, to what a FIFO queue does in the same time."""


def measure_stream_queues(server: ServerProcess, plan: Plan, report: Report) -> None:
    """Report rates and CPU of both, and their ratios, by connections."""
    for connections in plan.stream_queue_connections:
        outcomes: dict[str, list[Outcome]] = {OWN: [], OVER: []}
        for run in range(plan.runs):
            name = f"over-{connections}-{run}"
            for kind, url in (
                (OWN, _own(server, name, plan.stream_queue_messages)),
                (OVER, _over(server, name, plan.stream_queue_messages)),
            ):
                group = Group("receive_delete", url, connections, count=BATCH)
                outcomes[kind].append(run_load(server, [group], plan.seconds))
        rows = {
            kind: row_of(f"FIFO receive 10, {kind}", Group("", "", connections), found)
            for kind, found in outcomes.items()
        }
        for row in rows.values():
            report.add(row)
        beside = f"queue over a stream to a FIFO queue's own, {connections} conn."
        rates = rows[OVER].messages_hz / rows[OWN].messages_hz
        report.state(Fact(f"{beside}: rate", rates, "times", least=SHARE_MIN))
        cpu = rows[OVER].server_us / rows[OWN].server_us
        report.state(Fact(f"{beside}: CPU", cpu, "times", 1 / SHARE_MIN))


def _own(server: ServerProcess, name: str, messages: int) -> str:
    """A FIFO queue with so many messages of as many groups as the stream has keys."""
    with Line(server.port) as line:
        url = line.create_queue(f"own-{name}.fifo", FIFO)
    fill(server, url, messages, message_groups=GROUPS)
    return url


def _over(server: ServerProcess, name: str, messages: int) -> str:
    """A FIFO queue over a stream of one shard, with so many records."""
    with Line(server.port) as line:
        stream = line.create_stream(name, 1)
        summary = call(line, server.port, "DescribeStreamSummary", {"StreamName": stream})
        begin = {
            "TidegateStreamArn": str(summary["StreamDescriptionSummary"]["StreamARN"]),
            "TidegateStartingPosition": "TRIM_HORIZON",
        }
        url = line.create_queue(f"{name}.fifo", FIFO | begin)
    puts = Group(
        "put", stream, FILL_CONNECTIONS, count=BATCH, messages_max=messages, message_groups=GROUPS
    )
    run_load(server, [puts], FILL_S_MAX)
    return url
