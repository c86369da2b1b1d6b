"""botocore's protocol vectors against the decoders and encoders of both protocols.

Requests of its clients are decoded to what the client was given; our answers have the content of
the vectors' answers, and botocore's parsers read from them what the vectors say.
"""

import copy
import json
from collections import Counter
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from botocore.awsrequest import HeadersDict
from botocore.model import OperationModel, ServiceModel
from botocore.parsers import create_parser

from data_plane.core.errors import Fault
from data_plane.protocol import aws_json, aws_query, query_xml
from data_plane.protocol.http import HttpResponse
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.shapes import Structure
from tests.conformance.protocol_vectors import FOLDER, LeftOutError, Vector, vectors

FILES = (
    "{}/json_1_0",
    "{}/json_1_0-query-compatible",
    "{}/json",
    "{}/query",
    "legacy/{}/json",
    "legacy/{}/query",
)
OF_CLIENTS = {
    "AwsJson10DeserializeAllowNulls",
    "AwsJson10DeserializeIgnoreType",
    "AwsJson10HandlesUnexpectedJsonOutput",
    "AwsJson11DeserializeIgnoreType",
    "AwsJson11StructuresDontDeserializeNullValues",
    "Ignores extra data (5.0)",
    "Lists (3.1)",
    "handles_unexpected_json_output",
}
"""Vectors of answers that servers do not give: with nulls, types or unknown members."""
LEFT_OUT = {
    "a body that the vector does not show",
    "document: SQS has none",
    "double: SQS has none",
    "errors with members of their own: SQS has none",
    "eventstream: SQS has none",
    "float: SQS has none",
    "idempotencyToken: SQS has none",
    "jsonvalue: SQS has none",
    "list that is not flattened: SQS has none",
    "long: SQS has none",
    "map that is not flattened: SQS has none",
    "timestamp: SQS has none",
    "what clients do with answers that servers do not give",
}


def runnable(vector: Vector) -> str:
    """Why the vector is left out, or ""."""
    case = vector.case
    if vector.name.partition(": ")[2] in OF_CLIENTS:
        return "what clients do with answers that servers do not give"
    if case.get("error", {}).keys() - {"message", "Message", "BodyMember"}:
        return "errors with members of their own: SQS has none"
    try:
        if "params" in case:
            if "body" not in case["serialized"] and case["params"]:
                return "a body that the vector does not show"
            vector.shape("input", case["params"])
        elif "error" not in case:
            vector.shape("output", case["result"])
    except LeftOutError as reason:
        return str(reason)
    return ""


def parameters(side: str, kind: str) -> list[Any]:
    if not FOLDER.is_dir():
        absent = pytest.mark.skip(reason="botocore's vectors are missing: `make test` fetches them")
        return [pytest.param(None, marks=absent, id="missing")]
    return [
        pytest.param(vector, id=vector.name)
        for vector in vectors(side, FILES)
        if kind in vector.case and not runnable(vector)
    ]


@pytest.mark.parametrize("vector", parameters("input", "params"))
def test_requests(vector: Vector) -> None:
    shape = vector.shape("input", vector.case["params"])
    body = vector.case["serialized"].get("body", "").encode()
    decoded: Params
    if vector.protocol == "json":
        decoded = aws_json.decode(body, aws_json.reader(shape))
    else:
        fields = aws_query.parse_fields("", body)
        decoded = aws_query.decode(fields, shape)
        assert fields["Action"] == vector.operation
    assert decoded == vector.value("input", vector.case["params"])


async def nothing(_call: Call) -> Params:
    return {}


def parsed(vector: Vector, answer: HttpResponse) -> dict[str, Any]:
    """What botocore's parser makes of our answer under the vector's model."""
    description = copy.deepcopy(dict(vector.model))
    description["operations"] = {vector.operation: vector.case}
    model = ServiceModel(description)
    output: Any = OperationModel(vector.case["given"], model).output_shape
    if vector.protocol == "query" and output is not None and output.members:
        output.serialization["resultWrapper"] = f"{vector.operation}Result"
    response = {
        "status_code": answer.status,
        "headers": HeadersDict(answer.headers),
        "body": answer.body,
        "context": {"operation_name": vector.operation},
    }
    return dict(create_parser(vector.protocol).parse(response, output))


def content(element: ET.Element) -> Any:
    """An XML element without namespaces and request ids: text, or children by name in order."""
    children: dict[str, list[Any]] = {}
    for child in element:
        name = child.tag.partition("}")[2] or child.tag
        if name != "ResponseMetadata":
            children.setdefault(name, []).append(content(child))
    return children or (element.text or "").strip()


@pytest.mark.parametrize("vector", parameters("output", "result"))
def test_answers(vector: Vector) -> None:
    result = vector.case["result"]
    value = vector.value("output", result)
    body = vector.case["response"].get("body", "")
    if vector.protocol == "json":
        answer = aws_json.encode("id-1", value)
        assert json.loads(answer.body) == json.loads(body or "{}")
    else:
        shape = vector.shape("output", result)
        operation = Operation(vector.operation, Structure(), shape, nothing)
        answer = query_xml.encode("id-1", operation, value)
        if body:
            assert content(ET.fromstring(answer.body)) == content(ET.fromstring(body))  # noqa: S314
    read = parsed(vector, answer)
    assert read.pop("ResponseMetadata")["RequestId"] == "id-1"
    assert read == value


@pytest.mark.parametrize("vector", parameters("output", "error"))
def test_faults(vector: Vector) -> None:
    case = vector.case
    headers = HeadersDict(case["response"].get("headers", {}))
    shape = case["given"]["errors"][0]["shape"]
    code = case["errorCode"]
    fault = Fault(shape, code, case["response"]["status_code"])
    encode = aws_json.encode_fault if vector.protocol == "json" else query_xml.encode_fault
    answer = encode("id-1", fault, case.get("errorMessage", ""))
    read = parsed(vector, answer)
    assert (read["Error"]["Code"], read["Error"]["Message"]) == (code, case.get("errorMessage", ""))
    assert read["ResponseMetadata"]["RequestId"] == "id-1"
    assert read["ResponseMetadata"]["HTTPStatusCode"] == case["response"]["status_code"]
    if "x-amzn-query-error" in headers:
        assert HeadersDict(answer.headers)["x-amzn-query-error"] == headers["x-amzn-query-error"]


@pytest.mark.skipif(not FOLDER.is_dir(), reason="botocore's vectors are missing: see `make test`")
def test_what_is_left_out() -> None:
    every = [vector for side in ("input", "output") for vector in vectors(side, FILES)]
    reasons = Counter(runnable(vector) for vector in every)
    print("\n".join(f"{count} vectors left out: {why}" for why, count in reasons.items() if why))
    assert reasons.pop("") >= 200
    assert set(reasons) == LEFT_OUT
