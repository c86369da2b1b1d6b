"""Backups under load: everything is lost, and restored; backups that are killed show as none.

What was acknowledged before a backup began has to be there afterwards, what was deleted before it
must not, groups have their order, and the restore says from when on all is lost.
"""

import json
import shutil
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from control_plane.backup.folder import MANIFEST, UNFINISHED
from control_plane.backup.restoring import Wanted
from control_plane.backup.restoring import restore as restore_backup
from control_plane.backup.source import BackupError
from data_plane.system import SystemClock
from tests.benchmarks.server_process import ROOT, ServerProcess
from tests.drills.caller import UNAVAILABLE, Caller, RefusedError
from tests.drills.consumers import LATE
from tests.drills.drill import Findings, Plan
from tests.drills.moments import Moment, Told
from tests.drills.subject import SERVER_FAILURES

_DRILL: Final = "backup"
STANDARD, FIFO, BULK = "drill", "drill.fifo", "bulk"
GROUPS: Final = ("a", "b")
CELLS: Final = (3, 1)
"""Of one round and of the next: there are always two."""

_BULK_MESSAGES: Final = 40
_BULK_BYTES: Final = 120_000
_VISIBILITY_S: Final = 2
_JUDGED_VISIBILITY_S: Final = 30
"""Longer than a busy machine takes from a receive to its deletes."""

_STORED: Final = (20, 60)
"""Consumers leave so many, and senders wait for consumers where there are more."""

_NOTED: Final = (30, 60)
_NOTED_S_MAX: Final = 300.0
_COMMAND_S_MAX: Final = 600.0
_QUIET_S_MAX: Final = 2.0 * _JUDGED_VISIBILITY_S
_SENT_AFTER: Final = 10
_NAP_S: Final = 0.02
_KILLED_AFTER_S: Final = 0.03


@dataclass
class _Service:
    """A server, its clients' books, and where its data, backups and keys are."""

    server: ServerProcess
    told: Told
    folder: Path

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.server.data

    def url(self, queue: str) -> str:
        """URL of a queue."""
        return self.server.queue_url(queue)


def backup(plan: Plan) -> Findings:
    """Back up, lose everything, restore: services of three cells and of one in turns."""
    findings = Findings(_DRILL)
    random = Random(f"{_DRILL} {plan.seed}")
    told = Told()
    began_s = time.monotonic()
    while findings.rounds < max(plan.rounds, len(CELLS)):
        if findings.rounds >= len(CELLS) and time.monotonic() > began_s + plan.seconds:
            break
        cells = CELLS[findings.rounds % len(CELLS)]
        findings.rounds += 1
        with _service(plan, told, cells, findings.rounds) as service:
            try:
                _round(service, random)
            except SERVER_FAILURES as error:
                told.accuse("answer", f"{type(error).__name__}: {error}")
        plan.progress(f"{_DRILL}: round {findings.rounds}, {cells} cells")
        if told.violations and not plan.keep_going:
            break
    findings.add([told])
    findings.facts.append(f"{told.tally['cut']} backups cut off")
    findings.seconds = time.monotonic() - began_s
    return findings


@contextmanager
def _service(plan: Plan, told: Told, cells: int, number: int) -> Iterator[_Service]:
    folder = plan.folder / f"backup-{number}"
    folder.mkdir()
    wrapper = (sys.executable, "-m", "tests.drills.planted", plan.fault) if plan.fault else ()
    options = ("--log-level", "warning", "--cells", str(cells))
    log = plan.folder / f"{_DRILL}-{number}.log"
    server = ServerProcess(folder / "data", log, options, wrapper)
    try:
        yield _Service(server, told, folder)
    finally:
        if server.process is not None:
            server.process.kill()
            server.process.wait()
        shutil.rmtree(folder)


def _round(service: _Service, random: Random) -> None:
    told = service.told
    told.begin_anew()
    service.server.start()
    with Caller(service.server.port) as caller:
        for name, attributes in ((STANDARD, {}), (FIFO, {"FifoQueue": "true"}), (BULK, {})):
            caller.insist("CreateQueue", QueueName=name, Attributes=attributes)
        for _ in range(_BULK_MESSAGES):  # a backup takes a while
            body = b64encode(random.randbytes(_BULK_BYTES)).decode()
            caller.insist("SendMessage", QueueUrl=service.url(BULK), MessageBody=body)
    load = _Load(service)
    try:
        _progress(told, random)
        _cut_off(service, random)
        load.keeps = True
        before, began_us = told.moment(), _now_us()
        _command(told, *_backup_of(service, "whole"), "--keys", str(service.folder / "keys"))
        after, ended_us = told.moment(), _now_us()
        load.keeps = False
        _progress(told, random)
    finally:
        load.stop()
    service.server.kill()
    shutil.rmtree(service.data)
    _restore(service, began_us, ended_us)
    service.server.start()
    _judge(service, before, after)


