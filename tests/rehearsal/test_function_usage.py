"""Bills and audits of sandboxes that were cut off, of which lines were lost, beside the books."""

import json
import random
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import boto3
import pytest
from pyarrow import parquet

from tests.integration.server_process import ROOT
from tests.rehearsal.sandboxes import (
    AFTER_ITS_LINE,
    BEFORE_ITS_LINE,
    REGION,
    SHOP,
    TABLE,
    Answered,
    Site,
    StoryLines,
    Sums,
    answers_in,
    deployed,
    open_clients,
)
from tests.rehearsal.stored_items import Table

SPARK = ROOT / ".venvs/spark/bin/python"
JOB_S_MAX = 900
SEED = 8
CUTS = ("", "", "", BEFORE_ITS_LINE, AFTER_ITS_LINE, AFTER_ITS_LINE)
"""How sandboxes end: idle, or within their last call."""
LOSSES = ("nothing", "some", "the end", "the end", "everything")

SENDS = ("SendMessage", "SendMessageBatch")
COUNTED = ("requests", "units", "messages", "bytes")

Identity = tuple[str, int]


def within_a_month(minute: int) -> int:
    """A minute like this one, in a month that goes on for the length of the story."""
    months = {time.gmtime(60 * its).tm_mon for its in (minute, minute + 60)}
    return minute if len(months) == 1 else minute - 120


def run(job: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [str(SPARK), "-m", f"glue_jobs.{job}"]
    command += [f"--{name}={value}" for name, value in options.items()]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=JOB_S_MAX, check=False
    )


def deliver(site: Site, chance: random.Random) -> list[dict[str, Any]]:
    """Deliver the logs in parts, some of them twice, in any order; the answers that were lost."""
    parts: list[list[str]] = []
    lost: list[str] = []
    for number, stream in enumerate(site.streams):
        loss = LOSSES[number % len(LOSSES)]
        cut = [stream[at : at + 2] for at in range(0, len(stream), 2)]
        for at, part in enumerate(cut):
            gone = {
                "nothing": False,
                "some": chance.random() < 0.4,
                "the end": at >= len(cut) - 2,
                "everything": True,
            }[loss]
            if gone:
                lost += part
            else:
                parts += [part] * chance.choice((1, 1, 2))
    for part in chance.sample(parts, len(parts)):
        site.deliver(part)
    return answers_in(lost)


def answered(lines: list[dict[str, Any]]) -> Answered:
    return Counter((line["operation"], line["code"]) for line in lines)


def identity(line: dict[str, Any]) -> Identity:
    return line["writer"], line["number"]


def check_gaps(
    gaps: list[dict[str, Any]], lost: list[dict[str, Any]], unanswered: list[dict[str, Any]]
) -> tuple[int, int]:
    """All that was lost is in gaps, and nothing else: how much by numbers, and how much at ends.

    Not all that was lost and that nobody was told is.
    """
    ends = [gap for gap in gaps if gap["first"] and not gap["last"]]
    numbered = {
        (gap["writer"], n)
        for gap in gaps
        if gap["last"]
        for n in range(gap["first"], gap["last"] + 1)
    }
    assert numbered <= {identity(line) for line in lost}
    elsewhere = numbered | {identity(line) for line in unanswered}
    at_ends = [line for line in lost if identity(line) not in elsewhere]
    for line in at_ends:
        (end,) = [gap for gap in ends if gap["writer"] == line["writer"]]
        assert line["number"] >= end["first"]
        assert end["from_minute"] <= line["minute"] <= end["to_minute"]
    return len(numbered), len(at_ends)


def bill(place: Path, out: Path, **options: object) -> dict[str, Any]:
    """What the pointer says to the last run."""
    period = time.strftime("%Y-%m", time.gmtime(60 * StoryLines.minute))
    ran = run("bill", usage=place, out=out, period=period, **options)
    assert ran.returncode in {0, 1}, ran.stderr  # 1: gaps were found
    said: dict[str, Any] = json.loads(max((out / "runs").rglob("*.json")).read_bytes())
    return said


def billed(out: Path, run: str) -> tuple[Answered, Sums]:
    """Requests of a run's hourly usage, and what was sent."""
    requests: Answered = Counter()
    sends: Sums = Counter()
    for path in (out / "usage_hourly").rglob(f"run={run}/**/*.parquet"):
        for row in parquet.read_table(path, partitioning=None).to_pylist():
            requests[row["operation"], row["code"]] += row["requests"]
            if row["operation"] in SENDS and not row["code"]:
                for name in COUNTED:
                    sends[row["queue"], row["operation"], name] += row[name]
    return requests, +sends


def is_stored(line: dict[str, Any]) -> bool:
    """Whether a line is of a send that stored something."""
    return line["operation"] in SENDS and line["messages"] > 0


