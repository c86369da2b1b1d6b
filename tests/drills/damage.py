"""Data files damaged at random places: what a start says, what it serves, and what is rescued.

Every round damages a copy of one service's data. Some of them go through real processes: `serve`
on the damaged copy, `tidegate rescue`, and a server of what was rescued.
"""

import asyncio
import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Final

from data_plane.embedded.cell import EmbeddedCell
from data_plane.ports import Key
from data_plane.system import SystemClock
from tests.drills.caller import Caller, LostConnectionError, RefusedError
from tests.drills.damaged_files import Outcome, Whole, summary, try_damage
from tests.drills.drill import Findings, Plan
from tests.drills.ledger import Violation
from tests.drills.subject import QUEUE, Subject

_DRILL: Final = "damage"
_BATCHES: Final = 60
_BATCH: Final = 10
_BODY: Final = "x" * 700
_SERVED_EVERY: Final = 20
_END_S_MAX: Final = 300
_ROOT: Final = Path(__file__).parents[2]


def damage(plan: Plan) -> Findings:
    """Damage copies of a service's data at `plan.rounds` places."""
    findings, random = Findings(_DRILL), Random(plan.seed)
    began_s = time.monotonic()
    data = _make_service(plan)
    whole = Whole.of(data)
    outcomes: list[Outcome] = []
    work = plan.folder / "work"
    work.mkdir()
    for number in range(plan.rounds):
        outcome = try_damage(whole, work, random)
        if number % _SERVED_EVERY == 0:
            outcome.wrong += _serve(plan, work, number)
        outcomes.append(outcome)
        findings.rounds += 1
        findings.violations += [
            Violation("answer", f"round {number}, {outcome.damage}: {wrong}")
            for wrong in outcome.wrong
        ]
        plan.progress(f"{number + 1} of {plan.rounds}: {outcome.damage}")
        if (findings.violations and not plan.keep_going) or (
            time.monotonic() - began_s > plan.seconds
        ):
            break
    findings.seconds = time.monotonic() - began_s
    findings.facts = [summary(outcomes), f"{len(whole.items)} items in each"]
    return findings


def _make_service(plan: Plan) -> Path:
    """A service that was sent messages, and from which some were received and deleted."""
    with Subject.of(plan, _DRILL, "service", plan.folder) as subject:
        subject.start()
        with Caller(subject.server.port) as caller:
            for batch in range(_BATCHES):
                entries = [
                    {"Id": str(entry), "MessageBody": f"{batch}-{entry} {_BODY}"}
                    for entry in range(_BATCH)
                ]
                caller.call("SendMessageBatch", QueueUrl=subject.queue_url, Entries=entries)
                if batch % 3 == 0:
                    received = caller.call("ReceiveMessage", QueueUrl=subject.queue_url)
                    for message in received.get("Messages", ()):
                        handle = message["ReceiptHandle"]
                        caller.call(
                            "DeleteMessage", QueueUrl=subject.queue_url, ReceiptHandle=handle
                        )
        subject.server.stop()
        asyncio.run(_settle(subject.data))
        return subject.data


async def _settle(data: Path) -> None:
    """Commit once more: where a root page is lost, what the last commit changed is lost with it."""
    cell = EmbeddedCell(data, SystemClock())
    await cell.put(Key("M|probe", b"00"), {"v": 1, "t": 1})
    await cell.close()


def _serve(plan: Plan, work: Path, number: int) -> list[str]:
    """What is wrong with processes on the damaged copy, and on what is rescued of it."""
    wrong: list[str] = []
    shutil.rmtree(work / "rescued", ignore_errors=True)
    damaged = _serves(plan, work / "damaged", f"damaged-{number}")
    if damaged and not damaged.startswith("tidegate: data: "):
        wrong.append(f"the start says {damaged}")
    command = (sys.executable, "-m", "control_plane.cli", "rescue", "damaged", "rescued")
    ran = subprocess.run(
        [*command[:-2], str(work / "damaged"), str(work / "rescued")],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=_END_S_MAX,
        check=False,
    )
    if ran.stderr.endswith("is whole: restore a backup\n"):
        return wrong
    if ran.returncode not in (0, 3) or "Traceback" in ran.stderr:
        wrong.append(f"rescue ends with {ran.returncode}: {ran.stderr}")
    elif "registry secret is missing" not in ran.stdout:
        rescued = _serves(plan, work / "rescued", f"rescued-{number}")
        if rescued:
            wrong.append(f"what was rescued is not served: {rescued}")
    return wrong


def _serves(plan: Plan, data: Path, name: str) -> str:
    """Start a server of this directory and use it; the line with which it refuses, or ""."""
    subject = Subject(name, data, plan.folder / f"{_DRILL}-{name}.log")
    with subject:
        try:
            subject.server.start()
            with Caller(subject.server.port) as caller:
                caller.call("ReceiveMessage", QueueUrl=subject.queue_url)
                caller.call("SendMessage", QueueUrl=subject.queue_url, MessageBody="new")
            subject.server.stop()
        except RefusedError as error:
            text = str(error)
            return "" if "503" in text or QUEUE in text else text
        except LostConnectionError as error:
            return f"lost: {error}"
        except Exception as error:  # noqa: BLE001 - the log has the line that matters
            lines = subject.log.read_text().splitlines()
            told = [line for line in lines if line.startswith("tidegate: ")]
            return told[-1] if told else f"{error}"
        return "" if "Traceback" not in subject.log.read_text() else "a traceback is in the log"
