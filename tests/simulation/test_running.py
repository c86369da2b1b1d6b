"""Running many universes: what fails is named, and the others are run all the same."""

import pytest

from tests.simulation import __main__ as running
from tests.simulation.universe import Outcome


def test_a_universe_that_breaks_off_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = running.KINDS["standard"]

    def breaks_off(seed: int) -> Outcome:
        if seed == 1:
            raise KeyError("not there")
        return whole(seed)

    monkeypatch.setitem(running.KINDS, "standard", breaks_off)
    assert running._run_many("standard", range(3), 1, keep_going=True) == 1
    told = capsys.readouterr()
    assert "seed 1 breaks off:" in told.out
    assert "KeyError: 'not there'" in told.out
    assert "tests.simulation --kind standard --seed 1 --verbose" in told.out
    assert "standard: failed seeds: [1]" in told.out
    assert "standard: 3 seeds, 1 failed" in told.err
