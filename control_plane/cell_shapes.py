"""Shapes of the operations on cells, which SQS does not have: `sdk/` shows them to clients."""

from data_plane.protocol.shapes import BOOLEAN, INTEGER, STRING, ListOf, Structure

CELL = Structure(
    {
        "CellName": STRING,
        "Kind": STRING,
        "Address": STRING,
        "Inode": INTEGER,
        "State": STRING,
        "Health": STRING,
        "Reason": STRING,
        "HealthTimestamp": INTEGER,
        "LatencyMicroseconds": INTEGER,
        "LagMicroseconds": INTEGER,
        "UsedBytes": INTEGER,
        "Groups": INTEGER,
        "GroupsDecided": INTEGER,
        "GroupsJoining": INTEGER,
    }
)
_MEMBER = Structure({"CellName": STRING, "Incarnation": INTEGER, "State": STRING})
_GROUP = Structure(
    {
        "GroupName": STRING,
        "Epoch": INTEGER,
        "ReplicationFactor": INTEGER,
        "LagMicroseconds": INTEGER,
        "Members": ListOf(_MEMBER, "Member"),
        "QueueName": STRING,
        "ChosenCells": ListOf(STRING, "CellName"),
    }
)
LIST_CELLS_INPUT = Structure()
LIST_CELLS_OUTPUT = Structure(
    {
        "Cells": ListOf(CELL, "Cell"),
        "PlacementGroups": ListOf(_GROUP, "PlacementGroup"),
        "ManagerState": STRING,
        "ManagerWaits": ListOf(STRING, "ManagerWait"),
        "ManagerActivities": ListOf(STRING, "ManagerActivity"),
    }
)
ADD_CELL_INPUT = Structure({"Path": STRING}, required=("Path",))
ADD_CELL_OUTPUT = Structure({"CellName": STRING})
REMOVE_CELL_INPUT = Structure({"CellName": STRING, "LoseMessages": BOOLEAN}, required=("CellName",))
MOVE_QUEUE_INPUT = Structure(
    {"QueueName": STRING, "CellNames": ListOf(STRING, "CellName"), "AccountId": STRING},
    required=("QueueName", "CellNames"),
)
MOVE_QUEUE_OUTPUT = Structure({"GroupName": STRING})
CELL_INPUT = Structure({"CellName": STRING}, required=("CellName",))
