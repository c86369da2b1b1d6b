"""How many copies a queue has, and which of them acknowledge: fixed when it is created."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from control_plane.core.definition import Definition
from control_plane.core.stream_definition import StreamDefinition
from control_plane.places.groups import place_of
from control_plane.registry import Registry
from tests.unit.control_plane.conftest import ControlPlane, refusal
from tests.unit.repeatable import SECRET

FACTOR, ACKNOWLEDGEMENT = "TidegateReplicationFactor", "TidegateReplicationAcknowledgement"


class Groups:
    """Three cells to place queues in; notes which were placed."""

    def __init__(self) -> None:
        self.placed_names: list[str] = []
        self.gone_places: list[str] = []

    def place(self, uid: str, attributes: Mapping[str, str]) -> str:
        return place_of(uid, attributes, 3)

    async def placed(self, definition: Definition | StreamDefinition) -> None:
        self.placed_names.append(definition.name)

    async def gone(self, _uid: str, place: str) -> None:
        self.gone_places.append(place)


class ThreeCells(ControlPlane):
    def __init__(self) -> None:
        self.groups = Groups()
        super().__init__(sixty_second_rules=False)

    def server(self, *, sixty_second_rules: bool = True, secret: bytes = SECRET) -> Registry:
        return Registry(
            self.cell,
            ["a"],
            self.clock,
            self.entropy,
            sixty_second_rules=sixty_second_rules,
            secret=secret,
            placing=self.groups,
        )


@pytest.fixture
def three() -> ThreeCells:
    return ThreeCells()


def create(control: ControlPlane, name: str = "orders", **attributes: str) -> str:
    control.call("CreateQueue", QueueName=name, Attributes=attributes)
    queue = control.find(name)
    assert queue is not None
    return queue.cell


def test_queues_go_to_groups_of_their_factor(three: ThreeCells) -> None:
    assert create(three, "a").startswith("g3.")
    assert create(three, "b", TidegateReplicationFactor="1").startswith("g1.")
    assert create(three, "c", TidegateReplicationAcknowledgement="first").endswith("/first")
    assert create(three, "d.fifo", FifoQueue="true", TidegateReplicationFactor="2").startswith(
        "g2."
    )
    assert three.groups.placed_names == ["a", "b", "c", "d.fifo"]


def test_a_queue_that_is_there_is_not_placed_again(three: ThreeCells) -> None:
    create(three)
    create(three)
    assert three.groups.placed_names == ["orders"]
    three.call("DeleteQueue", QueueUrl="orders")
    create(three)
    assert three.groups.placed_names == ["orders", "orders"]


def test_a_swept_queue_is_gone_from_its_group(three: ThreeCells) -> None:
    place = create(three)
    three.call("DeleteQueue", QueueUrl="orders")
    (dropped,) = asyncio.run(three.registry.dropped(10))
    asyncio.run(three.registry.swept(dropped))
    assert three.groups.gone_places == [place]


def test_they_are_shown_where_they_were_set_and_asked_for(three: ThreeCells) -> None:
    create(three, "a")
    create(three, "b", TidegateReplicationFactor="2", TidegateReplicationAcknowledgement="all")
    assert three.attributes("a", FACTOR, ACKNOWLEDGEMENT) == {}
    assert three.attributes("b", FACTOR, ACKNOWLEDGEMENT) == {FACTOR: "2", ACKNOWLEDGEMENT: "all"}
    assert not {FACTOR, ACKNOWLEDGEMENT} & three.attributes("b", "All").keys()


@pytest.mark.parametrize(
    ("attributes", "refused"),
    [
        (
            {FACTOR: "4"},
            "InvalidAttributeValue: Invalid value for the parameter TidegateReplicationFactor.",
        ),
        (
            {FACTOR: "0"},
            "InvalidAttributeValue: Invalid value for the parameter TidegateReplicationFactor.",
        ),
        (
            {ACKNOWLEDGEMENT: "none"},
            f"InvalidAttributeValue: Invalid value for the parameter {ACKNOWLEDGEMENT}.",
        ),
    ],
)
def test_wrong_values(three: ThreeCells, attributes: dict[str, str], refused: str) -> None:
    found = refusal(three, "CreateQueue", QueueName="x", Attributes=attributes)
    assert found.startswith(refused)


def test_a_fifo_queue_has_no_choice_of_acknowledgement(three: ThreeCells) -> None:
    attributes = {"FifoQueue": "true", ACKNOWLEDGEMENT: "first"}
    found = refusal(three, "CreateQueue", QueueName="x.fifo", Attributes=attributes)
    assert found == "InvalidAttributeName: Unknown Attribute TidegateReplicationAcknowledgement."


def test_a_plain_cell_has_one_copy(control: ControlPlane) -> None:
    assert create(control, TidegateReplicationFactor="1") in {"a", "b"}
    found = refusal(control, "CreateQueue", QueueName="x", Attributes={FACTOR: "2"})
    assert found == (
        "InvalidAttributeValue: Invalid value for the parameter TidegateReplicationFactor."
        " Reason: There is one cell."
    )


@pytest.mark.parametrize("change", [{FACTOR: "3"}, {ACKNOWLEDGEMENT: "first"}])
def test_they_are_fixed(three: ThreeCells, change: dict[str, Any]) -> None:
    create(three, TidegateReplicationFactor="2")
    (name,) = change
    assert refusal(three, "SetQueueAttributes", QueueUrl="orders", Attributes=change) == (
        f"InvalidAttributeValue: Invalid value for the parameter {name}."
        " Reason: It is fixed when a queue is created."
    )
    same = {FACTOR: "2", "DelaySeconds": "1"}
    three.call("SetQueueAttributes", QueueUrl="orders", Attributes=same)
    assert three.attributes("orders", "DelaySeconds") == {"DelaySeconds": "1"}
