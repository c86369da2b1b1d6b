"""What a request carries does not come out where it has no business: logs, metrics, headers."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from data_plane.frontend.exchange import Exchange
from data_plane.http.logs import LogWriter
from data_plane.http.metrics import Gauges, Metrics
from data_plane.protocol.http import HttpRequest, HttpResponse
from tests.conformance.planting import CREDENTIALS, around_parameters, in_parameters, opened
from tests.conformance.raw_calls import PROTOCOLS, Bench, form_request, json_request

CANARY = "canary!7f3a"
"""No queue's, account's or region's name, so that it may be in no line of a log."""
SPLITTING = (
    "canary!\r\nX-Injected: 1\r\n\r\nbody",
    'canary!"}\n{"event":"forged"}\n',
    "canary!\x00\x08\x1b[2J\x7f",
    "canary!\u0085\u2028\u2029",
)


class Outputs:
    """A bench, and everything that its server says of requests."""

    def __init__(self, protocol: str) -> None:
        self.bench = Bench(protocol)
        self._written: list[bytes] = []
        self._log = LogWriter(self._written.append, self.bench.server.clock, "info")
        self._metrics = Metrics()
        self._acts = 0

    def ask(self, request: HttpRequest) -> HttpResponse:
        response = self.bench.server.answer(request)
        served = self.bench.server.served[-1]
        self._log.served(served)
        self._metrics.served(served)
        for act in self.bench.server.acts[self._acts :]:
            self._log.act("act", fields=act)
        self._acts = len(self.bench.server.acts)
        return response

    def lines(self) -> list[dict[str, Any]]:
        """The log since the last look, whose lines end nowhere but at their end."""
        self._log.flush()
        text = b"".join(self._written).decode()
        self._written.clear()
        lines = text.split("\n")
        assert lines.pop() == ""
        return [json.loads(line) for line in lines]

    def metrics(self) -> str:
        return b"".join(self._metrics.pieces(Gauges({}, 0, 0.0, 0, {}))).decode()


@pytest.fixture(params=PROTOCOLS)
def outputs(request: pytest.FixtureRequest) -> Iterator[Outputs]:
    outputs = Outputs(request.param)
    yield outputs
    outputs.bench.server.close()


def requests(outputs: Outputs, text: str) -> Iterator[HttpRequest]:
    yield from around_parameters(outputs.bench.protocol, text)
    handles = opened(outputs.bench)
    yield from in_parameters(outputs.bench, handles, text)


def test_no_text_of_a_request_is_in_logs_metrics_or_headers(outputs: Outputs) -> None:
    asked = 0
    for request in requests(outputs, CANARY):
        response = outputs.ask(request)
        assert "canary" not in str(response.headers), request
        assert "canary" not in str(outputs.lines()), request
        assert response.status < 500, request
        asked += 1
    assert asked > 200
    assert "canary" not in outputs.metrics()


@pytest.mark.parametrize("text", SPLITTING, ids=["crlf", "json", "controls", "separators"])
def test_no_text_of_a_request_splits_what_is_said(outputs: Outputs, text: str) -> None:
    for request in requests(outputs, text):
        response = outputs.ask(request)
        for name, value in response.headers:
            assert name.isascii(), request
            assert value.isascii(), request
            assert value.isprintable(), request
        lines = outputs.lines()
        assert [line["event"] for line in lines if line["event"] != "act"] == ["request"]
        assert "canary" not in str(lines), request
        assert response.status < 500, request
        assert all(byte >= 0x20 or byte in b"\t\n" for byte in response.body), request
    assert all("canary" not in line for line in outputs.metrics().splitlines())


def test_no_answer_repeats_credentials(outputs: Outputs) -> None:
    """Parameters may be quoted to who sent them, as SQS does; what proves who one is may not."""
    for request in around_parameters(outputs.bench.protocol, CANARY):
        carried = [*request.headers.items(), ("query", request.query)]
        if any(CANARY in text for name, text in carried if name in _CREDENTIALS):
            assert CANARY.encode() not in outputs.ask(request).body, request


_CREDENTIALS = ("authorization", "x-amz-security-token", "cookie", "query")


@pytest.mark.parametrize("form", CREDENTIALS)
def test_a_failure_of_ours_tells_nothing_of_the_request(outputs: Outputs, form: str) -> None:
    async def fail(exchange: Exchange) -> None:
        given: dict[str, str] = {}
        try:
            given[f"{exchange.request}"]
        except KeyError as error:
            raise ValueError(f"{exchange.request} {exchange.params}") from error

    front_end = outputs.bench.server.front_end
    stages = front_end._stages
    headers = {"authorization": form.format(CANARY), "user-agent": CANARY}
    body = {"QueueUrl": "orders", "MessageBody": CANARY}
    request = (
        json_request("SendMessage", body, headers)
        if outputs.bench.protocol == "json"
        else form_request(f"Action=SendMessage&MessageBody={CANARY}".encode(), headers)
    )
    front_end._stages = (*stages[:4], fail)
    try:
        response = outputs.ask(request)
    finally:
        front_end._stages = stages
    (line,) = outputs.lines()
    assert (response.status, line["level"]) == (500, "error")
    assert line["traceback"].endswith("ValueError")
    assert "KeyError" in line["traceback"]
    assert "canary" not in str(line)
    assert "canary" not in str(response)
