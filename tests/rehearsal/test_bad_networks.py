"""Servers whose way to DynamoDB fails, and their clients: what those were told stays true.

`make rehearse SEEDS=n` looks further than the few seeds of each change.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.rehearsal.conftest import EngineUrl
from tests.rehearsal.fault_proxy import fault_proxy
from tests.rehearsal.faults import Fault, Storm
from tests.rehearsal.servers import internal_failures, serving
from tests.rehearsal.storms import CELL_DEADLINE_S, Scene, storm_over

STORMS: Final = {
    "refusals": (Fault.THROTTLED, Fault.LIMITED, Fault.FAILED, Fault.UNAVAILABLE),
    "breaks": (Fault.REFUSED, Fault.LOST, Fault.CUT, Fault.FAILED_AFTERWARDS),
    "damage": (Fault.SHORTENED, Fault.DAMAGED, Fault.EMPTIED),
    "silence": (Fault.SWALLOWED, Fault.SLOW, Fault.LATE),
    "echoes": (Fault.REPEATED, Fault.LATE, Fault.LOST),
    "everything": tuple(Fault),
}
SERVERS: Final = 2
SHARE: Final = 0.3
SEEDS_AT_ONCE: Final = 4

PLANTED_SHARE: Final = 0.55
PLANTED_REQUESTS: Final = 500
PLANTED_PATIENCE_S: Final = 5.0
PLANTED_STORMS_MAX: Final = 4
"""Real processes do not repeat themselves: a bug that one storm misses, another one finds."""

REPEATING_S: Final = 1.0
AT_ONCE_S: Final = 0.1
"""Deadlines of cells: with requests repeated, and with hardly any."""


@pytest.fixture(scope="module")
def scene(engine_url: EngineUrl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("storms")
    options = ("--cell-deadline", str(CELL_DEADLINE_S))
    with (
        fault_proxy(engine_url("ministack")) as proxy,
        serving(proxy.url, folder, *options, count=SERVERS) as servers,
    ):
        yield Scene(servers, proxy)


PLANTED: Final = {
    "take damage for absence": ("damage", AT_ONCE_S, {"failure", "lost"}),
    "repeat appends under new keys": ("breaks", REPEATING_S, {"receive counts", "undeleted"}),
    "believe in sends": ("refusals", AT_ONCE_S, {"lost"}),
    "believe in deletes": ("refusals", AT_ONCE_S, {"undeleted"}),
    "believe in leases": ("refusals", AT_ONCE_S, {"receive counts", "lost"}),
    "tell what happened": ("breaks", AT_ONCE_S, {"failure"}),
}
"""In which storm a planted bug is found, by servers with which deadline, and as what."""


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_found(bug: str, engine_url: EngineUrl, tmp_path: Path) -> None:
    kind, deadline_s, expected = PLANTED[bug]
    options = ("--cell-deadline", str(deadline_s))
    program = ("-m", "tests.rehearsal.planted", bug)
    with (
        fault_proxy(engine_url("ministack")) as proxy,
        serving(proxy.url, tmp_path, *options, count=SERVERS, program=program) as servers,
    ):
        wrong: list[str] = []
        for number in range(PLANTED_STORMS_MAX):
            first = number * SEEDS_AT_ONCE
            wrong += storm_over(
                Scene(servers, proxy),
                Storm(number + 1, STORMS[kind], PLANTED_SHARE),
                range(first, first + SEEDS_AT_ONCE),
                requests_min=PLANTED_REQUESTS,
                patience_s=PLANTED_PATIENCE_S,
            ).wrong
            if expected & _names_of(wrong):
                return
    pytest.fail(f"{PLANTED_STORMS_MAX} storms do not show it, only {wrong}")


def _names_of(violations: list[str]) -> set[str]:
    return {line.split(": ")[1] for line in violations}


@pytest.mark.parametrize("kind", STORMS)
def test_nothing_that_was_told_is_untrue(scene: Scene, kind: str, seeds: int) -> None:
    for first in range(0, seeds, SEEDS_AT_ONCE):
        chosen = range(first, min(seeds, first + SEEDS_AT_ONCE))
        storm = Storm(first, STORMS[kind], SHARE, gusts=True)
        aftermath = storm_over(scene, storm, chosen)
        print(storm, aftermath)
        assert aftermath.wrong == []
    assert [internal_failures(server) for server in scene.servers] == [[]] * SERVERS
