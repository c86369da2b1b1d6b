"""Bodies are read as they were sent: once, not decompressed, and never as XML."""

import gzip
import subprocess
import sys
from typing import Any

import pytest
from msgspec.structs import replace

from data_plane.protocol import aws_json, aws_query
from tests.conformance.raw_calls import PROTOCOLS, Bench, Reply

PARAMS = {"QueueUrl": "orders", "MessageBody": "x"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "identity", "aws-chunked"])
def test_a_content_encoding_changes_nothing(protocol: str, encoding: str) -> None:
    """So a small body stays small: it cannot become a big one here."""
    bench = Bench(protocol)
    bench.ask("CreateQueue", QueueName="orders")
    request = bench.request("SendMessage", PARAMS)
    encoded = replace(request, headers={**request.headers, "content-encoding": encoding})
    assert bench.send(encoded) == Reply(200)
    reply = bench.send(replace(encoded, body=gzip.compress(request.body)))
    assert reply.code in ("MalformedInput", "MalformedQueryString")
    bench.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_request_is_parsed_once(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is authorised is what is carried out: no second reading could differ."""
    bench = Bench(protocol)
    bench.ask("CreateQueue", QueueName="orders")
    parsed: list[Any] = []
    module, name = (aws_json, "_parse") if protocol == "json" else (aws_query, "parse_in_slices")
    parse = getattr(module, name)

    def counted(*parts: Any) -> Any:
        parsed.append(parts)
        return parse(*parts)

    monkeypatch.setattr(module, name, counted)
    assert bench.call("SendMessage", PARAMS) == Reply(200)
    assert len(parsed) == 1
    bench.close()


def test_no_reader_of_xml_is_imported_by_what_serves_requests() -> None:
    """XML only goes out: nothing expands entities that nobody reads."""
    program = (
        "import sys, data_plane.frontend.front_end, data_plane.operations.catalog,"
        " data_plane.http.screening;"
        "print([name for name in sys.modules if name.split('.')[0] in"
        " ('xml', 'pyexpat', 'lxml', 'defusedxml', 'xmltodict')])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"
