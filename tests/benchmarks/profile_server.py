"""Where the server spends its time while sends, or receives, keep it busy.

py-spy if it is installed, which sees threads and native frames; else cProfile, which sees the
Python functions and slows them down.
"""

import pstats
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from tests.benchmarks import generator
from tests.benchmarks.load import Group, Load
from tests.benchmarks.plan import Plan
from tests.benchmarks.secured import ON
from tests.benchmarks.security import everything_on
from tests.benchmarks.server_process import FIFO, Line, ServerProcess
from tests.benchmarks.throughput import fill

CONNECTIONS: Final = 64
TOP: Final = 45
SAMPLES_HZ: Final = 500
FILLED: Final = 60_000
FIFO_PREFIX: Final = "fifo_"
SECURED: Final = "secured_send"
FIFO_GROUPS: Final = 100
PUT: Final = "put"
PUT_RECORDS: Final = 500
_LINE: Final = re.compile(r":\d+\)$")


def _group(server: ServerProcess, work: str, plan: Plan) -> Group:
    if work == SECURED:
        return everything_on(server, CONNECTIONS)
    if work == PUT:
        with Line(server.port) as line:
            name = line.create_stream("profile", plan.stream_shards)
        return Group(work, name, plan.stream_connections[-1], count=PUT_RECORDS)
    fifo_work = work.removeprefix(FIFO_PREFIX)
    with Line(server.port) as line:
        if work != fifo_work:
            queue_url = line.create_queue(f"profile-{work}.fifo", FIFO)
            return Group(fifo_work, queue_url, CONNECTIONS, message_groups=FIFO_GROUPS)
        queue_url = line.create_queue(f"profile-{work}")
    if work == "receive_delete":
        fill(server, queue_url, FILLED)
    return Group(work, queue_url, CONNECTIONS)


def _load(server: ServerProcess, group: Group, plan: Plan) -> str:
    load = Load(server.port, (group,), plan.seconds, plan.warm_up_s, server.pid)
    outcome = generator.run(load)
    return f"{outcome.rate():,.0f} messages/s under the profiler, errors: {dict(outcome.errors)}"


def profile(folder: Path, options: list[str], work: str, plan: Plan) -> str:
    """Profile a server of its own under a load, and return what to print."""
    if work == SECURED:
        options = [*ON, *options]
    py_spy = shutil.which("py-spy") or shutil.which(str(Path(sys.executable).parent / "py-spy"))
    if py_spy is None:
        return _with_cprofile(folder, options, work, plan)
    server = ServerProcess(folder / "data", folder / "log", options)
    stacks = folder / "stacks"
    duration_s = max(1, int(plan.seconds))
    with server:
        group = _group(server, work, plan)
        recorder = subprocess.Popen(
            [
                *(py_spy, "record", "--pid", str(server.pid), "--rate", str(SAMPLES_HZ)),
                *("--gil", "--duration", str(duration_s)),
                *("--format", "raw", "--output", str(stacks)),
            ],
            stdout=subprocess.DEVNULL,
        )
        told = _load(server, group, plan)
        recorder.wait()
    return f"{told}\n{shares(stacks.read_text(), duration_s)}"


def shares(stacks: str, seconds: float, top: int = TOP) -> str:
    """Render the functions that hold the GIL most, from `frame;frame;... count` lines.

    Shares are of the time: what is missing to 100 % is time in which no Python ran. `self`: the
    function itself, or what it called that is not Python; `total`: it, or all that it called.
    """
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [_LINE.sub(")", frame) for frame in stack.split(";")]
        own[frames[-1]] += int(count)
        for frame in set(frames):
            total[frame] += int(count)
    samples = seconds * SAMPLES_HZ
    lines = [f"the GIL was held {own.total() / samples:.0%} of the time"]
    for title, ranked in (("by self", own), ("by total", total)):
        lines += ["", f"{'self':>7} {'total':>7}  {title}"]
        lines += [
            f"{own[name] / samples:>7.1%} {total[name] / samples:>7.1%}  {name}"
            for name, _ in ranked.most_common(top)
        ]
    return "\n".join(lines)


def _with_cprofile(folder: Path, options: list[str], work: str, plan: Plan) -> str:
    result = folder / "profile"
    wrapper = (sys.executable, "-m", "cProfile", "-o", str(result))
    server = ServerProcess(folder / "data", folder / "log", options, wrapper)
    with server:
        told = _load(server, _group(server, work, plan), plan)
    with (folder / "statistics").open("w") as text:
        pstats.Stats(str(result), stream=text).sort_stats("tottime").print_stats(TOP)
    return f"{told}\n{(folder / 'statistics').read_text()}"
