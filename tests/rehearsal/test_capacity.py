"""The units that engines report are those that are counted from the sizes of items."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from data_plane.dynamodb.capacity import query_units
from data_plane.dynamodb.cell import DynamoCell
from data_plane.dynamodb.opening import connect
from data_plane.ports import Item
from data_plane.runtime.event_loop import ThreadedOffload
from tests.conformance.capacity_cell import CapacityCell
from tests.conformance.cost_table import CASES, Case, work
from tests.rehearsal.conftest import EngineUrl
from tests.unit.repeatable import HandClock

MESSAGES = 130
