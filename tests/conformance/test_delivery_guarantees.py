"""The delivery guarantee of a queue, over the wire. FIFO queues keep the same promises."""

from typing import Any

import pytest

from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError
from tests.conformance.client_calls import error, nothing, one
from tests.conformance.in_process import InProcessServer

GUARANTEE = "TidegateDeliveryGuarantee"


@pytest.fixture(params=["json", "query"])
def sqs(request: pytest.FixtureRequest, server: InProcessServer) -> Any:
    return server.client(request.param, extended=True)


def queue(sqs: Any, guarantee: str, name: str = "orders") -> str:
    answer = sqs.create_queue(QueueName=name, Attributes={GUARANTEE: guarantee})
    return str(answer["QueueUrl"])


def attributes(sqs: Any, url: str, *names: str) -> dict[str, str]:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(names))
    return dict(answer.get("Attributes", {}))


def test_at_least_once_is_the_default_and_shown_to_who_names_it_alone(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    assert attributes(sqs, url, GUARANTEE) == {GUARANTEE: "atLeastOnce"}
    assert GUARANTEE not in attributes(sqs, url, "All")
    sqs.set_queue_attributes(QueueUrl=url, Attributes={GUARANTEE: "exactlyOnce"})
    assert attributes(sqs, url, GUARANTEE) == {GUARANTEE: "exactlyOnce"}
    assert attributes(sqs, url, "All", GUARANTEE)[GUARANTEE] == "exactlyOnce"
    assert GUARANTEE not in attributes(sqs, url, "All")


def test_other_values_are_refused(sqs: Any) -> None:
    found = error(sqs.create_queue, QueueName="orders", Attributes={GUARANTEE: "AtMostOnce"})
    assert found[0] == "InvalidAttributeValue"
    assert "QueueUrls" not in sqs.list_queues()


def test_at_most_once_a_receive_deletes(server: InProcessServer, sqs: Any) -> None:
    url = queue(sqs, "atMostOnce")
    sqs.send_message_batch(
        QueueUrl=url, Entries=[{"Id": body, "MessageBody": body} for body in "abc"]
    )
    answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
    assert sorted(message["Body"] for message in answer["Messages"]) == ["a", "b", "c"]
    counts = attributes(sqs, url, "All")
    assert counts["ApproximateNumberOfMessages"] == "0"
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "0"
    server.clock.advance(43_201)
    assert nothing(sqs, url)
    # Who deletes as with any queue notices nothing.
    for message in answer["Messages"]:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_at_most_once_in_a_fifo_queue(server: InProcessServer, sqs: Any) -> None:
    attributes = {"FifoQueue": "true", GUARANTEE: "atMostOnce"}
    url = sqs.create_queue(QueueName="orders.fifo", Attributes=attributes)["QueueUrl"]
    for body in "abc":
        sqs.send_message(
            QueueUrl=url, MessageBody=body, MessageGroupId="g", MessageDeduplicationId=body
        )
    got = []
    while messages := sqs.receive_message(QueueUrl=url, VisibilityTimeout=0).get("Messages"):
        got += [message["Body"] for message in messages]
    assert got == ["a", "b", "c"]
    server.clock.advance(60)
    assert nothing(sqs, url)


def test_at_most_once_nothing_is_shown_that_could_not_be_deleted(
    server: InProcessServer, sqs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = queue(sqs, "atMostOnce")
    sqs.send_message(QueueUrl=url, MessageBody="once")
    write = MemoryCell.update
    writes = 0

    async def fail_the_second_write(cell: MemoryCell, *args: Any, **options: Any) -> Any:
        nonlocal writes
        writes += 1
        if writes == 2:
            raise CellUnavailableError
        return await write(cell, *args, **options)

    monkeypatch.setattr(MemoryCell, "update", fail_the_second_write)
    assert error(sqs.receive_message, QueueUrl=url)[2] == 503
    server.clock.advance(29)
    assert nothing(sqs, url)
    server.clock.advance(2)
    assert one(sqs, url)["Body"] == "once"
    server.clock.advance(31)
    assert nothing(sqs, url)


def test_exactly_once_an_overtaken_receiver_cannot_acknowledge(
    server: InProcessServer, sqs: Any
) -> None:
    url = queue(sqs, "exactlyOnce")
    sqs.send_message(QueueUrl=url, MessageBody="work")
    old = one(sqs, url)["ReceiptHandle"]
    server.clock.advance(31)
    new = one(sqs, url)["ReceiptHandle"]
    reason = f"Value {old} for parameter ReceiptHandle is invalid. Reason: "
    expired = ("InvalidParameterValue", f"{reason}The receipt handle has expired.", 400)
    assert error(sqs.delete_message, QueueUrl=url, ReceiptHandle=old) == expired
    change = sqs.change_message_visibility
    assert error(change, QueueUrl=url, ReceiptHandle=old, VisibilityTimeout=0) == expired
    answer = sqs.delete_message_batch(
        QueueUrl=url,
        Entries=[{"Id": "old", "ReceiptHandle": old}, {"Id": "new", "ReceiptHandle": new}],
    )
    assert [entry["Id"] for entry in answer["Successful"]] == ["new"]
    assert [entry["Id"] for entry in answer["Failed"]] == ["old"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=new)
    server.clock.advance(31)
    assert nothing(sqs, url)


def test_exactly_once_a_receiver_is_told_that_its_visibility_has_ended(
    server: InProcessServer, sqs: Any
) -> None:
    url = queue(sqs, "exactlyOnce")
    sqs.send_message(QueueUrl=url, MessageBody="work")
    handle = one(sqs, url)["ReceiptHandle"]
    server.clock.advance(31)
    change = {"QueueUrl": url, "ReceiptHandle": handle, "VisibilityTimeout": 30}
    code, message, _ = error(sqs.change_message_visibility, **change)
    assert code == "AWS.SimpleQueueService.MessageNotInflight"
    assert message == "The specified message isn't in flight."
    one(sqs, url)


def test_at_least_once_an_old_handle_deletes_as_in_sqs(server: InProcessServer, sqs: Any) -> None:
    url = queue(sqs, "atLeastOnce")
    sqs.send_message(QueueUrl=url, MessageBody="work")
    old = one(sqs, url)["ReceiptHandle"]
    server.clock.advance(31)
    one(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=old)
    server.clock.advance(31)
    assert nothing(sqs, url)
