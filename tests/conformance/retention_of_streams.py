"""What a retention that is raised, or lowered, shows of a stream: cases for every engine."""

from typing import Any

from tests.conformance.in_process import InProcessServer

NAME = "clicks"
SHARD = "shardId-000000000000"
HOUR_S = 3_600


class Clicks:
    """A stream of one shard, and how it is read from different places."""

    def __init__(self, server: InProcessServer, **more: Any) -> None:
        self.server = server
        self.kinesis = server.kinesis(extended=True)
        self.name = f"{NAME}-{id(self)}"
        self.kinesis.create_stream(StreamName=self.name, ShardCount=1, **more)

    def put(self, text: str) -> str:
        answer = self.kinesis.put_record(StreamName=self.name, PartitionKey="k", Data=text.encode())
        return str(answer["SequenceNumber"])

    def pass_hours(self, hours: float) -> None:
        self.server.clock.advance(hours * HOUR_S)

    def keep(self, hours: int, **more: Any) -> None:
        shown = self.kinesis.describe_stream_summary(StreamName=self.name)
        now = shown["StreamDescriptionSummary"]["RetentionPeriodHours"]
        change = (
            self.kinesis.increase_stream_retention_period
            if hours >= now
            else self.kinesis.decrease_stream_retention_period
        )
        change(StreamName=self.name, RetentionPeriodHours=hours, **more)

    def read(self, kind: str = "TRIM_HORIZON", **where: Any) -> list[str]:
        found: list[str] = []
        at = self.kinesis.get_shard_iterator(
            StreamName=self.name, ShardId=SHARD, ShardIteratorType=kind, **where
        )["ShardIterator"]
        while at is not None:
            page = self.kinesis.get_records(ShardIterator=at)
            found += [record["Data"].decode() for record in page["Records"]]
            at = page.get("NextShardIterator") if page["Records"] else None
        return found


class RaisedRetention:
    """A raised retention brings nothing back that had expired, however long it is stored."""

    def test_what_had_expired_stays_so(self, server: InProcessServer) -> None:
        clicks = Clicks(server, TidegateRetentionHoursMax=72)
        first = clicks.put("a")
        clicks.pass_hours(10)
        clicks.put("b")
        clicks.pass_hours(15)
        assert clicks.read() == ["b"]
        clicks.keep(48)
        assert clicks.read() == ["b"]
        assert clicks.read("AT_SEQUENCE_NUMBER", StartingSequenceNumber=first) == ["b"]
        assert clicks.read("AT_TIMESTAMP", Timestamp=0) == ["b"]
        clicks.pass_hours(20)
        clicks.put("c")
        assert clicks.read() == ["b", "c"]
        clicks.pass_hours(14)
        assert clicks.read() == ["c"]

    def test_so_it_does_within_the_hour_in_which_it_is_still_stored(
        self, server: InProcessServer
    ) -> None:
        clicks = Clicks(server)
        clicks.put("a")
        clicks.pass_hours(0.5)
        clicks.put("b")
        clicks.pass_hours(23.75)
        clicks.keep(240)
        assert clicks.read() == ["b"]

    def test_what_a_lower_retention_hid_does_not_come_back(self, server: InProcessServer) -> None:
        clicks = Clicks(server)
        clicks.keep(48)
        clicks.put("a")
        clicks.pass_hours(30)
        clicks.put("b")
        clicks.keep(24)
        assert clicks.read() == ["b"]
        clicks.keep(48)
        assert clicks.read() == ["b"]
        # To raise it again, and again, changes nothing.
        clicks.keep(72)
        assert clicks.read() == ["b"]

    def test_queues_over_the_stream_get_none_of_it(self, server: InProcessServer) -> None:
        clicks = Clicks(server, TidegateRetentionHoursMax=72)
        arn = clicks.kinesis.describe_stream_summary(StreamName=clicks.name)[
            "StreamDescriptionSummary"
        ]["StreamARN"]
        sqs = server.client()
        url = sqs.create_queue(
            QueueName=f"{clicks.name}.fifo",
            Attributes={
                "FifoQueue": "true",
                "TidegateStreamArn": arn,
                "TidegateStartingPosition": "TRIM_HORIZON",
            },
        )["QueueUrl"]
        clicks.put("a")
        clicks.pass_hours(10)
        clicks.put("b")
        clicks.pass_hours(15)
        clicks.keep(48)
        name = "ApproximateNumberOfMessages"
        attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"]
        assert attributes[name] == "1"
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        assert [message["Body"] for message in messages] == ["b"]
