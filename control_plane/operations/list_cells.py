"""TidegateListCells: cells, where copies lie, what they are behind, what the manager does."""

import json
from typing import Final

from control_plane.cell_shapes import LIST_CELLS_INPUT, LIST_CELLS_OUTPUT
from control_plane.operations.cell_administration import CellAdministration
from control_plane.places.report import ToldCell, ToldGroup
from data_plane.protocol.operation import Call, Operation, Params

NAME: Final = "TidegateListCells"

_US_PER_S: Final = 1_000_000


def list_cells(cells: CellAdministration) -> Operation:
    """For the operator."""

    async def perform(call: Call) -> Params:
        report = await cells.ask(call, NAME, lambda control: control.report())
        output: dict[str, object] = {
            "Cells": [_rendered_cell(cell) for cell in report.cells],
            "PlacementGroups": [_rendered_group(group) for group in report.groups],
        }
        output["ManagerState"] = report.manager.state
        if report.manager.waits:
            output["ManagerWaits"] = list(report.manager.waits)
        if report.manager.activities:
            output["ManagerActivities"] = list(report.manager.activities)
        return output

    return Operation(NAME, LIST_CELLS_INPUT, LIST_CELLS_OUTPUT, perform, on_queue=False)


def _rendered_cell(cell: ToldCell) -> Params:
    record, seen = cell.record, cell.seen
    stored = record.address.get("path") or json.dumps(dict(record.address), sort_keys=True)
    shown: dict[str, object] = {
        "CellName": record.name,
        "Kind": record.kind,
        "Address": cell.where or stored,
        "State": record.state,
        "Health": "unknown",
        "Groups": cell.groups,
        "GroupsDecided": cell.heads,
        "GroupsJoining": cell.joining,
    }
    if cell.inode:
        shown["Inode"] = cell.inode
    if cell.failed:
        shown["Reason"] = cell.failed
    if seen is not None:
        health = "available" if seen.answers else "unavailable"
        shown |= {
            "Health": "full" if seen.answers and seen.full else health,
            "HealthTimestamp": seen.since_us // _US_PER_S,
            "LatencyMicroseconds": seen.latency_us,
            "LagMicroseconds": seen.lag_us,
            "UsedBytes": seen.used_bytes,
        }
    return shown


def _rendered_group(group: ToldGroup) -> Params:
    placement = group.placement
    shown: dict[str, object] = {
        "GroupName": placement.group,
        "Epoch": placement.epoch,
        "ReplicationFactor": group.factor,
        "LagMicroseconds": group.lag_us,
        "Members": [
            {
                "CellName": member.cell,
                "Incarnation": member.incarnation,
                "State": "full" if member.full else "joining",
            }
            for member in placement.members
        ],
    }
    if group.queue:
        shown["QueueName"] = group.queue
    if group.chosen:
        shown["ChosenCells"] = list(group.chosen)
    return shown
