"""The ways that a tired operator takes, by the lines that name them."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.benchmarks.server_process import ServerError, ServerProcess
from tests.drills.operated import Operated, Start, StuckError, commands, way_out

SEVERAL = "tidegate: cells: /data has 3 cells: --cells 3"
LOST = "tidegate: cells: registry: without cell-1 1 of 3 copies would stay: --give-up cell-1,cell-2"
ANEW = "tidegate: no cell of this service can be read; begin with an empty store: --begin-anew"


@pytest.mark.parametrize(
    ("line", "asked", "instead"),
    [
        (SEVERAL, Start(1), Start()),
        (SEVERAL, Start(), None),
        (LOST, Start(), Start(given_up="cell-1,cell-2")),
        (LOST, Start(given_up="cell-1,cell-2"), None),
        ("cell-1 is current: start without --give-up", Start(given_up="cell-1"), Start()),
        (ANEW, Start(), None),
        ("cells: without cell-1 1 of 3 copies would stay", Start(), None),
    ],
)
def test_a_start_that_is_refused_is_tried_as_the_line_says(
    line: str, asked: Start, instead: Start | None
) -> None:
    assert way_out(line, asked) == instead


def test_how_a_server_is_started() -> None:
    assert Start(4, "cell-2").options() == ("--cells", "4", "--give-up", "cell-2")


class SlowServer(ServerProcess):
    """Its first starts are not over when nobody waits any more."""

    slow = 1
    killed = 0
    options_seen: tuple[tuple[str, ...], ...] = ()

    def start(self) -> None:
        self.options_seen = (*self.options_seen, tuple(self.options))
        self.process = Mock(poll=lambda: None)
        if len(self.options_seen) <= self.slow:
            raise ServerError("the server did not start")

    def kill(self) -> float:
        self.killed += 1
        return 0.0


@pytest.mark.parametrize("slow", [1, 9])
def test_a_start_that_takes_long_is_no_refusal(tmp_path: Path, slow: int) -> None:
    server = SlowServer(tmp_path, tmp_path / "log", port=1)
    server.slow = slow
    site = Operated([server], 3, data=tmp_path, notes=tmp_path / "notes")
    if slow == 1:
        site.start(Start(given_up="cell-1"))
        assert server.options_seen == (Start(given_up="cell-1").options(),) * 2
        assert server.killed == 1
    else:
        with pytest.raises(StuckError, match="no start was over in time"):
            site.start()
        assert server.killed == len(server.options_seen)


def told(*waits: str, **cell: Any) -> dict[str, Any]:
    return {
        "Cells": [{"CellName": "cell-1", "State": "active", **cell}],
        "ManagerWaits": list(waits),
    }


@pytest.mark.parametrize(
    ("seen", "lost", "done"),
    [
        (told("all is well"), set(), []),
        (
            told(
                "cell-2 is down: `tidegate cells restore cell-2` brings it back; if it is lost,"
                " `tidegate cells remove cell-2`",
                "g3.00: cell-2 has failed (`tidegate cells restore cell-2`); `tidegate cells add`",
            ),
            set(),
            [("restore", "cell-2")],
        ),
        (told("cell-2 drains: `tidegate cells add` gives them another cell"), set(), [("add", "")]),
        (told("if you know it: `tidegate cells fail cell-1`"), set(), []),
        (
            told("if you know it: `tidegate cells fail cell-1`"),
            {"cell-1"},
            [("fail", "cell-1")],
        ),
        (
            told(Reason="gone; put it back, or `tidegate cells restore cell-1` goes on"),
            set(),
            [("restore", "cell-1")],
        ),
        (told(State="failed", Reason="an operator has failed it"), set(), [("restore", "cell-1")]),
    ],
)
def test_of_each_line_the_first_command_is_done(
    seen: dict[str, Any], lost: set[str], done: list[tuple[str, str]]
) -> None:
    assert list(commands(seen, lost)) == done
