"""Sandboxes of a door over S3 and DynamoDB in memory, that end as they please, and their logs."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast
from unittest import mock

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HeadersDict
from botocore.config import Config
from botocore.exceptions import ClientError
from moto import mock_aws

from control_plane.serverless import sandbox as sandbox_module
from control_plane.serverless.answer_lines import AnswerLines
from control_plane.serverless.sandbox import Sandbox
from data_plane.core.answer_record import AnswerRecord
from data_plane.dynamodb.opening import make_table
from data_plane.frontend.served import Served
from tests.conformance.door_events import response_of, url_event
from tests.conformance.doors import Context
from tests.conformance.in_process import ENDPOINT, _RawBody, to_http_request
from tests.integration.metered_client import LostReplyError
from tests.unit.control_plane.serverless.test_usage import delivery

REGION = "eu-west-1"
TABLE = "tidegate"
SHOP = "111122223333"
SENDER = (
    '{"Version":"2012-10-17","Statement":'
    '{"Effect":"Allow","Action":"sqs:SendMessage","Resource":"*"}}'
)
DUPLICATE_S = 100
"""Of the 300 s in which SQS knows duplicates: the rest is for machines that are busy."""

SIZES_BYTES = (1, 300, 70_000)
OTHERS = ("receive", "receive", "delete", "peek", "forge")
BEFORE_ITS_LINE, AFTER_ITS_LINE = "before its line", "after its line"
US_PER_MINUTE = 60_000_000

Entry = dict[str, str]


class CutOffError(BaseException):
    """The sandbox ends here, whatever it was about to do."""


class StoryLines(AnswerLines):
    """Lines of answers in minutes of a story, in which sandboxes are cut off."""

    minute: ClassVar[int] = 0
    cut_off: ClassVar[str] = ""

    def expect(self, now_us: int) -> AnswerRecord:  # noqa: ARG002 - the story has its own time
        return super().expect(self.minute * US_PER_MINUTE)

    def served(self, served: Served) -> None:
        if self.cut_off == BEFORE_ITS_LINE:
            raise CutOffError
        super().served(served)
        if self.cut_off == AFTER_ITS_LINE:
            raise CutOffError


Answered = Counter[tuple[str, str]]
"""Requests by operation and code of the error."""

Sums = Counter[tuple[str, str, str]]
"""Of requests, units, messages and bytes: by queue, operation and which of them."""

UNIT_BYTES = 64 * 1024


@dataclass
class Site:
    """A deployment of which one sandbox is up at a time; `streams` are the logs of all of them.

    `told` is what clients were told, `untold` what they asked when a sandbox was cut off after its
    line, which is in `unanswered`. `sends` is what clients know to be stored, as each sandbox that
    is cut off has done what it was asked for; `without_line` are those that no line tells of.
    `repeats` is what was stored before.
    """

    environ: dict[str, str]
    streams: list[list[str]] = field(default_factory=list)
    told: Answered = field(default_factory=Counter)
    untold: Answered = field(default_factory=Counter)
    unanswered: list[str] = field(default_factory=list)
    sends: Sums = field(default_factory=Counter)
    repeats: Sums = field(default_factory=Counter)
    without_line: int = 0
    _sandbox: Sandbox | None = None

    def sandbox(self) -> Sandbox:
        """The one that is up; a new one where none is."""
        if self._sandbox is None:
            self.streams.append([])
            self._sandbox = Sandbox(self.environ)
        return self._sandbox

    def drop(self) -> None:
        """End the sandbox without a word."""
        self._sandbox = None

    def write(self, line: str) -> None:
        """What a sandbox writes to its log."""
        self.streams[-1].append(line)

    def client(self, key: Any, secret: str = "") -> Any:
        """A client that signs with this key, or claims to."""
        client: Any = boto3.client(
            "sqs",
            aws_access_key_id=key.id,
            aws_secret_access_key=secret or key.secret,
            region_name=REGION,
            endpoint_url=ENDPOINT,
            config=Config(retries={"total_max_attempts": 1}),
        )
        client.meta.events.register_first("before-send.sqs", self._send)
        return client

    def call(
        self, operation: str, call: Callable[..., Any], refused: str = "", **params: Any
    ) -> Any:
        """The output, empty for what is `refused` with this code. Raises LostReplyError."""
        try:
            output = call(**params)
        except ClientError as error:
            self.told[operation, str(error.response["Error"]["Code"])] += 1
            return {}
        except LostReplyError:
            self.untold[operation, refused] += StoryLines.cut_off == AFTER_ITS_LINE
            raise
        assert not refused
        self.told[operation, ""] += 1
        return output

    def send(self, call: Callable[..., Any], url: str, entries: list[Entry], *, new: bool) -> None:
        """Send one message, or a batch of them. Raises LostReplyError; then it is stored, too."""
        batch = len(entries) > 1
        operation = "SendMessageBatch" if batch else "SendMessage"
        params: dict[str, Any] = {"Entries": entries} if batch else dict(entries[0])
        params.pop("Id", None)
        size = sum(len(entry["MessageBody"]) for entry in entries)
        where = url.rpartition("/")[2], operation
        of_request = {"requests": 1, "units": max(1, -(-size // UNIT_BYTES))}
        of_messages = {"messages": len(entries), "bytes": size}
        try:
            self.call(operation, call, QueueUrl=url, **params)
        except LostReplyError:
            if StoryLines.cut_off == BEFORE_ITS_LINE and not new:
                raise  # Nothing is left of it.
            self.without_line += StoryLines.cut_off == BEFORE_ITS_LINE
            self._note(where, of_request | of_messages, new=new)
            raise
        self._note(where, of_request | of_messages, new=new)

    def _note(self, where: tuple[str, str], amounts: dict[str, int], *, new: bool) -> None:
        for name, amount in amounts.items():
            if new or name in {"requests", "units"}:
                (self.sends if new else self.repeats)[*where, name] += amount

    def deliver(self, lines: list[str]) -> None:
        """Hand lines to the function that stores them, as CloudWatch Logs does."""
        Sandbox(self.environ).usage_place.store(delivery(*lines))

    def fetch(self, out: Path) -> None:
        """Everything that lies in the usage place."""
        s3 = boto3.client("s3", region_name=REGION)
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket="records"):
            for one in page["Contents"]:
                path = out / one["Key"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(s3.get_object(Bucket="records", Key=one["Key"])["Body"].read())

    def _send(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        event = url_event(to_http_request(request))
        try:
            answered = response_of(self.sandbox().doors.answer_url(event, Context()))
        except CutOffError:
            if StoryLines.cut_off == AFTER_ITS_LINE:
                self.unanswered.append(self.streams[-1][-1])
            self.drop()
            raise LostReplyError from None
        headers = cast("Any", HeadersDict(answered.headers))
        return AWSResponse(request.url, answered.status, headers, _RawBody(answered.body))


@contextmanager
def deployed() -> Iterator[Site]:
    """A deployment that knows its usage place, s3://records/usage."""
    with mock_aws():
        make_table(boto3.client("dynamodb", region_name=REGION), TABLE)
        s3 = boto3.client("s3", region_name=REGION)
        where: Any = {"LocationConstraint": REGION}
        for bucket in ("bodies", "records"):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration=where)
        key = boto3.client("kms", region_name=REGION).create_key()["KeyMetadata"]["Arn"]
        site = Site(
            {
                "AWS_REGION": REGION,
                "TIDEGATE_TABLE": TABLE,
                "TIDEGATE_BLOBS": "s3://bodies",
                "TIDEGATE_KMS_KEY": key,
                "TIDEGATE_USAGE": "s3://records/usage",
                "TIDEGATE_LOG_LEVEL": "warning",
            }
        )
        with (
            mock.patch.object(sandbox_module, "AnswerLines", StoryLines),
            mock.patch.object(sandbox_module, "_write", site.write),
        ):
            yield site


