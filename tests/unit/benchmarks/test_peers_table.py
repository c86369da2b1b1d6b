import math
from dataclasses import replace

import pytest

from tests.benchmarks.latency import Latency
from tests.benchmarks.peers.table import Comparison, aims, markdown, ratio_text, text
from tests.benchmarks.report import Row

LABELS = {"Tidegate": "Tidegate 1, on disk", "fauxqs": "fauxqs 2, in memory"}


def row(name: str, messages_hz: float) -> Row:
    calls = 9 if messages_hz > 0 else 0
    latency = Latency(calls, 1, 2, 3, 4)
    return Row(name, 64, messages_hz, messages_hz, latency, 50, 0.1, 0.2, 20_000)


def comparison(ours: float, theirs: float, work: str = "send", connections: int = 64) -> Comparison:
    rows = {"Tidegate": row("Tidegate", ours), "fauxqs": row("fauxqs", theirs)}
    return Comparison(work, connections, rows)


def test_a_ratio_is_ours_to_theirs() -> None:
    assert comparison(3000, 1000).ratio("fauxqs") == 3
    assert comparison(1000, 3000).ratio("fauxqs") == pytest.approx(1 / 3)


@pytest.mark.parametrize("nothing", [0.0, math.nan])
def test_there_is_no_ratio_to_nothing(nothing: float) -> None:
    compared = comparison(3000, nothing)
    assert math.isnan(compared.ratio("fauxqs"))
    assert "| send | 64 | 3,000 | none |" in markdown([compared], LABELS)


def test_who_finished_nothing_is_shown_with_the_time_of_what_it_was_at() -> None:
    compared = comparison(3000, 0)
    slow = replace(compared.rows["fauxqs"], latency=Latency.of([4.36]))
    compared = replace(compared, rows={**compared.rows, "fauxqs": slow})
    assert "| 3,000 | none, a call took 4.4 s |" in markdown([compared], LABELS)


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(0.0312, "0.031x"), (0.98, "0.98x"), (2.04, "2.0x"), (99.94, "99.9x"), (1234.5, "1,234x")],
)
def test_ratios_keep_the_digits_that_matter(ratio: float, expected: str) -> None:
    assert ratio_text(ratio) == expected


def test_the_table_has_a_column_for_each_and_a_row_for_each_work() -> None:
    table = markdown([comparison(3000, 1000), comparison(500, 1000, "receive", 1)], LABELS)
    assert table.splitlines() == [
        "| work | connections | Tidegate 1, on disk | fauxqs 2, in memory |",
        "|---|---|---|---|",
        "| send | 64 | 3,000 | 1,000 (3.0x) |",
        "| receive | 1 | 500 | 1,000 (0.5x) |",
    ]


def test_who_could_not_take_the_whole_backlog_is_shown_with_what_it_took() -> None:
    compared = replace(comparison(3000, 10), waiting={"Tidegate": 100_000, "fauxqs": 2_500})
    cells = "| 3,000, 100,000 waiting | 10 (300x), 2,500 waiting |"
    assert cells in markdown([compared], LABELS)
    assert "2,500 messages were waiting" in text(compared, LABELS)


def test_a_backlog_that_is_the_same_for_all_is_not_repeated() -> None:
    compared = replace(comparison(3000, 10), waiting={"Tidegate": 9, "fauxqs": 9})
    assert "waiting" not in markdown([compared], LABELS)


def test_who_could_not_begin_has_no_backlog() -> None:
    compared = replace(comparison(3000, math.nan), waiting={"Tidegate": 9})
    assert "9 messages were waiting" in text(compared, LABELS)
    assert "| 3,000 | none |" in markdown([compared], LABELS)


def test_errors_are_shown_in_both() -> None:
    compared = comparison(3000, 1000)
    broken = replace(compared.rows["fauxqs"], errors={"InternalFailure": 2, "cut": 1})
    compared = replace(compared, rows={**compared.rows, "fauxqs": broken})
    assert "1,000 (3.0x), 3 errors" in markdown([compared], LABELS)
    assert "2 errors: InternalFailure" in text(compared, LABELS)


def test_the_text_shows_what_the_generator_could_do() -> None:
    assert "ceiling: 20,000 calls/s" in text(comparison(3000, 1000), LABELS)


@pytest.mark.parametrize(("ours", "verdict"), [(2000, "met"), (1990, "MISSED")])
def test_the_aim(ours: float, verdict: str) -> None:
    (said,) = aims([comparison(9, 9, connections=1), comparison(ours, 1000)])
    assert verdict in said


def test_without_its_row_nothing_is_said_of_the_aim() -> None:
    assert aims([comparison(2000, 1000, connections=1)]) == []
