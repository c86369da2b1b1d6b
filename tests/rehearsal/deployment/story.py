"""What a client did with deployed functions, and what the deployed jobs made of it."""

import csv
import io
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyarrow import parquet

from tests.rehearsal.deployment.deployed import Deployed
from tests.rehearsal.glue.job import GlueJobs, Run
from tests.rehearsal.stored_items import Table

STANDARD, FIFO = "billed", "billed.fifo"
DELIVERED_S_MAX: Final = 600


@dataclass
class Story:
    """What a client did with the deployed functions, and what the jobs said of it, in their turn.

    `requests` and `messages` are by queue and operation; `billed` has what the bill put, and
    `billed_again` what there was when it had been run once more.
    """

    jobs: GlueJobs
    bucket: str
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    messages: Counter[tuple[str, str]] = field(default_factory=Counter)
    runs: dict[str, Run] = field(default_factory=dict)
    billed: dict[str, bytes] = field(default_factory=dict)
    billed_again: dict[str, bytes] = field(default_factory=dict)

    def note(self, queue: str, operation: str, messages: int = 1) -> None:
        """Note a call that was answered."""
        self.requests[queue, operation] += 1
        self.messages[queue, operation] += messages

    def objects(self, prefix: str) -> dict[str, bytes]:
        """Objects of the bucket whose names begin so."""
        s3 = self.jobs.deployed.aws("s3")
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        names = [one["Key"] for page in pages for one in page.get("Contents", ())]
        return {name: s3.get_object(Bucket=self.bucket, Key=name)["Body"].read() for name in names}

    def rows(self, prefix: str) -> list[dict[str, Any]]:
        """Rows of all Parquet files."""
        return [
            row
            for name, content in self.objects(prefix).items()
            if name.endswith(".parquet")
            for row in parquet.read_table(io.BytesIO(content)).to_pylist()
        ]

    def table(self, name: str) -> list[dict[str, str]]:
        """Rows of a table of the one audit."""
        ((_, content),) = [
            one
            for one in self.objects("bills/audit/").items()
            if one[0].endswith(f"/{name}/rows.csv")
        ]
        return list(csv.DictReader(io.StringIO(content.decode())))


def live(story: Story, sqs: Any) -> None:
    """Messages of two queues are sent; some are received, and some of those deleted."""
    for queue in (STANDARD, FIFO):
        attributes = {"FifoQueue": "true"} if queue == FIFO else {}
        url = sqs.create_queue(QueueName=queue, Attributes=attributes)["QueueUrl"]
        for number in range(5):
            group = {"MessageGroupId": f"g{number}", "MessageDeduplicationId": f"{number}"}
            more = group if queue == FIFO else {}
            sqs.send_message(QueueUrl=url, MessageBody="x" * 70_000, **more)
            story.note(queue, "SendMessage")
            if number == 0:
                # Each delivery would start a sandbox of its own, until one is there.
                await_usage(story)
        entries = [
            {"Id": f"{n}", "MessageBody": "y"}
            | ({"MessageGroupId": "b", "MessageDeduplicationId": f"b{n}"} if queue == FIFO else {})
            for n in range(3)
        ]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
        story.note(queue, "SendMessageBatch", 3)
        for _ in range(3):
            (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
            story.note(queue, "ReceiveMessage")
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            story.note(queue, "DeleteMessage")


def counted(rows: list[dict[str, Any]], what: str) -> Counter[tuple[str, str]]:
    """Sums of our queues by operation, without those that the story does not count."""
    sums: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if row["queue"] in (STANDARD, FIFO) and row["operation"] != "CreateQueue":
            sums[row["queue"], row["operation"]] += row[what]
    return sums


def await_usage(story: Story) -> None:
    """Until what the functions answered has come through their logs."""
    give_up_s = time.monotonic() + DELIVERED_S_MAX
    while counted(story.rows("usage/records/"), "requests") != story.requests:
        assert time.monotonic() < give_up_s
        time.sleep(0.5)  # between two looks


def export(story: Story, folder: Path) -> None:
    """What DynamoDB puts when it is asked to, which the emulator does not do."""
    deployed = story.jobs.deployed
    Table(deployed.aws("dynamodb"), deployed.the("AWS::DynamoDB::Table")).export(folder)
    for path in folder.rglob("*"):
        if path.is_file():
            key = f"exports/{path.relative_to(folder).as_posix()}"
            deployed.aws("s3").put_object(Bucket=story.bucket, Key=key, Body=path.read_bytes())


def told(deployed: Deployed, sqs: Any, folder: Path) -> Story:
    """A client's story, billed, exported, audited and digested by the jobs, in their order."""
    bucket = deployed.the("AWS::S3::Bucket", "usage")
    its = Story(GlueJobs(deployed, folder), bucket)
    live(its, sqs)
    await_usage(its)
    its.runs["export_table"] = its.jobs.run("export-table")
    export(its, folder / "exports")
    # The month before first: it says how far writers had come by then.
    for name in ("previous", "present"):
        its.runs[name] = its.jobs.run("bill", its.jobs.trigger("bill", name)["Arguments"])
    # Now: other tests use the deployment, too.
    its.billed.update(its.objects("bills/"))
    its.runs["again"] = its.jobs.run("bill", its.jobs.trigger("bill", "present")["Arguments"])
    its.billed_again.update(its.objects("bills/"))
    its.runs["audit"] = its.jobs.run("audit", its.jobs.trigger("audit", "daily")["Arguments"])
    its.runs["digest"] = its.jobs.run("digest", its.jobs.trigger("digest", "hourly")["Arguments"])
    return its