@dataclass
class Clients:
    """Those of an account: its root, a user who may only send, and who has a wrong secret."""

    root: Any
    user: Any
    stranger: Any
    url: str
    fifo_url: str
    _sent: list[tuple[float, list[Entry]]] = field(default_factory=list)

    def live(self, site: Site, chance: random.Random, calls: int, cut_off: str) -> None:
        """So many calls, of which the last one may be cut off; then the sandbox ends."""
        handles: list[str] = []
        for left in reversed(range(calls)):
            StoryLines.minute += chance.choice((0, 0, 0, 1))
            StoryLines.cut_off = cut_off if not left else ""
            try:
                self._call(site, chance, handles)
            except LostReplyError:
                break
        StoryLines.cut_off = ""
        site.drop()

    def _call(self, site: Site, chance: random.Random, handles: list[str]) -> None:
        of = {"QueueUrl": self.url}
        match chance.choice(("send", "send", "fifo", "again", *OTHERS)):
            case "send" | "fifo" as kind:
                self._send(site, chance, fifo=kind == "fifo")
            case "again" if lately := self._lately():
                # Also what nobody was told of: it is a duplicate then.
                entries = chance.choice(lately)
                site.send(self._sender(entries), self.fifo_url, entries, new=False)
            case "receive":
                found = site.call("ReceiveMessage", self.root.receive_message, **of)
                handles += [one["ReceiptHandle"] for one in found.get("Messages", ())]
            case "delete" if handles:
                its = {**of, "ReceiptHandle": handles.pop()}
                site.call("DeleteMessage", self.root.delete_message, **its)
            case "forge":
                send, refused = self.stranger.send_message, "SignatureDoesNotMatch"
                site.call("SendMessage", send, refused, **of, MessageBody="mine")
            case _:
                site.call("ReceiveMessage", self.user.receive_message, "AccessDenied", **of)

    def _send(self, site: Site, chance: random.Random, *, fifo: bool) -> None:
        entries = [
            {"Id": str(at), "MessageBody": chance.choice("xyz") * chance.choice(SIZES_BYTES)}
            for at in range(chance.choice((1, 1, 4)))
        ]
        if fifo:
            names = (f"{chance.getrandbits(64):x}" for _ in entries)
            ids = [{"MessageGroupId": name, "MessageDeduplicationId": name} for name in names]
            entries = [{**entry, **its} for entry, its in zip(entries, ids, strict=True)]
            self._sent.append((time.monotonic(), entries))
        url = self.fifo_url if fifo else self.url
        site.send(self._sender(entries), url, entries, new=True)

    def _lately(self) -> list[list[Entry]]:
        """What was sent to the FIFO queue so lately that the same again is a duplicate."""
        since = time.monotonic() - DUPLICATE_S
        return [entries for at, entries in self._sent if at > since]

    def _sender(self, entries: list[Entry]) -> Any:
        return self.user.send_message_batch if len(entries) > 1 else self.user.send_message