def _progress(told: Told, random: Random) -> None:
    for what in ("sends", "deletes"):
        if not told.wait_for(what, random.randint(*_NOTED), _NOTED_S_MAX):
            told.accuse("answer", f"no {what} in {_NOTED_S_MAX:.0f} s")


def _backup_of(service: _Service, name: str) -> list[str]:
    return ["backup", str(service.folder / name), "--data", str(service.data)]


def _command(told: Told, *arguments: str) -> str:
    """What a command says; one that fails is a violation."""
    command = [sys.executable, "-m", "control_plane.cli", *arguments]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=_COMMAND_S_MAX, check=False
    )
    if ran.returncode:
        told.accuse("answer", f"tidegate {arguments[0]} ended with {ran.returncode}: {ran.stderr}")
    return ran.stdout


def _cut_off(service: _Service, random: Random) -> None:
    """A backup that is ended by kill -9 is none."""
    target = service.folder / "cut"
    unfinished = service.folder / ("cut" + UNFINISHED)
    command = [sys.executable, "-m", "control_plane.cli", *_backup_of(service, "cut")]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    until_s = time.monotonic() + _COMMAND_S_MAX
    while not unfinished.exists() and process.poll() is None and time.monotonic() < until_s:
        time.sleep(0.001)  # between two looks at a backup that begins
    time.sleep(random.uniform(0, _KILLED_AFTER_S))  # that is what is drilled
    process.kill()
    process.wait()
    if target.exists() or (unfinished / MANIFEST).exists():
        service.told.tally["backups done before they were cut off"] += 1
        return
    service.told.tally["cut"] += 1
    try:
        restore_backup(Wanted(unfinished, service.folder / "none", None), SystemClock())
    except BackupError:
        if not (service.folder / "none").exists():
            return
    service.told.accuse("answer", "a backup that was cut off was restored")


def _restore(service: _Service, began_us: int, ended_us: int) -> None:
    whole = service.folder / "whole"
    as_of_us = json.loads((whole / MANIFEST).read_bytes())["contents"]["as_of_us"]
    if not began_us <= as_of_us <= ended_us:
        service.told.accuse("answer", f"{as_of_us} is not within {began_us} and {ended_us}")
    keys, data = str(service.folder / "keys"), str(service.data)
    said = _command(service.told, "restore", str(whole), "--data", data, "--keys", keys)
    if f"(cell time {as_of_us} us)" not in said:
        service.told.accuse("answer", f"the restore does not say what is lost: {said}")


def _judge(service: _Service, before: Moment, after: Moment) -> None:
    """Receive and delete all there is, then see that the service goes on."""
    told = service.told
    wanted = {name: line.acknowledged - after[name].delete_asked for name, line in before.items()}
    told.judge(before, after, _received(service, wanted, empty=2), GROUPS)
    sent: dict[str, set[int]] = defaultdict(set)
    with Caller(service.server.port) as caller:
        for line in (STANDARD, *GROUPS):
            for _ in range(_SENT_AFTER):
                number = told.send_asked(line)
                caller.insist("SendMessage", **_message(service, line, number))
                sent[line].add(number)
    found = _received(service, sent, empty=0)
    for line, numbers in sent.items():
        # What was stored in the head of a chain alone is seen when somebody comes upon it.
        half = set(range(1, after[line].asked + 1)) - before[line].acknowledged
        if not numbers <= set(found[line]) <= numbers | half:
            told.accuse("lost", f"{line}: {sorted(numbers)} were sent, and {found[line]} came")
        if line in GROUPS and found[line] != sorted(found[line]):
            told.accuse("order", f"{line}: {found[line]}")