def of_repeats(lines: list[dict[str, Any]]) -> Sums:
    """What these lines say of sends that stored nothing."""
    sums: Sums = Counter()
    for line in lines:
        if line["operation"] in SENDS and not line["code"] and not line["messages"]:
            sums[line["queue"], line["operation"], "requests"] += 1
            sums[line["queue"], line["operation"], "units"] += line["units"]
    return sums


def check_derived(site: Site, place: Path, exports: Path, lost: list[dict[str, Any]]) -> int:
    """With exports sends are those of the clients' books; how many were derived.

    Reads, and sends that stored nothing, are short by what is told.
    """
    out = place.parent / "derived"
    lines = [line for stream in site.streams for line in answers_in(stream)]
    came = Counter(identity(line) for line in lines) - Counter(identity(line) for line in lost)
    said = bill(place, out, exports=exports)
    left = [line for line in lost if not is_stored(line)]
    check_gaps(said["gaps"], left, answers_in(site.unanswered))
    _, sends = billed(out, said["run"])
    assert sends == site.sends + of_repeats([line for line in lines if came[identity(line)]])
    # Those that were cut off before their lines have none that could be lost.
    derived = len([line for line in lost if is_stored(line)]) + site.without_line
    assert said["derived_sends"] == derived
    assert said["exports_told"] == []
    # Lines that come late, after all, add nothing to sends; again, nothing is written.
    site.deliver([json.dumps(line) for line in lost])
    site.fetch(place.parent)
    late = bill(place, out, exports=exports)
    assert not [gap for gap in late["gaps"] if gap["last"]]
    requests, sends = billed(out, late["run"])
    assert sends == site.sends + site.repeats
    assert late["derived_sends"] == site.without_line
    assert requests.total() == len(lines) + site.without_line
    assert bill(place, out, exports=exports) == late
    return derived


def check_access(report: dict[str, Any], known: Answered) -> None:
    """Who did what is told of all that is known, denials with who was denied."""
    found: Answered = Counter()
    denied = set()
    for row in report["access"]:
        found[row["operation"], row["code"]] += row["requests"]
        if row["denied"]:
            denied.add((row["operation"], row["code"], row["principal"], row["client"]))
    assert found == known
    user = f"arn:aws:iam::{SHOP}:user/ann"
    assert denied == {
        ("ReceiveMessage", "AccessDenied", user, "127.0.0.1"),
        ("SendMessage", "SignatureDoesNotMatch", "", "127.0.0.1"),
    }


def check_audit(place: Path, exports: Path, known: Answered, by_number: int) -> None:
    """The audit names what is missing, and nothing else is wrong."""
    out = place.parent / "audits"
    run("audit", usage=place, exports=exports, out=out)
    (path,) = out.rglob("report.json")
    report = json.loads(path.read_bytes())
    check_access(report, known)
    told: Counter[str] = Counter()
    for its in report["findings"]:
        told[its["kind"]] += its["count"]
    assert told["usage_gap"] == told["access_gap"] == by_number
    assert told["sandbox_ends"] == len(list((place / "writers").rglob("*.json")))
    errors = {its["kind"] for its in report["findings"] if its["severity"] == "error"}
    assert errors == {"usage_gap", "access_gap"}


@pytest.mark.xdist_group("spark")
def test_sends_of_functions_are_billed_and_reads_are_short_by_the_gaps_that_are_told(
    tmp_path: Path, record_property: Any
) -> None:
    if not SPARK.exists():
        pytest.skip(f"there is no Spark: {SPARK}")  # what installs it: `make rehearse`
    chance = random.Random(SEED)
    place, exports = tmp_path / "usage", tmp_path / "exports"
    StoryLines.minute = within_a_month(int(time.time()) // 60 - 60)
    with deployed() as site:
        clients = open_clients(site)
        for cut_off in chance.sample(CUTS * 2, len(CUTS) * 2):
            clients.live(site, chance, chance.randrange(3, 9), cut_off)
        lost = deliver(site, chance)
        site.fetch(tmp_path)
        Table(boto3.client("dynamodb", region_name=REGION), TABLE).export(exports)
        lines = [line for stream in site.streams for line in answers_in(stream)]
        # Each answer that a client got is a line; so is what was done before a sandbox's end.
        assert answered(lines) == site.told + site.untold
        known = site.told + site.untold - answered(lost)

        said = bill(place, tmp_path / "bills")
        by_number, at_ends = check_gaps(said["gaps"], lost, answers_in(site.unanswered))
        assert min(by_number, at_ends) > 0
        requests, _ = billed(tmp_path / "bills", said["run"])
        assert requests == known
        assert said["not_derived"]

        check_audit(place, exports, known, by_number)
        derived = check_derived(site, place, exports, lost)
    assert derived > site.without_line > 0
    says = f"{len(lost)} of {len(lines)} answers were lost, {at_ends} at ends; {derived} derived"
    record_property("says", says)
