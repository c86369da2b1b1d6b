"""`tidegate cells` against a client that notes what it was asked."""

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError, EndpointConnectionError

from tests.unit.control_plane.cli.test_account_commands import FakeClient, invoke

MEMBERS = [
    {"CellName": "cell-1", "Incarnation": 0, "State": "full"},
    {"CellName": "cell-2", "Incarnation": 4, "State": "joining"},
]
WHOLE = {"GroupName": "g1.00", "Epoch": 1, "ReplicationFactor": 1, "LagMicroseconds": 0}
LACKING = {"GroupName": "g2.00", "Epoch": 4, "ReplicationFactor": 2, "LagMicroseconds": 1500}


def cell(name: str, groups: int = 2, **more: Any) -> dict[str, Any]:
    counts = {"Groups": groups, "GroupsDecided": 1, "GroupsJoining": 0}
    told = {
        "Kind": "embedded",
        "Address": f"/a/{name[-1]}",
        "State": "active",
        "Health": "available",
    }
    return {"CellName": name, **told, **counts, **more}


HEADER = (
    "CELL    STATE   HEALTH       GROUPS         DECIDES  LAG     LATENCY  USED   INODE  ADDRESS"
)
LISTED = {
    "Cells": [
        cell("cell-1", LatencyMicroseconds=900, LagMicroseconds=0, UsedBytes=40_960, Inode=7),
        cell(
            "cell-2", 1, Health="unavailable", GroupsJoining=1, Reason="an operator has failed it"
        ),
    ],
    "PlacementGroups": [
        {**WHOLE, "Members": MEMBERS[:1]},
        {**LACKING, "Members": MEMBERS},
    ],
    "ManagerState": "waits",
    "ManagerWaits": ["cell-2 joins g2.00"],
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
        HEADER,
        "cell-1  active  available    2              1        0.0 ms  0.9 ms   41 KB  7      /a/1",
        "cell-2  active  unavailable  1 (1 joining)  1                                       /a/2",
        "cell-2: an operator has failed it",
        "",
        "GROUP  EPOCH  COPIES  LAG     MEMBERS",
        "g2.00  4      1 of 2  1.5 ms  cell-1, cell-2 (joining)",
        "",
        "The cluster manager: waits",
        "  waits: cell-2 joins g2.00",
        "  copies g2.00 to cell-2",
    ]
    assert "g1.00" in invoke("cells", "list", "--groups").output


def test_the_list_ends_with_what_was_done_last(client: FakeClient) -> None:
    done = [f"2026-11-27T00:00:{at:02}Z release cell-2 in g3.{at:02}: done" for at in range(20)]
    now = [f"at present: complete cell-3 in g2.0{at}" for at in range(4)]
    client.answers["tidegate_list_cells"] = {**LISTED, "ManagerActivities": [*now, *done]}
    ends = invoke("cells", "list").output.splitlines()[-9:]
    assert ends == [f"  {one}" for one in [*now, *done[:5]]]


def test_who_fails_one_of_two_cells_is_told_that_there_is_no_other(client: FakeClient) -> None:
    client.answers["tidegate_list_cells"] = LISTED
    said = invoke("cells", "fail", "cell-2").output
    assert "1 of 2 cells answer (cell-1): no further one may fail until `tidegate cells" in said
    three = [cell("cell-1"), cell("cell-2"), cell("cell-3")]
    client.answers["tidegate_list_cells"] = {"Cells": three}
    assert invoke("cells", "fail", "cell-2").output == "cell-2 answers nothing any more.\n"


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
    assert client.calls[0] == (operation, params)


def test_a_cell_is_added(client: FakeClient) -> None:
    client.answers["tidegate_add_cell"] = {"CellName": "cell-4"}
    assert invoke("cells", "add", "/disks/4").output == (
        "Added cell-4 at /disks/4. A start that has --cell-data needs it there, too.\n"
    )
    assert client.calls == [("add_cell", {"Path": "/disks/4"}), ("list_cells", {})]


def test_the_help_says_where_a_relative_directory_is(client: FakeClient) -> None:
    assert "does not begin with / lies in the server's --data" in " ".join(
        invoke("cells", "add", "--help").output.split()
    )
    assert client.calls == []


