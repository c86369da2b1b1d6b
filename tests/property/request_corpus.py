"""Requests of every operation, valid and wrong ones, from a random source.

Parameters are made from the operation's own shape, by the names of its members; so operations that
are added are in the corpus, too.
"""

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from msgspec.structs import replace

from data_plane.protocol.http import HttpRequest
from data_plane.protocol.operation import Operation
from data_plane.protocol.shapes import ListOf, MapOf, Scalar, Shape, Structure
from tests.conformance.in_process import ACCOUNT, REGION
from tests.conformance.raw_calls import encode_form, form_fields, form_request, json_request, url

QUEUES = ("orders", "orders.fifo", "dead", "spare")

TEXT = {"DataType": "String", "StringValue": "x"}
NUMBER = {"DataType": "Number.int", "StringValue": "-1.5e3"}
BINARY = {"DataType": "Binary", "BinaryValue": "AAE="}
ARNS = [f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}" for name in QUEUES]
REDRIVE = json.dumps({"deadLetterTargetArn": ARNS[2], "maxReceiveCount": 3})
POLICY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": {
            "Effect": "Allow",
            "Principal": {"AWS": ACCOUNT},
            "Action": "sqs:SendMessage",
            "Resource": ARNS[0],
        },
    }
)

IDENTITY_POLICY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": {"Effect": "Allow", "Action": "sqs:*", "Resource": "*"},
    }
)
SPARE_ACCOUNT = "444455556666"

SAMPLES: Mapping[str, list[Any]] = {
    "QueueName": ["orders", "new", "new.fifo", "orders.fifo"],
    "QueueNamePrefix": ["", "o"],
    "QueueOwnerAWSAccountId": [ACCOUNT],
    "MessageBody": ["x", "a\tb\r\n", "\u00fc\u20ac\U0001f600"],
    "MessageAttributes": [{"a": TEXT}, {"n": NUMBER, "b.c": BINARY}],
    "MessageSystemAttributes": [{"AWSTraceHeader": TEXT}],
    "MessageGroupId": ["g", "h"],
    "MessageDeduplicationId": ["d", "e"],
    "ReceiveRequestAttemptId": ["r"],
    "DelaySeconds": [0, 5, 900],
    "VisibilityTimeout": [0, 30, 43_200],
    "WaitTimeSeconds": [0, 1, 20],
    "MaxNumberOfMessages": [1, 10],
    "MaxResults": [1, 1000],
    "MaxNumberOfMessagesPerSecond": [1, 500],
    "NextToken": [""],
    "AttributeNames": [["All"], []],
    "MessageSystemAttributeNames": [["All"], ["SenderId", "SentTimestamp"]],
    "MessageAttributeNames": [["All"], ["a", "b.*"]],
    "Attributes": [
        {"VisibilityTimeout": "5", "DelaySeconds": "1"},
        {"RedrivePolicy": REDRIVE},
        {"RedriveAllowPolicy": '{"redrivePermission":"denyAll"}'},
        {"Policy": POLICY},
        {"KmsMasterKeyId": "alias/x", "KmsDataKeyReusePeriodSeconds": "60"},
        {"FifoQueue": "true", "ContentBasedDeduplication": "true"},
        {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"},
        {"ReceiveMessageWaitTimeSeconds": "20", "MaximumMessageSize": "1024"},
        {"MessageRetentionPeriod": "60", "SqsManagedSseEnabled": "false"},
    ],
    "tags": [{"k": "v"}],
    "Tags": [{"k": "v", "l": ""}],
    "TagKeys": [["k"]],
    "Label": ["l", "m"],
    "AWSAccountIds": [[ACCOUNT]],
    "Actions": [["SendMessage"], ["*"]],
    "SourceArn": [ARNS[2]],
    "DestinationArn": [ARNS[0]],
    "AccountId": [ACCOUNT],
    "Name": ["shop"],
    "UserName": ["ann"],
    "Service": ["sns.amazonaws.com"],
    "Quotas": [{"account_send_per_s": 5, "long_polls": 0}],
    "Policies": [[IDENTITY_POLICY], []],
}
"""Values by the name of the member, whatever operation has it."""
HANDLES = {"ReceiptHandle": "", "TaskHandle": "task", "AccessKeyId": "key"}
OF_FIFO = ("MessageGroupId", "MessageDeduplicationId", "ReceiveRequestAttemptId")

NASTY: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    11,
    2**31,
    -(2**63),
    2**63,
    10**40,
    1.5,
    1e308,
    "",
    " ",
    "0",
    "-1",
    "1e9",
    "NaN",
    "true",
    "null",
    "x" * 300,
    "x" * 1025,
    "\x00",
    "\x0b",
    "\ufffe",
    "\ud800",
    "\udc00\ud800",
    "\u0661",
    "\U0010ffff",
    "a\u0000b.fifo",
    "..",
    ".a",
    "AWS.a",
    "All",
    "%",
    "%zz",
    "&a=b",
    "<b>&amp;]]>",
    "'\"\\",
    "{}",
    "[]",
    '{"a":',
    '{"deadLetterTargetArn":1,"maxReceiveCount":{}}',
    '{"Statement":[null]}',
    '{"redrivePermission":["byQueue"],"sourceQueueArns":{}}',
    "[" * 5000,
    "http://[",
    "http://h/1/2/3",
    "arn:aws:sqs:::",
    "arn:aws:sqs:eu-west-1:111122223333:a:b",
    "AAAA",
    "A" * 64,
    "WyIxIiwiMiIsIjMiLCI0Il0=",
    [],
    {},
    [[]],
    [None],
    {"": ""},
    {"a": None},
    {"a": {"DataType": "Binary", "BinaryValue": "="}},
]
TOKENS = [
    *(bytes([byte]) for byte in b'"{}[]:,\\&=%.+-0123456789 \n\x00\x1f\x7f\x80\xc3\xff'),
    b"null",
    b"true",
    b"\\u0000",
    b"\\ud83d",
    b"1e999",
    b"9" * 30,
    b"%00",
    b"%ff",
    b".1.",
    b".0",
    b".member",
]
HEADERS: Mapping[str, list[str]] = {
    "x-amz-target": ["", "AmazonSQS", "AmazonSQS.", "AmazonSNS.SendMessage", "\u00fc.\u00fc"],
    "content-type": ["", "text/xml", "application/x-amz-json-1.1", "application/json", "\x00"],
    "accept": ["*/*", "application/json", "text/html, application/json;q=0.9"],
    "authorization": ["", "Basic eDp5", "AWS4-HMAC-SHA256 Credential=////", "\udcff"],
    "host": ["", "h h", "[::1]:99999", "\udcff"],
    "amz-sdk-invocation-id": ["", "i", "\u00fc", "x" * 200],
    "amz-sdk-request": ["attempt=2", "attempt=\u0662", "attempt=", ";;="],
    "x-forwarded-proto": ["https", "javascript", "a,b"],
}
HARMS = ["gone", "wrapped", "again", "renamed"]
METHODS = ["GET", "POST", "PUT", "HEAD", "", "post"]
PATHS = [
    "/",
    "",
    "//",
    "/x",
    f"/{ACCOUNT}/orders",
    f"/{ACCOUNT}/other",
    "/a/b",
    "/%00/%",
    "/\u00fc/b",
]