def open_clients(site: Site) -> Clients:
    """Make the account, its user and a queue, in a sandbox that answers nobody else."""
    opened = site.sandbox().opened
    accounts = opened.service.accounts

    async def keys() -> tuple[Any, Any]:
        await accounts.create_account("shop", SHOP, {})
        await accounts.create_user(SHOP, "ann", [SENDER])
        return await accounts.create_key(SHOP), await accounts.create_key(SHOP, user="ann")

    root, user = opened.run(keys())
    owner = site.client(root)
    create = owner.create_queue
    url = str(site.call("CreateQueue", create, QueueName="orders")["QueueUrl"])
    # In high throughput a batch lies in several partitions.
    its = {"FifoQueue": "true", "DeduplicationScope": "messageGroup"}
    its["FifoThroughputLimit"] = "perMessageGroupId"
    made = site.call("CreateQueue", create, QueueName="mail.fifo", Attributes=its)
    site.drop()
    stranger = site.client(user, "not the secret")
    return Clients(owner, site.client(user), stranger, url, str(made["QueueUrl"]))


def answers_in(lines: list[str]) -> list[dict[str, Any]]:
    """The lines that are answers."""
    told = [json.loads(line) for line in lines]
    return [one for one in told if str(one.get("schema")).startswith("tidegate.usage")]
