"""What tests of the command line share."""

import pytest

from control_plane.cli import serve as serve_module
from data_plane.settings import ServerSettings


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ServerSettings]:
    """What servers were started with; none is."""
    settings: list[ServerSettings] = []

    def run(given: ServerSettings) -> int:
        settings.append(given)
        return 0

    monkeypatch.setattr(serve_module, "run", run)
    return settings
