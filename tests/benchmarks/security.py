"""What verification, policies and encryption cost a send: each on and off, in turns in one run."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from data_plane import VERSION
from tests.benchmarks.canned_server import canned_server
from tests.benchmarks.latency import median
from tests.benchmarks.load import Group, Outcome
from tests.benchmarks.peers.contestants import ON_DISK, Contestant, contestants
from tests.benchmarks.plan import Plan
from tests.benchmarks.report import Fact, Report
from tests.benchmarks.secured import create_queue, create_user, root_key, secured_server
from tests.benchmarks.server_process import ServerProcess
from tests.benchmarks.throughput import ceiling_hz, row_of, run_load
from tests.benchmarks.wire import ACCOUNT
from tests.rehearsal.processes import UnavailableError

OFF: Final = "everything off"
VERIFIED: Final = "verification"
ALLOWED: Final = "verification, policies"
SEALED: Final = "encryption"
ALL_ON: Final = "everything on"
PEERS: Final = ("fauxqs", "fauxqs-disk")
OFF_TO_ON_MAX: Final = 1.5
PEER_TO_ON_MAX: Final = 1 / 1.4

_PLAIN: Final = {"SqsManagedSseEnabled": "false"}
_SEALED: Final = {"SqsManagedSseEnabled": "true"}
_RESOURCE: Final = "arn:aws:sqs:*:*:security-*"
_IDENTITY_POLICY: Final = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": ["sqs:Send*", "sqs:Receive*"], "Resource": _RESOURCE},
    ],
}
_QUEUE_POLICY: Final = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
            "Action": "sqs:SendMessage",
            "Resource": "*",
        },
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "sqs:*",
            "Resource": "*",
            "Condition": {"NotIpAddress": {"aws:SourceIp": "127.0.0.0/8"}},
        },
    ],
}


@dataclass(frozen=True, slots=True)
class Case:
    """A server, and the sends that it is to take."""

    name: str
    contestant: Contestant
    group: Group

    def run(self, plan: Plan) -> Outcome:
        """Send as fast as the answers come."""
        with self.contestant.turn():
            return run_load(self.contestant.server, [self.group], plan.seconds, plan.warm_up_s / 2)


def measure_security(folder: Path, log_level: str, plan: Plan, report: Report) -> None:
    """Report each case, and what each part costs."""
    options = ["--log-level", log_level]
    off = ServerProcess(folder / "security-off-data", folder / "security-off-log", options)
    on = secured_server(folder, "security-on", log_level)
    peers = _peers(folder, report)
    with ExitStack() as started:
        canned_port = started.enter_context(canned_server())
        for contestant in (_own(off), _own(on), *peers):
            started.enter_context(contestant.server)
            started.callback(contestant.resume)
        cases = [*_cases(off, on, plan.security_connections), *_peer_cases(peers, plan)]
        outcomes: dict[str, list[Outcome]] = {case.name: [] for case in cases}
        for _ in range(plan.security_turns):
            for case in cases:
                outcomes[case.name].append(case.run(plan))
        for case in cases:
            ceiling = ceiling_hz(canned_port, case.group, plan)
            report.add(row_of(case.name, case.group, outcomes[case.name], ceiling))
    _state(outcomes, report)


def _own(server: ServerProcess) -> Contestant:
    return Contestant("Tidegate", VERSION, ON_DISK, server)


def _peers(folder: Path, report: Report) -> list[Contestant]:
    try:
        return contestants(folder, PEERS)[1:]
    except UnavailableError as missing:
        report.say(str(missing))
        return []


def everything_on(server: ServerProcess, connections: int) -> Group:
    """Single sends of a user with policies to a queue with a policy, signed and sealed."""
    user = create_user(server, "sender", _IDENTITY_POLICY)
    attributes = {**_SEALED, "Policy": json.dumps(_QUEUE_POLICY)}
    url = create_queue(server, root_key(server), "security-all", attributes)
    return Group("send", url, connections, key=user)


def _cases(off: ServerProcess, on: ServerProcess, connections: int) -> list[Case]:
    root = root_key(on)
    all_on = everything_on(on, connections)
    policy = {"Policy": json.dumps(_QUEUE_POLICY)}
    cases = []
    for name, server, maker, key, queue, attributes in (
        (OFF, off, None, None, "security-off", _PLAIN),
        (SEALED, off, None, None, "security-sealed", _SEALED),
        (VERIFIED, on, root, root, "security-verified", _PLAIN),
        (ALLOWED, on, root, all_on.key, "security-allowed", {**_PLAIN, **policy}),
    ):
        url = create_queue(server, maker, queue, attributes)
        cases.append(Case(name, _own(server), Group("send", url, connections, key=key)))
    return [*cases, Case(ALL_ON, _own(on), all_on)]


def _peer_cases(peers: Sequence[Contestant], plan: Plan) -> list[Case]:
    return [
        Case(
            f"{peer.name} {peer.version}",
            peer,
            Group("send", peer.create_queue("security", {}), plan.security_connections),
        )
        for peer in peers
    ]


def _state(outcomes: dict[str, list[Outcome]], report: Report) -> None:
    def ratio(above: str, below: str) -> float:
        pairs = zip(outcomes[above], outcomes[below], strict=True)
        return median([one.rate() / other.rate() for one, other in pairs])

    for name, more, less in (
        ("verification", VERIFIED, OFF),
        ("policies, beside verification", ALLOWED, VERIFIED),
        ("encryption", SEALED, OFF),
        ("everything", ALL_ON, OFF),
    ):
        report.state(Fact(f"{name}: taken off the throughput", 100 * (1 - ratio(more, less)), "%"))
    report.state(Fact("sends with everything off to on", ratio(OFF, ALL_ON), "", OFF_TO_ON_MAX))
    cpu_s = {
        name: median([each.server_cpu_s / each.messages for each in outcomes[name]])
        for name in (ALL_ON, OFF)
    }
    report.state(Fact("CPU of a send with everything on to off", cpu_s[ALL_ON] / cpu_s[OFF], ""))
    for name in outcomes:
        if name.startswith(PEERS):
            told = f"sends of {name} to those with everything on"
            report.state(Fact(told, ratio(name, ALL_ON), "", PEER_TO_ON_MAX))
