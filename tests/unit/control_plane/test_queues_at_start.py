import asyncio

import pytest

from control_plane.core.queues_file import QueuesFileError, parse
from control_plane.queues_at_start import (
    CREATED,
    DELETED,
    DIFFERS,
    Outcome,
    QueuesAtStart,
)
from tests.unit.control_plane.conftest import ACCOUNT, REGION, ControlPlane

SHOP = """
[queues.orders]
VisibilityTimeout = 60
dead_letters = { queue = "orders-dead", max_receive_count = 5 }
tags = { team = "shop" }

[queues.orders-dead]

[queues."jobs.fifo"]
ContentBasedDeduplication = true
TidegateDeliveryGuarantee = "exactlyOnce"
"""


def make(control: ControlPlane, text: str) -> list[Outcome]:
    making = QueuesAtStart(control.registry, ACCOUNT, REGION)
    return asyncio.run(making.make(parse(text), control.clock.now_us()))


def names(control: ControlPlane) -> list[str]:
    return asyncio.run(control.registry.names(ACCOUNT, REGION, prefix="", after="", limit=100))


def test_queues_are_made_dead_letter_queues_first(control: ControlPlane) -> None:
    assert make(control, SHOP) == [
        Outcome(CREATED, "orders-dead"),
        Outcome(CREATED, "jobs.fifo"),
        Outcome(CREATED, "orders"),
    ]
    orders = control.attributes("orders", "All")
    assert orders["VisibilityTimeout"] == "60"
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders-dead"
    assert arn in orders["RedrivePolicy"]
    assert control.call("ListQueueTags", QueueUrl="orders") == {"Tags": {"team": "shop"}}
    jobs = control.attributes("jobs.fifo", "All", "TidegateDeliveryGuarantee")
    assert jobs["FifoQueue"] == "true"
    assert jobs["ContentBasedDeduplication"] == "true"
    assert jobs["TidegateDeliveryGuarantee"] == "exactlyOnce"


def test_a_second_start_changes_nothing(control: ControlPlane) -> None:
    make(control, SHOP)
    before = list(control.cell.items())
    control.clock.advance(3_600)
    assert make(control, SHOP) == []
    assert list(control.cell.items()) == before


def test_what_exists_stays_as_it_is_and_is_told(control: ControlPlane) -> None:
    control.call("CreateQueue", QueueName="orders", Attributes={"VisibilityTimeout": "10"})
    text = """
    [queues.orders]
    VisibilityTimeout = 60
    DelaySeconds = 0
    MaximumMessageSize = 2048
    tags = { team = "shop" }
    """
    assert make(control, text) == [
        Outcome(DIFFERS, "orders", "VisibilityTimeout", "10", "60"),
        Outcome(DIFFERS, "orders", "MaximumMessageSize", "", "2048"),
        Outcome(DIFFERS, "orders", "tags", "{}", '{"team": "shop"}'),
    ]
    assert control.attributes("orders", "VisibilityTimeout") == {"VisibilityTimeout": "10"}


def test_a_name_that_was_just_deleted_is_not_made(control: ControlPlane) -> None:
    control.call("CreateQueue", QueueName="orders")
    control.call("DeleteQueue", QueueUrl="orders")
    assert make(control, "[queues.orders]") == [Outcome(DELETED, "orders")]
    control.clock.advance(61)
    assert make(control, "[queues.orders]") == [Outcome(CREATED, "orders")]


def test_a_dead_letter_queue_may_exist_already_and_two_may_name_each_other(
    control: ControlPlane,
) -> None:
    control.call("CreateQueue", QueueName="dead")
    text = """
    [queues.a]
    dead_letters = { queue = "b", max_receive_count = 2 }
    [queues.b]
    dead_letters = { queue = "a", max_receive_count = 3 }
    [queues.c]
    dead_letters = { queue = "dead", max_receive_count = 1000 }
    """
    assert [outcome.queue for outcome in make(control, text)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[queues.x]\nVisibilityTimeout = 43_201", "Invalid value for the parameter Visib"),
        ("[queues.x]\nvisibility = 1", "Unknown Attribute visibility."),
        ("[queues.x]\nApproximateNumberOfMessages = 1", "Unknown Attribute Approximate"),
        ('[queues."x.y"]', "Can only include alphanumeric characters, hyphens, or underscores."),
        ('[queues."x.fifo"]\nFifoQueue = false', "Unknown Attribute FifoQueue."),
        ("[queues.x]\nContentBasedDeduplication = true", "Unknown Attribute ContentBased"),
        ('[queues.x]\ntags = { "aws:a" = "1" }', "Tag keys cannot start with"),
        (
            '[queues.x]\ndead_letters = { queue = "missing", max_receive_count = 1 }',
            "Dead letter target does not exist.",
        ),
        (
            '[queues.x]\ndead_letters = { queue = "first", max_receive_count = 1001 }',
            "maxReceiveCount",
        ),
        (
            '[queues."x.fifo"]\ndead_letters = { queue = "first", max_receive_count = 1 }',
            "Dead-letter queue must be same type of queue as the source",
        ),
    ],
)
def test_a_wrong_queue_is_named_and_none_is_made(
    control: ControlPlane, table: str, said: str
) -> None:
    with pytest.raises(QueuesFileError) as refused:
        make(control, f"[queues.first]\n{table}\n")
    message = str(refused.value)
    assert message.startswith("queue x")
    assert said in message
    assert "\n" not in message
    assert names(control) == []
