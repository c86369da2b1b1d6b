"""Ids and attempts of calls, as they go out."""

import io
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HeadersDict

import tidegate_sdk
from tidegate_sdk import named_calls

PUT = {"StreamName": "clicks", "Records": [{"Data": b"x", "PartitionKey": "k"}]}


class _Answer(io.BytesIO):
    def stream(self, **_: object) -> Any:
        yield self.read()


def test_a_call_goes_out_under_the_name_of_its_first_attempt() -> None:
    client = tidegate_sdk.client(
        "http://streams.example",
        "kinesis",
        region_name="eu-west-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )
    for _ in range(2):
        named_calls.let_name(client, "PutRecords")
    sent: list[tuple[str, str]] = []

    def answer(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        said: Any = request.headers
        sent.append((_text(said["amz-sdk-invocation-id"]), _text(said["amz-sdk-request"])))
        headers: Any = HeadersDict({})
        body: Any = _Answer(b'{"Records": []}')
        return AWSResponse(request.url, 200, headers, body)

    client.meta.events.register_last("before-send.kinesis", answer)
    for before in (0, 4):
        named_calls.call(client.put_records, "mine", before, PUT)
    client.put_records(**PUT)
    assert [name for name, _ in sent[:2]] == ["mine", "mine"]
    assert [request.partition(";")[0] for _, request in sent] == [
        "attempt=1",
        "attempt=5",
        "attempt=1",
    ]
    assert sent[2][0] != "mine"


def _text(header: bytes | str) -> str:
    return header.decode() if isinstance(header, bytes) else header
