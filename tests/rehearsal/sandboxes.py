"""Sandboxes of a door over S3 and DynamoDB in memory, that end as they please, and their logs."""

import json
import random
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
from msgspec.structs import replace

from control_plane.serverless import sandbox as sandbox_module
from control_plane.serverless.answer_lines import AnswerLines
from control_plane.serverless.sandbox import Sandbox
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
BEFORE_ITS_LINE, AFTER_ITS_LINE = "before its line", "after its line"
US_PER_MINUTE = 60_000_000


class CutOffError(BaseException):
    """The sandbox ends here, whatever it was about to do."""


class StoryLines(AnswerLines):
    """Lines of answers in minutes of a story, in which sandboxes are cut off."""

    minute: ClassVar[int] = 0
    cut_off: ClassVar[str] = ""

    def served(self, served: Served) -> None:
        if self.cut_off == BEFORE_ITS_LINE:
            raise CutOffError
        super().served(replace(served, finished_us=self.minute * US_PER_MINUTE))
        if self.cut_off == AFTER_ITS_LINE:
            raise CutOffError


Answered = Counter[tuple[str, str]]
"""Requests by operation and code of the error."""


@dataclass
class Site:
    """A deployment of which one sandbox is up at a time; `streams` are the logs of all of them.

    `told` is what clients were told, `untold` what they asked when a sandbox was cut off after its
    line, which is in `unanswered`.
    """

    environ: dict[str, str]
    streams: list[list[str]] = field(default_factory=list)
    told: Answered = field(default_factory=Counter)
    untold: Answered = field(default_factory=Counter)
    unanswered: list[str] = field(default_factory=list)
    messages_sent: int = 0
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
        self.messages_sent += operation == "SendMessage"
        return output

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
        match chance.choice(("send", "send", "receive", "receive", "delete", "peek", "forge")):
            case "send":
                site.call("SendMessage", self.user.send_message, **of, MessageBody="x" * 70_000)
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
    url = str(site.call("CreateQueue", owner.create_queue, QueueName="orders")["QueueUrl"])
    site.drop()
    return Clients(owner, site.client(user), site.client(user, "not the secret"), url)


def answers_in(lines: list[str]) -> list[dict[str, Any]]:
    """The lines that are answers."""
    told = [json.loads(line) for line in lines]
    return [one for one in told if str(one.get("schema")).startswith("tidegate.usage")]
