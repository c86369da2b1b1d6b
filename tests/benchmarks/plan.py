"""How long and how much is measured."""

from dataclasses import dataclass, replace
from typing import Final

SCENARIOS: Final = {
    "send": "single sends of 1 KB",
    "half_peak": "single sends at half of the best rate, arriving at a steady pace",
    "bare": "single sends beside those to the least server of the same parts, in turns",
    "send_batch": "batches of 10 x 1 KB",
    "receive_delete": "receive(10), then delete those in a batch",
    "receive_delete_single": "receive(1), then delete it",
    "end_to_end": "from the start of a send until a long poll has the message",
    "backlog": "cost of a receive, memory and restart with a long backlog",
    "fair": "a quiet message behind a loud tenant's backlog, and waits beside loud tenants",
    "security": "what verification, policies and encryption cost a send, and fauxqs beside it",
    "isolation": "a quiet tenant's times beside one at ten times its quota",
    "strangers": "a tenant's sends beside the worst requests of strangers and other tenants",
    "soak": "memory over time under a steady load of everything; only if it is named",
    "streams": "puts and reads of records by batch and connections, and behind a long stream",
    "groups": "consumer groups beside Redis and RabbitMQ, and queues over streams beside FIFO ones",
    "bills": "bills on Spark beside the same sums on DuckDB; only if it is named",
    "fifo_send": "sends to FIFO queues, by connections, partitions and groups",
    "fifo_cycle": "send to a FIFO queue, receive as many, delete them; likewise",
    "fifo_cost": "CPU time of work on a FIFO queue to that of the same on a standard one",
    "fifo_blocked": "cost of a FIFO receive behind many messages of a group in flight",
}
OF_FIFO: Final = tuple(name for name in SCENARIOS if name.startswith("fifo_"))


@dataclass(frozen=True, slots=True)
class Plan:
    """What `python -m tests.benchmarks` does; `smoke` is what it does with --smoke."""

    seconds: float = 3.0
    warm_up_s: float = 1.0
    runs: int = 3
    send_connections: tuple[int, ...] = (1, 32, 64, 128)
    batch_connections: tuple[int, ...] = (1, 16, 64)
    single_connections: tuple[int, ...] = (1, 64)
    paced_connections: int = 128
    bare_connections: int = 64
    end_to_end_hz: tuple[int, ...] = (100, 1_000)
    consumers: int = 16
    backlog: int = 1_000_000
    small_backlog: int = 1_000
    backlog_rounds: int = 20
    ceiling_s: float = 1.0
    fifo_seconds: float = 0.2
    fair_backlog: int = 1_000_000
    fair_cases: int = 4
    security_connections: int = 64
    security_turns: int = 5
    isolation_quota_hz: int = 500
    isolation_quiet_hz: float = 60
    isolation_quiet_connections: int = 8
    isolation_noisy_connections: int = 128
    isolation_seconds: float = 10.0
    isolation_turns: int = 3
    strangers_seconds: float = 5.0
    strangers_idle: int = 10_000
    strangers_smoke: bool = False
    soak_seconds: float = 300.0
    fifo_connections: tuple[int, ...] = (1, 32, 64)
    fifo_cycle_seconds: float = 0.4
    fifo_cycle_connections: tuple[int, ...] = (1, 64)
    fifo_groups: tuple[int, ...] = (1, 10, 100, 1_000)
    fifo_cost: tuple[tuple[str, int], ...] = (
        ("send", 1),
        ("send", 64),
        ("send_batch", 64),
        ("cycle", 64),
    )
    """Work and connections."""

    fifo_cost_turns: int = 3
    fifo_blocked: int = 100_000
    fifo_blocked_rounds: int = 5
    bill_records: int = 20_000_000
    stream_records: tuple[int, ...] = (1, 10, 500)
    stream_connections: tuple[int, ...] = (1, 16)
    stream_shards: int = 4
    stream_read_records: int = 100_000
    stream_backlog: int = 10_000_000
    group_members: int = 250
    group_readers: int = 4
    group_batch: int = 100
    stream_queue_messages: int = 40_000
    stream_queue_connections: tuple[int, ...] = (1, 16)
    peer_connections: tuple[int, ...] = (1, 64)
    peer_backlog: int = 100_000
    peer_backlog_connections: int = 1
    peer_fifo_groups: int = 100
    peer_fill_s_max: float = 120.0
    """Who cannot take the backlog in this time is measured with what it took."""


def smoke(plan: Plan) -> Plan:
    """Return the plan with everything short and small."""
    return replace(
        plan,
        seconds=0.5,
        warm_up_s=0.2,
        runs=1,
        send_connections=(1, 32),
        batch_connections=(16,),
        single_connections=(16,),
        end_to_end_hz=(100,),
        backlog=20_000,
        backlog_rounds=3,
        ceiling_s=0.2,
        bare_connections=16,
        fair_backlog=10_000,
        fair_cases=1,
        security_connections=16,
        security_turns=1,
        isolation_quota_hz=50,
        isolation_noisy_connections=16,
        isolation_seconds=1.0,
        isolation_turns=1,
        strangers_seconds=1.0,
        strangers_smoke=True,
        soak_seconds=10.0,
        fifo_seconds=0.1,
        fifo_connections=(16,),
        fifo_cycle_seconds=0.2,
        fifo_cycle_connections=(16,),
        fifo_groups=(100,),
        fifo_cost=(("send", 16),),
        fifo_cost_turns=1,
        fifo_blocked=3_000,
        fifo_blocked_rounds=1,
        bill_records=1_000_000,
        stream_records=(10,),
        stream_connections=(4,),
        stream_read_records=5_000,
        stream_backlog=20_000,
        group_members=20,
        group_readers=2,
        stream_queue_messages=3_000,
        stream_queue_connections=(4,),
        peer_connections=(1, 16),
        peer_backlog=5_000,
        peer_fill_s_max=5.0,
    )
