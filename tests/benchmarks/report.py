"""What was measured, as a table for people and as JSON for programs."""

import dataclasses
import json
import math
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.latency import Latency
from tests.benchmarks.process import file_system, sync_s

_MS_PER_S: Final = 1_000
_OF_TIME: Final = frozenset({"s", "ms", "us", "/s", "a second", "times", ""})
"""Units of what depends on how fast the machine is."""

_COLUMNS: Final = (
    f"{'scenario':<30}{'conn':>5}{'msg/s':>9}{'calls/s':>9}  "
    f"{'p50':>7}{'p90':>7}{'p99':>8}{'max':>8}{'server':>8}{'gen.':>6}{'others':>7}{'ceiling':>9}"
)
_UNITS: Final = (
    f"{'':<30}{'':>5}{'':>9}{'':>9}  "
    f"{'ms':>7}{'ms':>7}{'ms':>8}{'ms':>8}{'us/msg':>8}{'CPU':>6}{'cores':>7}{'calls/s':>9}"
)


@dataclass(frozen=True, slots=True)
class Row:
    """The median of the runs of one scenario.

    `server_us` is CPU time of the server per message; `generator_share` that of the load generator
    per second; `other_cores` how busy the machine was with anything else; `ceiling_hz` the calls a
    second that the generator reaches against a server that does nothing. `latency` is that of the
    first operation, `also` those of the others.
    """

    scenario: str
    connections: int
    messages_hz: float
    calls_hz: float
    latency: Latency
    server_us: float
    generator_share: float
    other_cores: float
    ceiling_hz: float = math.nan
    runs_hz: tuple[float, ...] = ()
    also: dict[str, Latency] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fact:
    """A single number; with a limit it is a target that is met up to the limit.

    With a `least` it is one that is met from there on. To miss one that is `required` fails the
    run: none that a busy machine could miss is.
    """

    name: str
    value: float
    unit: str
    limit: float | None = None
    required: bool = False
    least: float | None = None

    def __post_init__(self) -> None:
        if self.required and self.unit in _OF_TIME:
            raise ValueError(f"{self.name}: a busy machine could miss it")

    @property
    def is_met(self) -> bool:
        """Whether there is no limit or it is kept. What was not measured does not keep it."""
        is_enough = self.least is None or self.value >= self.least
        return is_enough and (self.limit is None or self.value <= self.limit)


@dataclass(slots=True)
class Report:
    """All that was measured, shown as it comes."""

    machine: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    _in_table: bool = False

    def add(self, row: Row) -> None:
        """Show a line of the table."""
        if not self._in_table:
            print(f"\n{_COLUMNS}\n{_UNITS}", flush=True)
            self._in_table = True
        self.rows.append(row)
        print(row_line(row), flush=True)
        for name, latency in row.also.items():
            print(f"    {name:<40} {latency_text(latency)}", flush=True)
        for text, count in row.errors.items():
            print(f"    {count} errors: {text}", flush=True)

    def add_series(self, rows: Sequence[Row], line: str) -> None:
        """Show rows that differ in one thing as a line of a table of its own."""
        self._in_table = False
        self.rows += rows
        print(line, flush=True)
        for row in rows:
            for text, count in row.errors.items():
                print(f"    {count} errors of {row.scenario}: {text}", flush=True)

    def state(self, fact: Fact) -> None:
        """Show a fact, and whether its target is met."""
        self._in_table = False
        self.facts.append(fact)
        print(fact_line(fact), flush=True)

    def say(self, text: str) -> None:
        """Show a line of explanation."""
        self._in_table = False
        print(text, flush=True)

    def failures(self, *, all_targets: bool) -> list[str]:
        """What the run fails for, as lines: requests that failed, and targets that were missed.

        Those that are required, or `all_targets`.
        """
        missed = [
            f"missed: {fact.name.strip()}"
            for fact in self.facts
            if (fact.required or all_targets) and not fact.is_met
        ]
        failed = [
            f"{count} requests of {row.scenario} failed: {error}"
            for row in self.rows
            for error, count in row.errors.items()
        ]
        return [*failed, *missed]

    def save(self, path: Path) -> None:
        """Write it as JSON; numbers that were not measured are null."""
        content = {
            "machine": self.machine,
            "rows": [dataclasses.asdict(row) for row in self.rows],
            "facts": [dataclasses.asdict(fact) | {"met": fact.is_met} for fact in self.facts],
        }
        path.write_text(json.dumps(without_nan(content), indent=1) + "\n")


def row_line(row: Row) -> str:
    """Render a line of the table."""
    latency = row.latency
    ceiling = "" if math.isnan(row.ceiling_hz) else f"{row.ceiling_hz:,.0f}"
    return (
        f"{row.scenario:<30}{row.connections:>5}{row.messages_hz:>9,.0f}{row.calls_hz:>9,.0f}  "
        f"{latency.p50_ms:>7.2f}{latency.p90_ms:>7.2f}{latency.p99_ms:>8.2f}{latency.max_ms:>8.1f}"
        f"{row.server_us:>8.0f}{row.generator_share:>6.0%}{row.other_cores:>7.1f}{ceiling:>9}"
    )


def latency_text(latency: Latency) -> str:
    """Render times of one kind of request."""
    return (
        f"p50 {latency.p50_ms:.2f}  p90 {latency.p90_ms:.2f}  p99 {latency.p99_ms:.2f}"
        f"  max {latency.max_ms:.1f} ms"
    )


def fact_line(fact: Fact) -> str:
    """Render a fact, and what is asked for."""
    line = f"{fact.name:<66}{fact.value:>12,.2f} {fact.unit}"
    aims = [
        f"{which} {aim:g}"
        for which, aim in (("at least", fact.least), ("at most", fact.limit))
        if aim is not None
    ]
    return f"{line}  ({'met' if fact.is_met else 'MISSED'}: {', '.join(aims)})" if aims else line


def machine_facts(data: Path) -> dict[str, Any]:
    """Where this was measured: what the numbers depend on beside the code."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "--short", "HEAD"),
        "changed_files": len(_git("status", "--porcelain", "-uno").splitlines()),
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu_model(),
        "load_before": os.getloadavg()[0],
        "file_system": file_system(data),
        "fdatasync_p50_ms": sync_s(data) * _MS_PER_S,
    }


def heading(machine: dict[str, Any]) -> str:
    """Render where this was measured."""
    changed = f" and {machine['changed_files']} changed files" if machine["changed_files"] else ""
    return (
        f"{machine['date']}  commit {machine['commit'] or 'unknown'}{changed}\n"
        f"Python {machine['python']}, {machine['cores']} cores ({machine['cpu']}), "
        f"load {machine['load_before']:.2f} before the start\n"
        f"data on {machine['file_system']}: fdatasync of 4 KB {machine['fdatasync_p50_ms']:.3f} ms"
    )


def _git(*arguments: str) -> str:
    found = subprocess.run(
        ["git", *arguments],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def without_nan(value: Any) -> Any:
    """Return JSON content with null for what was not measured."""
    if isinstance(value, dict):
        return {key: without_nan(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [without_nan(each) for each in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    return value
