"""Writes that took effect and whose reply was lost: repeated, and recognised as done."""

from typing import Any

from botocore.exceptions import ConnectionClosedError

from data_plane.ports import ITEM_ABSENT, Absent, Append, Cell, Equals, Key, Tally, Update
from tests.conformance.cell_suite import NOON_US, ManualClock, run
from tests.conformance.client_calls import nothing, one
from tests.conformance.dynamodb_server import serving_on_dynamodb
from tests.conformance.dynamodb_suite import on_a_table_of_its_own

KEY = Key("P", b"a")


class LosingFirstReplies:
    """Between client and moto: what is sent takes effect, and the first reply to it is lost."""

    def __init__(self) -> None:
        self.lost = 0
        self._last: object = None

    def lose(self, operation_model: Any, response_dict: Any, **_: object) -> None:
        this = (operation_model.name, self._body_of_request)
        if this == self._last:
            self._last = None
            return
        self._last = this
        self.lost += 1
        raise ConnectionClosedError(endpoint_url=str(response_dict["status_code"]))

    def note(self, request: Any, **_: object) -> None:
        self._body_of_request = request.body


class Losing:
    """Loses first replies while it is entered."""

    def __init__(self, client: Any) -> None:
        self._events = client.meta.events
        self._losing = LosingFirstReplies()

    def __enter__(self) -> LosingFirstReplies:
        self._events.register_first("before-send.dynamodb", self._losing.note)
        self._events.register_first("before-parse.dynamodb", self._losing.lose)
        return self._losing

    def __exit__(self, *_: object) -> None:
        self._events.unregister("before-send.dynamodb", self._losing.note)
        self._events.unregister("before-parse.dynamodb", self._losing.lose)


def test_what_the_cell_promises(dynamodb: Any) -> None:
    def opened(clock: ManualClock) -> Any:
        return on_a_table_of_its_own(dynamodb, clock)

    async def scenario(cell: Cell, _clock: ManualClock) -> None:
        with Losing(dynamodb) as losing:
            appended = await cell.append(Append("Q", b"s", {"v": 1}, NOON_US))
            assert await cell.get(appended.key) == {"v": 1, "t": NOON_US}
            first = await cell.put(KEY, {"v": 1, "w": b"mine"}, ITEM_ABSENT)
            assert (first.applied, first.before) == (False, {"v": 1, "w": b"mine"})
            lease = Update({"m": b"mine"}, {"d": frozenset({1})})
            taken = await cell.update(KEY, lease, ((Absent("m"), Equals("m", b"mine")),))
            assert taken.applied
            again = await cell.update(KEY, Update(add={"d": frozenset({1, 2})}))
            assert again.applied
            assert await cell.get(KEY) == {
                "v": 1,
                "w": b"mine",
                "m": b"mine",
                "d": frozenset({1, 2}),
            }
            assert (await cell.delete(KEY)).applied
            refused = await cell.delete(appended.key, ((Equals("v", 1),),))
            assert (refused.applied, refused.before) == (False, None)
            assert await cell.query("Q", limit=9) == []
            assert losing.lost == 9

    run(opened, scenario)


def test_counters_miss_only_what_the_lost_attempt_moved(dynamodb: Any) -> None:
    counter = Key("T", b"a")

    async def scenario(cell: Any, _clock: ManualClock) -> None:
        def first_of_its_kind(before: object) -> list[Tally]:
            return [Tally(counter, 1)] if before is None else []

        await cell.put(KEY, {"v": 1}, tallies=first_of_its_kind)
        with Losing(dynamodb):
            await cell.put(Key("P", b"b"), {"v": 1}, tallies=first_of_its_kind)
        await cell.flush()
        assert (await cell.get(counter))["n"] == 1

    run(lambda clock: on_a_table_of_its_own(dynamodb, clock), scenario)


def test_queues_and_messages_are_there_once(dynamodb: Any) -> None:
    with serving_on_dynamodb(dynamodb) as server, Losing(dynamodb) as losing:
        sqs = server.client()
        url = sqs.create_queue(QueueName="orders", Attributes={"VisibilityTimeout": "60"})[
            "QueueUrl"
        ]
        sqs.send_message(QueueUrl=url, MessageBody="first")
        received = one(sqs, url, AttributeNames=["ApproximateReceiveCount"])
        assert received["Body"] == "first"
        assert received["Attributes"] == {"ApproximateReceiveCount": "1"}
        handle = received["ReceiptHandle"]
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=90)
        assert nothing(sqs, url)
        server.clock.advance(91)
        second = one(sqs, url, AttributeNames=["ApproximateReceiveCount"])
        assert second["Attributes"] == {"ApproximateReceiveCount": "2"}
        sqs.delete_message(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"])
        server.clock.advance(61)
        assert nothing(sqs, url)
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "5"})
        sqs.delete_queue(QueueUrl=url)
        assert sqs.list_queues().get("QueueUrls", []) == []
        assert losing.lost > 10
