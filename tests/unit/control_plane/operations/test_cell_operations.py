"""Operations on cells: who may ask, what is asked, what is shown."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from control_plane.operations.administration import Administration
from control_plane.operations.cell_administration import CellAdministration
from control_plane.operations.cell_catalog import cell_operations
from control_plane.places.items import CellRecord, CellSeen
from control_plane.places.report import (
    CellCommandError,
    CellsReport,
    ToldCell,
    ToldGroup,
    ToldManager,
)
from control_plane.places.stored import StalePlanError
from data_plane.core.caller import Caller
from data_plane.core.errors import RefusedError
from data_plane.ports import CellUnavailableError
from data_plane.protocol.operation import Call, Params
from data_plane.replication.placement import Member, Placement

OPERATOR = "000000000000"
ROOT = Caller(OPERATOR, "", "", "AKIA")
GROUP = Placement("g2.00", 3, (Member("a"), Member("b", 3, full=False)))


@dataclass
class FakeCells:
    """Notes what is asked; refuses what has a reason."""

    asked: list[tuple[str, str]] = field(default_factory=list)
    reason: str = ""
    overtaken: int = 0
    """How often the manager is faster."""

    async def report(self) -> CellsReport:
        a = CellRecord("a", "embedded", {"path": "cell-1"}, "active", 1, 1)
        b = CellRecord("b", "dynamodb", {"table": "t", "region": "r"}, state="draining")
        seen = CellSeen(
            answers=True, since_us=7_000_000, latency_us=900, used_bytes=4096, full=True, lag_us=5
        )
        cells = (
            ToldCell(a, seen, 2, 1, 0, where="/data/cell-2", inode=77),
            ToldCell(b, None, 1, 0, 1, "an operator has failed it"),
        )
        manager = ToldManager("waits", ("b joins g2.00",), ("copies g2.00 to b",))
        return CellsReport(cells, (ToldGroup(GROUP, 2, 1500),), manager)

    async def add(self, path: str) -> str:
        await self._ask("add", path)
        return "cell-4"

    async def drain(self, name: str) -> None:
        await self._ask("drain", name)

    async def remove(self, name: str, *, lose_messages: bool = False) -> None:
        await self._ask("remove with all" if lose_messages else "remove", name)

    async def fail(self, name: str) -> None:
        await self._ask("fail", name)

    async def restore(self, name: str) -> None:
        await self._ask("restore", name)

    async def move_queue(self, place: str, uid: str, cells: Sequence[str]) -> str:
        await self._ask(f"move {place} {uid}", ",".join(cells))
        return f"{place}.{uid}"

    async def _ask(self, what: str, which: str) -> None:
        if self.reason:
            raise CellCommandError(self.reason)
        if self.overtaken:
            self.overtaken -= 1
            raise StalePlanError(GROUP, 2)
        self.asked.append((what, which))


class OneQueue:
    """A registry with the queue "hot"."""

    async def read(self, account: str, region: str, name: str) -> object | None:
        assert (account, region) == (OPERATOR, "us-east-1")
        return SimpleNamespace(cell="g2.05", uid="1" * 16, stream_uid="") if name == "hot" else None


class Site:
    def __init__(self, cells: FakeCells | None) -> None:
        self.acts: list[dict[str, object]] = []

        def record(event: str, **fields: object) -> None:
            self.acts.append({"event": event, **fields})

        administration = Administration(None, OPERATOR, checked=True, record=record)  # type: ignore[arg-type]
        operations = cell_operations(CellAdministration(administration, cells), OneQueue())  # type: ignore[arg-type]
        self.operations = {operation.name: operation for operation in operations}

    def call(
        self, act: str, params: dict[str, Any] | None = None, caller: Caller | None = ROOT
    ) -> Params:
        given = params or {}
        call = Call("r", OPERATOR, "us-east-1", "http://x", 1, given, None, caller=caller)

        async def perform() -> Params:
            return await self.operations[act].perform(call)

        return asyncio.run(perform())


def refusal(site: Site, act: str, params: dict[str, Any], caller: Caller | None = ROOT) -> str:
    with pytest.raises(RefusedError) as refused:
        site.call(act, params, caller)
    return f"{refused.value.fault.code}: {refused.value.message}"


ACTS = [
    ("TidegateAddCell", {"Path": "/disk"}, ("add", "/disk")),
    ("TidegateDrainCell", {"CellName": "a"}, ("drain", "a")),
    ("TidegateRemoveCell", {"CellName": "a"}, ("remove", "a")),
    ("TidegateRemoveCell", {"CellName": "a", "LoseMessages": True}, ("remove with all", "a")),
    ("TidegateFailCell", {"CellName": "a"}, ("fail", "a")),
    ("TidegateRestoreCell", {"CellName": "a"}, ("restore", "a")),
    (
        "TidegateMoveQueue",
        {"QueueName": "hot", "CellNames": ["a"]},
        ("move g2.05 1111111111111111", "a"),
    ),
]


@pytest.mark.parametrize(("act", "params", "asked"), ACTS)
def test_the_operator_may_ask_and_it_is_noted(
    act: str, params: dict[str, Any], asked: tuple[str, str]
) -> None:
    cells = FakeCells()
    site = Site(cells)
    site.call(act, params)
    assert cells.asked == [asked]
    assert [(noted["act"], noted["cell"]) for noted in site.acts] == [
        (act, "cell-4" if act == "TidegateAddCell" else "a")
    ]


@pytest.mark.parametrize(("act", "params", "_asked"), [*ACTS, ("TidegateListCells", {}, ())])
def test_nobody_else_may(act: str, params: dict[str, str], _asked: object) -> None:
    cells = FakeCells()
    site = Site(cells)
    user = Caller(OPERATOR, "somebody", "", "AKIB", (), "AIDA")
    for caller in (user, Caller("1" * 12, "", "", "AKIC"), None):
        assert refusal(site, act, params, caller).startswith("AccessDenied: ")
    assert cells.asked == []
    assert site.acts == []


@pytest.mark.parametrize(("act", "params", "_asked"), [*ACTS, ("TidegateListCells", {}, ())])
def test_a_service_with_one_cell_has_none_to_administer(
    act: str, params: dict[str, str], _asked: object
) -> None:
    assert refusal(Site(None), act, params) == (
        "AWS.SimpleQueueService.UnsupportedOperation: This service has one cell."
    )


def test_what_cannot_be_done_is_said() -> None:
    site = Site(FakeCells(reason="there is no cell a"))
    found = refusal(site, "TidegateFailCell", {"CellName": "a"})
    assert found == "InvalidParameterValue: there is no cell a."
    assert site.acts == []
    found = refusal(Site(FakeCells()), "TidegateAddCell", {"Path": "a\nb"})
    assert found == "InvalidParameterValue: Path is no directory's name."


def test_a_queue_that_is_moved_has_to_be_there() -> None:
    cells = FakeCells()
    found = refusal(Site(cells), "TidegateMoveQueue", {"QueueName": "none", "CellNames": ["a"]})
    assert found.startswith("AWS.SimpleQueueService.NonExistentQueue: ")
    assert cells.asked == []
    moved = Site(cells).call("TidegateMoveQueue", {"QueueName": "hot", "CellNames": ["a", "b"]})
    assert moved == {"GroupName": "g2.05.1111111111111111"}


def test_where_the_manager_is_faster_it_is_done_by_what_is_then() -> None:
    cells = FakeCells(overtaken=3)
    Site(cells).call("TidegateRestoreCell", {"CellName": "a"})
    assert cells.asked == [("restore", "a")]
    with pytest.raises(CellUnavailableError, match="others change the same groups"):
        Site(FakeCells(overtaken=999)).call("TidegateRestoreCell", {"CellName": "a"})


def test_what_is_shown() -> None:
    assert Site(FakeCells()).call("TidegateListCells") == {
        "Cells": [
            {
                "CellName": "a",
                "Kind": "embedded",
                "Address": "/data/cell-2",
                "Inode": 77,
                "State": "active",
                "Health": "full",
                "HealthTimestamp": 7,
                "LatencyMicroseconds": 900,
                "LagMicroseconds": 5,
                "UsedBytes": 4096,
                "Groups": 2,
                "GroupsDecided": 1,
                "GroupsJoining": 0,
            },
            {
                "CellName": "b",
                "Kind": "dynamodb",
                "Address": '{"region": "r", "table": "t"}',
                "State": "draining",
                "Health": "unknown",
                "Reason": "an operator has failed it",
                "Groups": 1,
                "GroupsDecided": 0,
                "GroupsJoining": 1,
            },
        ],
        "PlacementGroups": [
            {
                "GroupName": "g2.00",
                "Epoch": 3,
                "ReplicationFactor": 2,
                "LagMicroseconds": 1500,
                "Members": [
                    {"CellName": "a", "Incarnation": 0, "State": "full"},
                    {"CellName": "b", "Incarnation": 3, "State": "joining"},
                ],
            }
        ],
        "ManagerState": "waits",
        "ManagerWaits": ["b joins g2.00"],
        "ManagerActivities": ["copies g2.00 to b"],
    }
