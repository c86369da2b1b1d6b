from tests.benchmarks.profile_server import SAMPLES_HZ, shares


def test_shares_are_of_the_time_and_lines_of_a_function_are_added() -> None:
    half = SAMPLES_HZ // 2
    stacks = (
        f"main (a.py:1);work (b.py:2) {half // 2}\nmain (a.py:1);work (b.py:9) {half - half // 2}\n"
    )
    text = shares(stacks, seconds=1)
    assert "held 50% of the time" in text
    assert "  50.0%   50.0%  work (b.py)" in text
    assert "   0.0%   50.0%  main (a.py)" in text


def test_a_recursive_function_counts_once() -> None:
    text = shares(f"f (a.py:1);f (a.py:1) {SAMPLES_HZ}\n", seconds=1)
    assert " 100.0%  100.0%  f (a.py)" in text
