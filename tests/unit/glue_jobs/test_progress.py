"""Progress says the share that is done, and what is left at the pace so far."""

from glue_jobs.progress import Progress, duration

STEPS = {"reading": 60, "looking": 20, "writing": 20}


def test_shares_never_go_back_and_tell_what_is_left() -> None:
    lines: list[str] = []
    now_s = 0.0
    progress = Progress("bill", lines.append, STEPS, lambda: now_s)
    progress.step("reading records")
    now_s = 30.0
    progress.within(1, 2)
    now_s = 60.0
    progress.step("writing invoices")  # There was nothing to look at.
    now_s = 80.0
    progress.step("reading again")
    now_s = 81.0
    progress.done("3 invoices")
    assert lines == [
        "bill: reading records",
        "bill:   1 of 2 tasks (30% done, about 1 min left)",
        "bill: writing invoices (80% done, about 15 s left)",
        "bill: reading again (80% done, about 20 s left)",
        "bill:   3 invoices (1.0 s)",
    ]


def test_a_job_without_shares_says_its_steps_alone() -> None:
    lines: list[str] = []
    Progress("audit", lines.append).step("reading exports")
    assert lines == ["audit: reading exports"]


def test_durations_have_one_unit() -> None:
    assert [duration(s) for s in (0.1, 59, 61, 3599, 5400)] == [
        *("1 s", "59 s", "1 min", "60 min", "1.5 h")
    ]
