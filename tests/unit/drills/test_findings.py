from tests.drills.drill import Findings
from tests.drills.ledger import Ledger


def test_a_line_says_what_was_checked_and_that_nothing_is_wrong() -> None:
    ledger = Ledger("cell")
    ledger.tally.update({"sends": 1234, "deletes": 7})
    findings = Findings("kill", rounds=20, seconds=3.25, facts=["2 cells at once"])
    findings.add([ledger])
    assert findings.line() == (
        "kill: 20 rounds, 2 cells at once, 1,234 acknowledged sends and 7 deletes checked,"
        " lost 0, resurrected 0, 3.2 s"
    )


def test_a_line_counts_what_is_wrong() -> None:
    ledger = Ledger("cell")
    for kind in ("lost", "early", "lost"):
        ledger.accuse(kind, "evidence")
    findings = Findings("kill")
    findings.add([ledger])
    assert "lost 2, resurrected 0, early 1" in findings.line()


def test_a_skipped_drill_says_why() -> None:
    findings = Findings("power-cut", skipped="needs root and loop devices")
    assert findings.line() == "skipped: power-cut: needs root and loop devices"
