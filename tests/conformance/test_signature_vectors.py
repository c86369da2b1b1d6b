"""AWS's own vectors for Signature Version 4, as botocore's source distribution carries them.

Each has a request, its canonical form, the string to sign and the signature. They are for a service
called "service", so the functions are tried and not the stage, which takes signatures for SQS.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from data_plane.core import sigv4
from data_plane.protocol.http import HttpRequest
from tests.conformance import protocol_vectors
from tests.conformance.signing import KEY, SECRET, Verifier, signed

FOLDER = protocol_vectors.FOLDER.parent / "auth/aws4_testsuite"
COUNT = 34
LEFT_OUT = {
    "get-header-value-multiline": "a folded header: the HTTP server refuses it (RFC 9112, 5.2)",
}
DATE = "20150830T123600Z"
SCOPE = "20150830/us-east-1/service/aws4_request"


def vectors() -> list[Any]:
    if not FOLDER.is_dir():
        absent = pytest.mark.skip(reason="AWS's vectors are missing: `make test` fetches them")
        return [pytest.param(None, marks=absent, id="missing")]
    return [
        pytest.param(path, id=path.stem)
        for path in sorted(FOLDER.rglob("*.req"))
        if path.stem not in LEFT_OUT
    ]


def read_request(text: str) -> HttpRequest:
    """The request as a server hands it over."""
    head, _, body = text.partition("\n\n")
    first, *lines = head.rstrip("\n").split("\n")
    method, target = first.removesuffix(" HTTP/1.1").split(" ", 1)
    path, _, query = target.partition("?")
    headers: dict[str, str] = {}
    for line in lines:
        name, value = line.split(":", 1)
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return HttpRequest(method, path, query, headers, body.encode())


def read(path: Path, suffix: str) -> str:
    return path.with_suffix(suffix).read_text(encoding="utf-8").replace("\r\n", "\n")


@pytest.mark.parametrize("path", vectors())
def test_vector(path: Path) -> None:
    request = read_request(read(path, ".sreq"))
    authorization = read(path, ".authz")
    names = re.findall("SignedHeaders=([^,]+)", authorization)[0].split(";")
    canonical = sigv4.canonical_request(
        request.method,
        request.path,
        sigv4.canonical_query(request.query),
        request.headers,
        names,
        sigv4.body_hash(request.body),
    )
    assert canonical == read(path, ".creq")
    text = sigv4.string_to_sign(DATE, SCOPE, canonical)
    assert text == read(path, ".sts")
    claimed = re.findall("Signature=(.+)", authorization)[0]
    verifier = sigv4.Verifier(sigv4.signing_key(SECRET, "20150830", "us-east-1", "service"))
    assert verifier.is_signature(text, claimed)
    assert not verifier.is_signature(text + "\n", claimed)


@pytest.mark.skipif(not FOLDER.is_dir(), reason="AWS's vectors are missing: see `make test`")
def test_every_vector_runs_or_is_left_out_with_a_reason() -> None:
    found = {path.stem for path in FOLDER.rglob("*.req")}
    assert len(found) == COUNT
    assert len(vectors()) == COUNT - len(LEFT_OUT)
    assert found >= LEFT_OUT.keys()
    print(f"{COUNT - len(LEFT_OUT)} of {COUNT} vectors; left out: {LEFT_OUT}")


def test_a_token_added_after_signing_is_refused() -> None:
    """What the vector `post-sts-header-after` does: its token is not signed."""
    verifier = Verifier()
    request = signed("POST", key=KEY)
    assert verifier.verify(request).caller == KEY.caller
    altered = replace(request, headers={**request.headers, "x-amz-security-token": "AQoD"})
    assert verifier.refusal(altered)[0] == "SignatureDoesNotMatch"
