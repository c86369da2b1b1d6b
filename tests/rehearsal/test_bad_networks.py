"""A server whose way to DynamoDB fails, and its clients: what they were told stays true.

`make rehearse SEEDS=n` looks further than the few seeds of each change.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from tests.integration.server_process import ServerProcess
from tests.rehearsal.conftest import EngineUrl
from tests.rehearsal.fault_proxy import FaultProxy, fault_proxy
from tests.rehearsal.faults import Fault, Storm
from tests.rehearsal.servers import internal_failures, serving
from tests.rehearsal.storms import CELL_DEADLINE_S, storm_over

STORMS: Final = {
    "refusals": (Fault.THROTTLED, Fault.LIMITED, Fault.FAILED, Fault.UNAVAILABLE),
    "breaks": (Fault.REFUSED, Fault.LOST, Fault.CUT, Fault.FAILED_AFTERWARDS),
    "damage": (Fault.SHORTENED, Fault.DAMAGED, Fault.EMPTIED),
    "silence": (Fault.SWALLOWED, Fault.SLOW, Fault.LATE),
    "echoes": (Fault.REPEATED, Fault.LATE, Fault.LOST),
    "everything": tuple(Fault),
}
SHARE: Final = 0.3
SEEDS_AT_ONCE: Final = 4


class Scene(NamedTuple):
    """A server, and the bad network behind it."""

    server: ServerProcess
    proxy: FaultProxy


@pytest.fixture(scope="module")
def scene(engine_url: EngineUrl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("storms")
    options = ("--cell-deadline", str(CELL_DEADLINE_S))
    with (
        fault_proxy(engine_url("ministack")) as proxy,
        serving(proxy.url, folder, *options) as server,
    ):
        yield Scene(server, proxy)


@pytest.mark.parametrize("kind", STORMS)
def test_nothing_that_was_told_is_untrue(scene: Scene, kind: str, seeds: int) -> None:
    for first in range(0, seeds, SEEDS_AT_ONCE):
        chosen = range(first, min(seeds, first + SEEDS_AT_ONCE))
        storm = Storm(first, STORMS[kind], SHARE, gusts=True)
        aftermath = storm_over(scene.server.url, scene.proxy, storm, chosen)
        assert aftermath.wrong == []
    assert internal_failures(scene.server) == []