class Corpus:
    """Requests in one protocol, all from one random source.

    `handles` are those of messages by their queue, that of a `task`, and the id of an access `key`.
    """

    def __init__(
        self,
        random: Random,
        protocol: str,
        operations: Mapping[str, Operation],
        handles: Mapping[str, str],
    ) -> None:
        self._random = random
        self._protocol = protocol
        self._operations = operations
        self._handles = handles
        self._queue = QUEUES[0]

    def valid(self, action: str, *, least: bool = False) -> dict[str, Any]:
        """Parameters of an operation; with `least`, only those that it requires."""
        self._queue = self._random.choice(QUEUES[:3])
        if action == "DeleteQueue":
            self._queue = "spare"  # the others are to stay a while
        params = self._structure(self._operations[action].input, least=least)
        if action == "TidegateCloseAccount":
            params["AccountId"] = SPARE_ACCOUNT  # likewise
        return params

    def wrong(self) -> HttpRequest:
        """A request of any operation with something wrong in it, mostly."""
        random = self._random
        action = random.choice(sorted(self._operations))
        params: Any = self.valid(action)
        where = random.choice(["parameters", "parameters", "parameters", "bytes", "request"])
        if where == "parameters":
            for _ in range(random.choice([1, 1, 1, 2, 3])):
                params = self._spoil(params)
        request = self.request(action, params)
        if where == "bytes":
            return replace(request, body=self._spoil_bytes(request.body))
        return self._spoil_request(request) if where == "request" else request

    def request(self, action: str, params: Any) -> HttpRequest:
        """The request in the corpus's protocol, as its clients write it."""
        if self._protocol == "json":
            if self._random.random() < 0.5:
                return json_request(action, params)
            text = json.dumps(params, ensure_ascii=False)
            return json_request(action, text.encode(errors="surrogatepass"))
        fields = form_fields(action, params, self._operations[action].input)
        return form_request(encode_form(fields))

    def _structure(self, shape: Structure, *, least: bool) -> dict[str, Any]:
        fifo = self._queue.endswith(".fifo")
        wanted = [
            name
            for name in shape.members
            if name in shape.required
            or (fifo and name in OF_FIFO)
            or (not least and self._random.random() < 0.4 and (fifo or name not in OF_FIFO))
        ]
        return {name: self._value(name, shape.members[name], least=least) for name in wanted}

    def _value(self, name: str, shape: Shape, *, least: bool) -> Any:
        if name == "QueueUrl":
            return self._random.choice([url(self._queue), self._queue])
        if name in HANDLES:
            return self._handles.get(HANDLES[name] or self._queue, "x")
        if name == "Entries":
            return self._entries(shape, least=least)
        if name in SAMPLES:
            return self._random.choice(SAMPLES[name])
        return self._of_shape(shape, least=least)

    def _of_shape(self, shape: Shape, *, least: bool) -> Any:
        match shape:
            case Scalar():
                return 1 if shape.kind == "integer" else "x"
            case ListOf():
                return [self._of_shape(shape.member, least=least)]
            case MapOf():
                return {"x": self._of_shape(shape.value, least=least)}
            case Structure():
                return self._structure(shape, least=least)

    def _entries(self, shape: Shape, *, least: bool) -> list[dict[str, Any]]:
        assert isinstance(shape, ListOf)
        assert isinstance(shape.member, Structure)
        count = 1 if least else self._random.choice([1, 2, 3, 10])
        entries = [self._structure(shape.member, least=least) for _ in range(count)]
        # An entry of a batch requires more than its shape says: SQS asks in words of its own.
        extra = {"VisibilityTimeout": 1} if "VisibilityTimeout" in shape.member.members else {}
        return [{**extra, **entry, "Id": f"e{number}"} for number, entry in enumerate(entries)]

    def _spoil(self, params: Any) -> Any:
        """Change something somewhere in the parameters."""
        random = self._random
        spoilt = json.loads(json.dumps(params))
        places: list[tuple[Any, Any]] = (
            [(spoilt, key) for key in spoilt] if isinstance(spoilt, dict) else []
        )
        for container, key in places:
            inner = container[key]
            if isinstance(inner, dict):
                places += [(inner, name) for name in inner]
            elif isinstance(inner, list):
                places += [(inner, position) for position in range(len(inner))]
        if not places or random.random() < 0.05:
            return random.choice([*NASTY, {random.choice(["QueueUrl", "", "a"]): params}])
        container, key = random.choice(places)
        if key == "QueueUrl":  # what is wrong with it hides all else
            container, key = random.choice(places)
        match random.choice([*["like", "like", "like", "nasty"] * 2, *HARMS]):
            case "gone":
                del container[key]
            case "wrapped":
                container[key] = random.choice([[container[key]], {"a": container[key]}])
            case "again":
                container[key] = [container[key]] * random.choice([0, 2, 11])
            case "like":
                kind = type(container[key])
                container[key] = random.choice([one for one in NASTY if type(one) is kind])
            case "renamed" if isinstance(container, dict):
                name = random.choice([key.lower(), key + "s", "", "x" * 300, "\ufffe"])
                container[name] = container.pop(key)
            case _:
                container[key] = random.choice(NASTY)
        return spoilt

    def _spoil_bytes(self, body: bytes) -> bytes:
        random = self._random
        for _ in range(random.randint(1, 4)):
            # A share of it: handles, and so bodies, are not as long in every run.
            start = int(random.random() * (len(body) + 1))
            end = min(len(body), start + random.choice([0, 1, 1, 5, 40]))
            match random.choice(["replaced", "replaced", "gone", "twice", "cut"]):
                case "replaced":
                    body = body[:start] + random.choice(TOKENS) + body[end:]
                case "gone":
                    body = body[:start] + body[end:]
                case "twice":
                    body = body[:end] + body[start:]
                case _ if random.random() < 0.3:
                    body = body[:start]
        return body

    def _spoil_request(self, request: HttpRequest) -> HttpRequest:
        random = self._random
        match random.choice(["method", "path", "query", "header", "header", "no header"]):
            case "method":
                return replace(request, method=random.choice(METHODS))
            case "path":
                return replace(request, path=random.choice(PATHS))
            case "query":
                query = self._spoil_bytes(request.body[:2000]).decode(errors="replace")
                return replace(request, query=query, body=random.choice([b"", request.body]))
            case "header":
                name = random.choice(sorted(HEADERS))
                headers = {**request.headers, name: random.choice(HEADERS[name])}
                return replace(request, headers=headers)
            case _:
                headers = dict(request.headers)
                del headers[random.choice(sorted(headers))]
                return replace(request, headers=headers)