def test_removal_is_confirmed(client: FakeClient) -> None:
    client.answers["tidegate_list_cells"] = LISTED
    asked = invoke("cells", "remove", "cell-1", answer="n\n").output.splitlines()
    assert [name for name, _ in client.calls] == ["list_cells"]
    assert asked[:3] == [
        "cell-1 has 2 groups of queues, of 2 of them the only copy.",
        "Messages in what it alone has are lost: `tidegate cells drain cell-1` moves them.",
        "Remove cell-1 for good? [y/N]: n",
    ]
    lost = [cell("cell-1", Health="unavailable")]
    client.answers["tidegate_list_cells"] = {**LISTED, "Cells": lost}
    asked = invoke("cells", "remove", "cell-1", answer="n\n").output.splitlines()
    assert asked[1] == "Messages in what it alone has are lost."
    missing = invoke("cells", "remove", "cell-9", answer="y\n")
    assert (missing.exit_code, missing.output) == (1, "tidegate: There is no cell cell-9.\n")
    # The registry is no queue, and one of a queue's two copies may go.
    both = [{**one, "State": "full"} for one in MEMBERS]
    registry = {**WHOLE, "GroupName": "registry", "Members": MEMBERS[:1]}
    groups = [registry, {**LACKING, "Members": both}]
    client.answers["tidegate_list_cells"] = {**LISTED, "PlacementGroups": groups}
    asked = invoke("cells", "remove", "cell-1", answer="n\n").output.splitlines()
    assert asked[0] == "cell-1 has 1 group of queues, of none of them the only copy."
    said = invoke("cells", "fail", "cell-2").output.splitlines()
    assert "1 group of queues has one copy left." in said


def test_draining_tells_its_progress(client: FakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([2, 2, 1, 0])
    waits = ["cell-1 drains, and g2.00 cannot leave it: no", "cell-2 drains, too"]

    def listed(**_params: Any) -> Any:
        groups = next(left)
        return {
            "Cells": [cell("cell-1", groups)],
            **({"ManagerWaits": waits} if groups == 1 else {}),
        }

    client.tidegate_list_cells = listed  # type: ignore[attr-defined]
    monkeypatch.setattr("control_plane.cli.cells.sleep", lambda _seconds: None)
    assert invoke("cells", "drain", "cell-1").output.splitlines() == [
        "cell-1 has 2 groups yet.",
        "cell-1 has 1 group yet.",
        "  cell-1 drains, and g2.00 cannot leave it: no",
        "cell-1 has nothing any more: `tidegate cells remove cell-1` parts with it.",
    ]


def test_who_waits_for_a_drain_is_told_that_it_goes_on_without_the_server(
    client: FakeClient,
) -> None:
    closed = ConnectionClosedError(endpoint_url="http://a")
    for error in (EndpointConnectionError(endpoint_url="http://a", error="refused"), closed):
        client.answers["tidegate_list_cells"] = error
        ended = invoke("cells", "drain", "cell-1")
        assert ended.exit_code == 1
        assert ended.output.endswith(" (cell-1 is drained further once a server is back)\n")
        assert "drained" not in invoke("cells", "list").output


def test_moving_a_queue_tells_its_progress(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {**LACKING, "GroupName": "g1.00.0123456789abcdef", "ReplicationFactor": 1}
    own |= {"QueueName": "hot", "ChosenCells": ["cell-2"]}
    first, second = MEMBERS
    shown = iter([[first], [first], [first, second], [{**second, "State": "full"}]])
    waits = ["g1.00.0123456789abcdef is to move to cell-2: cell-2 is full", "cell-1 is down"]

    def listed(**_params: Any) -> Any:
        groups = [{**WHOLE, "Members": [first]}, {**own, "Members": next(shown)}]
        return {"PlacementGroups": groups, "ManagerWaits": waits}

    client.answers["tidegate_move_queue"] = {"GroupName": own["GroupName"]}
    client.tidegate_list_cells = listed  # type: ignore[attr-defined]
    monkeypatch.setattr("control_plane.cli.cells.sleep", lambda _seconds: None)
    moved = invoke("cells", "move-queue", "hot", "--to", "cell-2, cell-3", "--account", "1" * 12)
    assert moved.output.splitlines() == [
        "hot lies in cell-1.",
        "  g1.00.0123456789abcdef is to move to cell-2: cell-2 is full",
        "hot lies in cell-1, cell-2 (joining).",
        "  g1.00.0123456789abcdef is to move to cell-2: cell-2 is full",
        "hot has moved.",
    ]
    asked = {"QueueName": "hot", "CellNames": ["cell-2", "cell-3"], "AccountId": "1" * 12}
    assert client.calls == [("move_queue", asked)]
    left = invoke("cells", "move-queue", "hot", "--to", "cell-2", "--no-wait")
    assert left.output == "hot is being moved, as g1.00.0123456789abcdef.\n"
    client.tidegate_list_cells = dict  # type: ignore[attr-defined]
    gone = invoke("cells", "move-queue", "hot", "--to", "cell-2")
    assert (gone.exit_code, "was deleted" in gone.output) == (1, True)


def test_a_cell_that_is_not_there(client: FakeClient) -> None:
    client.answers["tidegate_list_cells"] = {"Cells": []}
    result = invoke("cells", "drain", "cell-9")
    assert (result.exit_code, result.output) == (1, "tidegate: There is no cell cell-9.\n")


@pytest.mark.parametrize("command", ["add", "drain", "remove", "fail", "restore", "move-queue"])
def test_an_empty_name_is_refused(client: FakeClient, command: str) -> None:
    result = invoke("cells", command, "")
    assert (result.exit_code, client.calls) == (2, [])
    assert "': it is empty" in result.output
