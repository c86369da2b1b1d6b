import json

import pytest

from control_plane.core.queues_file import DeclaredQueue, QueuesFileError, parse


def test_a_file_with_everything() -> None:
    policy = '{ Version = "2012-10-17", Statement = [] }'
    found = parse(
        f"""
        # Queues of the shop.
        [queues.orders]
        VisibilityTimeout = 60
        SqsManagedSseEnabled = false
        DelaySeconds = "5"
        Policy = {policy}
        dead_letters = {{ queue = "orders-dead", max_receive_count = 5 }}
        tags = {{ team = "shop", stage = "" }}

        [queues.orders-dead]
        MessageRetentionPeriod = 1_209_600

        [queues."jobs.fifo"]
        [queues."jobs.fifo".tags]
        team = "jobs"
        """
    )
    assert found == [
        DeclaredQueue(
            "orders",
            {
                "VisibilityTimeout": "60",
                "SqsManagedSseEnabled": "false",
                "DelaySeconds": "5",
                "Policy": json.dumps({"Version": "2012-10-17", "Statement": []}),
            },
            {"team": "shop", "stage": ""},
            "orders-dead",
            "5",
        ),
        DeclaredQueue("orders-dead", {"MessageRetentionPeriod": "1209600"}),
        DeclaredQueue("jobs.fifo", {}, {"team": "jobs"}),
    ]


@pytest.mark.parametrize("text", ["", "# nothing", "[queues]"])
def test_a_file_may_have_no_queue(text: str) -> None:
    assert parse(text) == []


NO_VALUE = "is neither a text, a whole number, true or false, nor a table"
DEAD_LETTERS = '[queues.orders]\ndead_letters = { queue = "dead", max_receive_count = 1 }'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queues", "Expected '=' after a key"),
        ("[queue.orders]", "queue means nothing here; a queue is a table [queues.NAME]"),
        ("queues = 1", "queues has no tables; a queue is a table [queues.NAME]"),
        ("[queues]\norders = 1", "queue orders: it is not a table [queues.NAME]"),
        ("[queues.orders]\ntags = 1", "queue orders: tags is not a table"),
        (
            "[queues.orders]\nDelaySeconds = 1.5",
            f"queue orders: DelaySeconds {NO_VALUE}",
        ),
        (
            "[queues.orders]\nPolicy = [1]",
            f"queue orders: Policy {NO_VALUE}",
        ),
        (
            "[queues.orders]\ntags = { a = 2026-01-01 }",
            f"queue orders: tag a {NO_VALUE}",
        ),
        (
            '[queues.orders]\ndead_letters = { queue = "dead" }',
            "queue orders: dead_letters has queue and max_receive_count",
        ),
        (
            DEAD_LETTERS + '\nRedrivePolicy = "{}"',
            "queue orders: it has dead_letters and a RedrivePolicy",
        ),
        ("[queues.a]\n[queues.a]", "Cannot declare"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, said: str) -> None:
    with pytest.raises(QueuesFileError) as refused:
        parse(text)
    message = str(refused.value)
    assert message.startswith(said)
    assert "\n" not in message