def _received(
    service: _Service, wanted: dict[str, set[int]], *, empty: int
) -> dict[str, list[int]]:
    """What is there, by lines in the order in which it came; it is deleted.

    It ends when all that is wanted was there, and as many receives in a row brought nothing; or
    when nothing has come for long.
    """
    found: dict[str, list[int]] = defaultdict(list)
    came_s = time.monotonic()
    left = empty
    is_whole = False
    with Caller(service.server.port) as caller:
        while time.monotonic() < came_s + _QUIET_S_MAX and not (is_whole and left <= 0):
            count = 0
            for queue in (STANDARD, FIFO):
                messages = _receive(service, caller, queue, _JUDGED_VISIBILITY_S)
                entries = []
                for at, (line, number, handle) in enumerate(messages):
                    found[line].append(number)
                    entries.append({"Id": str(at), "ReceiptHandle": handle})
                if entries:
                    params = {"QueueUrl": service.url(queue), "Entries": entries}
                    failed = caller.insist("DeleteMessageBatch", **params).get("Failed", ())
                    count += len(entries) - len(failed)
                    came_s = time.monotonic()
            is_whole = all(numbers <= set(found[line]) for line, numbers in wanted.items())
            left = left - 1 if is_whole and not count else empty
    return found


def _receive(
    service: _Service, caller: Caller, queue: str, visibility_s: int
) -> list[tuple[str, int, str]]:
    """Line, number and receipt handle of each message that a receive brings."""
    answer = caller.insist(
        "ReceiveMessage",
        QueueUrl=service.url(queue),
        MaxNumberOfMessages=10,
        VisibilityTimeout=visibility_s,
        WaitTimeSeconds=1,
    )
    told = []
    for message in answer.get("Messages", ()):
        line, _, rest = message["Body"].partition(" ")
        told.append((line, int(rest.partition(" ")[0]), message["ReceiptHandle"]))
    return told


def _message(service: _Service, line: str, number: int) -> dict[str, Any]:
    body = f"{line} {number} {'x' * (number % 700)}"
    if line == STANDARD:
        return {"QueueUrl": service.url(STANDARD), "MessageBody": body}
    return {
        "QueueUrl": service.url(FIFO),
        "MessageBody": body,
        "MessageGroupId": line,
        "MessageDeduplicationId": f"{line}{number}",
    }


class _Load:
    """Senders and consumers, each in a thread of its own, until `stop`.

    While it `keeps`, a part of what there is stays: else nothing of before a backup might be left.
    """

    def __init__(self, service: _Service) -> None:
        self.keeps = False
        self._service = service
        self._told = service.told
        self._done = threading.Event()
        work: list[tuple[Any, str]] = [(self._send, line) for line in (STANDARD, *GROUPS)]
        work += [(self._consume, queue) for queue in (STANDARD, FIFO)]
        self._threads = [threading.Thread(target=self._run, args=each) for each in work]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End everybody."""
        self._done.set()
        for thread in self._threads:
            thread.join(_NOTED_S_MAX)

    def _run(self, work: Any, what: str) -> None:
        with Caller(self._service.server.port) as caller:
            try:
                while not self._done.is_set():
                    work(caller, what)
            except SERVER_FAILURES as error:
                self._told.accuse("answer", f"{what}: {error}")

    def _send(self, caller: Caller, line: str) -> None:
        if self._told.stored(line) > _STORED[1]:
            self._done.wait(_NAP_S)  # for consumers
            return
        number = self._told.send_asked(line)
        while not self._done.is_set():
            if self._try(caller, "SendMessage", _message(self._service, line, number)):
                self._told.send_answered(line, number)
                return

    def _consume(self, caller: Caller, queue: str) -> None:
        lines = (STANDARD,) if queue == STANDARD else GROUPS
        if all(self._told.stored(line) < _STORED[0] for line in lines):
            self._done.wait(_NAP_S)  # for senders
            return
        began_s = time.monotonic()
        for line, number, handle in _receive(self._service, caller, queue, _VISIBILITY_S):
            if self._done.is_set() or time.monotonic() > began_s + _VISIBILITY_S / 2:
                return
            if self.keeps and (line == GROUPS[-1] or (line == STANDARD and number % 2)):
                continue
            self._told.delete_asked(line, number)
            params = {"QueueUrl": self._service.url(queue), "ReceiptHandle": handle}
            if self._try(caller, "DeleteMessage", params):
                self._told.delete_answered(line, number)

    def _try(self, caller: Caller, operation: str, params: dict[str, Any]) -> bool:
        """Whether it was answered with success; False: it was refused for now, or came late."""
        try:
            caller.call(operation, **params)
        except RefusedError as error:
            is_late = operation == "DeleteMessage" and any(code in error.text for code in LATE)
            if error.status != UNAVAILABLE and not is_late:
                raise
            return False
        return True


def _now_us() -> int:
    return time.time_ns() // 1000
