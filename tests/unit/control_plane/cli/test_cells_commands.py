"""`tidegate cells` against a client that notes what it was asked."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.control_plane.cli.test_account_commands import FakeClient, invoke

MEMBERS = [
    {"CellName": "cell-1", "Incarnation": 0, "State": "full"},
    {"CellName": "cell-2", "Incarnation": 4, "State": "joining"},
]
WHOLE = {"GroupName": "g1.00", "Epoch": 1, "ReplicationFactor": 1, "LagMicroseconds": 0}
LACKING = {"GroupName": "g2.00", "Epoch": 4, "ReplicationFactor": 2, "LagMicroseconds": 1500}


def cell(name: str, groups: int = 2, **more: Any) -> dict[str, Any]:
    counts = {"Groups": groups, "GroupsDecided": 1, "GroupsJoining": 0}
    told = {"Kind": "embedded", "Address": name, "State": "active", "Health": "available"}
    return {"CellName": name, **told, **counts, **more}


LISTED = {
    "Cells": [
        cell("cell-1", LatencyMicroseconds=900, LagMicroseconds=0, UsedBytes=40_960),
        cell(
            "cell-2", 1, Health="unavailable", GroupsJoining=1, Reason="an operator has failed it"
        ),
    ],
    "PlacementGroups": [
        {**WHOLE, "Members": MEMBERS[:1]},
        {**LACKING, "Members": MEMBERS},
    ],
    "ManagerActivities": ["copies g2.00 to cell-2"],
}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeClient:
    fake = FakeClient()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tidegate_sdk.client", lambda *_names, **_options: fake)
    return fake


def test_the_list(client: FakeClient) -> None:
    client.answers["tidegate_list_cells"] = LISTED
    assert invoke("cells", "list").output.splitlines() == [
        "CELL    STATE   HEALTH       GROUPS         DECIDES  LAG     LATENCY  USED   ADDRESS",
        "cell-1  active  available    2              1        0.0 ms  0.9 ms   41 KB  cell-1",
        "cell-2  active  unavailable  1 (1 joining)  1                                cell-2",
        "cell-2: an operator has failed it",
        "",
        "GROUP  EPOCH  COPIES  LAG     MEMBERS",
        "g2.00  4      1 of 2  1.5 ms  cell-1, cell-2 (joining)",
        "",
        "The cluster manager:",
        "  copies g2.00 to cell-2",
    ]
    assert "g1.00" in invoke("cells", "list", "--groups").output


def test_nothing_lacks(client: FakeClient) -> None:
    client.answers["tidegate_list_cells"] = {
        "Cells": [cell("cell-1")],
        "PlacementGroups": [{**WHOLE, "Members": MEMBERS[:1]}],
    }
    assert invoke("cells", "list").output.splitlines()[-1] == (
        "All 1 groups have all their copies."
    )


@pytest.mark.parametrize(
    ("command", "operation", "params", "said"),
    [
        (
            ("fail", "cell-1"),
            "fail_cell",
            {"CellName": "cell-1"},
            "cell-1 answers nothing any more.",
        ),
        (("restore", "cell-1"), "restore_cell", {"CellName": "cell-1"}, "cell-1 is back."),
        (("remove", "cell-1", "--yes"), "remove_cell", {"CellName": "cell-1"}, "Removed cell-1."),
        (
            ("remove", "cell-1", "--yes", "--lose-messages"),
            "remove_cell",
            {"CellName": "cell-1", "LoseMessages": True},
            "Removed cell-1.",
        ),
        (
            ("drain", "cell-1", "--no-wait"),
            "drain_cell",
            {"CellName": "cell-1"},
            "cell-1 is being drained.",
        ),
    ],
)
def test_what_is_asked(
    client: FakeClient, command: tuple[str, ...], operation: str, params: object, said: str
) -> None:
    result = invoke("cells", *command)
    assert result.output.splitlines() == [said]
    assert client.calls == [(operation, params)]


def test_a_cell_is_added(client: FakeClient) -> None:
    client.answers["tidegate_add_cell"] = {"CellName": "cell-4"}
    assert invoke("cells", "add", "/disks/4").output == "Added cell-4.\n"
    assert client.calls == [("add_cell", {"Path": "/disks/4"})]


def test_removal_is_confirmed(client: FakeClient) -> None:
    invoke("cells", "remove", "cell-1", answer="n\n")
    assert client.calls == []


def test_draining_tells_its_progress(client: FakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([2, 2, 1, 0])

    def listed(**_params: Any) -> Any:
        return {"Cells": [cell("cell-1", next(left))]}

    client.tidegate_list_cells = listed  # type: ignore[attr-defined]
    monkeypatch.setattr("control_plane.cli.cells.sleep", lambda _seconds: None)
    assert invoke("cells", "drain", "cell-1").output.splitlines() == [
        "cell-1 has 2 groups yet.",
        "cell-1 has 1 group yet.",
        "cell-1 has nothing any more: `tidegate cells remove cell-1` parts with it.",
    ]


def test_a_cell_that_is_not_there(client: FakeClient) -> None:
    client.answers["tidegate_list_cells"] = {"Cells": []}
    result = invoke("cells", "drain", "cell-9")
    assert (result.exit_code, result.output) == (1, "tidegate: There is no cell cell-9.\n")
