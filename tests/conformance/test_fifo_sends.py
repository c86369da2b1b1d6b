"""FIFO queues: batches, and sends that are refused, also for parameters of the other type."""

from typing import Any

import pytest

from tests.conformance.client_calls import error, nothing, one
from tests.conformance.fifo_calls import Fifo

WRONG_TYPE = (
    "Value {1} for parameter {0} is invalid. Reason: The request include parameter that is not "
    "valid for this queue type."
)
NO_GROUP = "The request must contain the parameter MessageGroupId."
NO_DEDUP = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId "
    "provided explicitly"
)
WRONG_ID = (
    "Value {1} for parameter {0} is invalid. Reason: {0} can only include alphanumeric and "
    "punctuation characters. 1 to 128 in length."
)
IDS = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
GROUP, DEDUP = IDS


@pytest.fixture
def strict(sqs: Any) -> Fifo:
    return Fifo(sqs, ContentBasedDeduplication="false", MaximumMessageSize="1024")


SEND_ERRORS: list[tuple[dict[str, Any], str, str]] = [
    ({DEDUP: "d"}, "MissingParameter", NO_GROUP),
    ({GROUP: "g"}, "InvalidParameterValue", NO_DEDUP),
    *(
        ({**IDS, name: value}, "InvalidParameterValue", WRONG_ID.format(name, value))
        for name in IDS
        for value in ("group 123", "a" * 129)
    ),
    *(
        (
            {**IDS, "DelaySeconds": delay_s},
            "InvalidParameterValue",
            WRONG_TYPE.format("DelaySeconds", delay_s),
        )
        for delay_s in (2, 901)
    ),
]


@pytest.mark.parametrize("case", range(len(SEND_ERRORS)))
def test_wrong_sends_store_nothing(strict: Fifo, case: int) -> None:
    params, code, message = SEND_ERRORS[case]
    send = {"QueueUrl": strict.url, "MessageBody": "x", **params}
    assert error(strict.sqs.send_message, **send) == (code, message, 400)
    assert nothing(strict.sqs, strict.url)


@pytest.mark.parametrize("name", IDS)
def test_ids_may_not_be_empty(strict: Fifo, name: str) -> None:
    send = {"QueueUrl": strict.url, "MessageBody": "x", **IDS, name: ""}
    assert error(strict.sqs.send_message, **send)[1] in (
        WRONG_ID.format(name, ""),
        NO_GROUP,
        NO_DEDUP,
    )
    assert nothing(strict.sqs, strict.url)


def test_ids_may_have_all_punctuation(strict: Fifo) -> None:
    wanted = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" + "a" * 96
    strict.send("x", wanted, wanted)
    shown = one(strict.sqs, strict.url, MessageSystemAttributeNames=[*IDS])["Attributes"]
    assert shown == dict.fromkeys(IDS, wanted)


BATCH_ERRORS: list[tuple[dict[str, Any], str, str]] = [
    ({"MessageBody": "x", DEDUP: "e"}, "InvalidParameterValue", NO_GROUP),
    ({"MessageBody": "x", GROUP: "g"}, "InvalidParameterValue", NO_DEDUP),
    (
        {"MessageBody": "x", GROUP: "g", DEDUP: "e", "DelaySeconds": 3},
        "InvalidParameterValue",
        WRONG_TYPE.format("DelaySeconds", 3),
    ),
    (
        {"MessageBody": "x", GROUP: "a b", DEDUP: "e"},
        "InvalidParameterValue",
        WRONG_ID.format(GROUP, "a b"),
    ),
    (
        {"MessageBody": "x" * 1025, GROUP: "g", DEDUP: "e"},
        "InvalidParameterValue",
        "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.",
    ),
]


@pytest.mark.parametrize("case", range(len(BATCH_ERRORS)))
def test_one_wrong_entry_refuses_the_whole_batch(strict: Fifo, case: int) -> None:
    """The first two were recorded from AWS."""
    entry, code, message = BATCH_ERRORS[case]
    entries = [{"Id": "good", "MessageBody": "x", **IDS}, {"Id": "bad", **entry}]
    batch = {"QueueUrl": strict.url, "Entries": entries}
    assert error(strict.sqs.send_message_batch, **batch) == (code, message, 400)
    assert nothing(strict.sqs, strict.url)


def test_a_batch_keeps_its_order(sqs: Any) -> None:
    fifo = Fifo(sqs)
    bodies = ["a3", "b1", "a1", "b3", "a2", "a4", "b2", "a5", "b4", "a6"]
    answer = fifo.send_batch(*({"MessageBody": body} for body in bodies))
    assert [entry["Id"] for entry in answer["Successful"]] == [str(number) for number in range(10)]
    numbers = [entry["SequenceNumber"] for entry in answer["Successful"]]
    assert numbers == sorted(set(numbers))
    received = fifo.receive(MessageSystemAttributeNames=["SequenceNumber"])
    assert [message["Body"] for message in received] == [
        *(body for body in bodies if body[0] == "a"),
        *(body for body in bodies if body[0] == "b"),
    ]
    shown = {message["Body"]: message["Attributes"]["SequenceNumber"] for message in received}
    assert [shown[body] for body in bodies] == numbers


def test_batches_of_the_greatest_size(sqs: Any) -> None:
    fifo = Fifo(sqs)
    bodies = [f"{number}" * 104_857 for number in range(10)]
    entries = [{"MessageBody": body, GROUP: "g"} for body in bodies]
    assert "Failed" not in fifo.send_batch(*entries)
    entries[0] = {"MessageBody": "0" * 104_864, GROUP: "g"}
    over = [{"Id": str(number), **entry} for number, entry in enumerate(entries)]
    assert error(sqs.send_message_batch, QueueUrl=fifo.url, Entries=over) == (
        "AWS.SimpleQueueService.BatchRequestTooLong",
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
        400,
    )
    assert fifo.drain() == bodies


def test_standard_queues_take_groups_but_no_deduplication(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    send = {"QueueUrl": url, "MessageBody": "x"}
    refused = WRONG_TYPE.format(DEDUP, "d")
    assert error(sqs.send_message, **send, **{DEDUP: "d"}) == (
        "InvalidParameterValue",
        refused,
        400,
    )
    for value in ("a b", "a" * 129):
        assert error(sqs.send_message, **send, **{GROUP: value}) == (
            "InvalidParameterValue",
            WRONG_ID.format(GROUP, value),
            400,
        )
    entries = [
        {"Id": "good", "MessageBody": "x", GROUP: "tenant-1"},
        {"Id": "dedup", "MessageBody": "x", DEDUP: "d"},
        {"Id": "group", "MessageBody": "x", GROUP: " "},
    ]
    answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["good"]
    assert [(entry["Id"], entry["Message"]) for entry in answer["Failed"]] == [
        ("dedup", "The request include parameter that is not valid for this queue type"),
        ("group", WRONG_ID.format(GROUP, " ")),
    ]
    shown = one(sqs, url, MessageSystemAttributeNames=["All"])["Attributes"]
    assert shown[GROUP] == "tenant-1"
