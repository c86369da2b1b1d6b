"""A front end with all operations that verifies signatures, in virtual time and without chance."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

from control_plane.service import RunningService, ServicePorts, ServiceSettings
from data_plane.core import sigv4
from data_plane.core.errors import RefusedError
from data_plane.frontend.served import Served
from data_plane.memory.cell import MemoryCell
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.runtime.event_loop import EventLoopWaits
from tests.conformance.in_process import ACCOUNT, ENDPOINT, REGION
from tests.fuzz import stream_calls
from tests.property.request_corpus import QUEUES
from tests.unit.data_plane.master_keys import HeldKeys
from tests.unit.data_plane.runtime.virtual_loop import VirtualLoop
from tests.unit.repeatable import SECRET, SeededEntropy

_CLOSED_AGAIN = "InvalidClientTokenId"
_ANSWERED_MAX = 1_000


class FuzzedServer:
    """Answers requests of the root of one account; begins anew from time to time."""

    def __init__(self) -> None:
        self._open()

    def _open(self) -> None:
        loop = VirtualLoop()
        entropy = SeededEntropy()
        self._loop = loop
        self._runner = asyncio.Runner(loop_factory=lambda: loop)
        self._answered = 0
        self.served: list[Served] = []
        cell = MemoryCell(loop)
        ground = ServicePorts(
            cells={"a": cell},
            control=cell,
            bodies={},
            clock=loop,
            entropy=entropy,
            waits=EventLoopWaits(loop),
            registry_secret=SECRET,
            master_keys=HeldKeys(),
        )
        settings = ServiceSettings(verifies=True)
        service = RunningService(ground, settings, self.served.append, lambda *_, **__: None)
        self.operations, self._front_end = service.operations, service.front_end
        accounts = service.accounts
        self._runner.run(accounts.create_account("fuzzed", ACCOUNT, {}))
        self._key = self._runner.run(accounts.create_key(ACCOUNT))
        for name in QUEUES:
            fifo = '"FifoQueue":"true"' if name.endswith(".fifo") else ""
            body = f'{{"QueueName":"{name}","Attributes":{{{fifo}}}}}'.encode()
            assert self.json("CreateQueue", body).status == 200
        for action, params in stream_calls.MADE:
            assert self.kinesis(action, stream_calls.written(params)).status == 200

    def json(self, action: str, body: bytes) -> HttpResponse:
        """Answer a body in AWS JSON, which is signed as it is."""
        headers = {
            "x-amz-target": f"AmazonSQS.{action}",
            "content-type": "application/x-amz-json-1.0",
        }
        return self.answer("/", headers, body)

    def kinesis(self, action: str, body: bytes) -> HttpResponse:
        """Answer a body in AWS JSON of a call on streams, which is signed as it is."""
        headers = {
            "x-amz-target": f"Kinesis_20131202.{action}",
            "content-type": "application/x-amz-json-1.1",
        }
        return self.answer("/", headers, body, "kinesis")

    def form(self, path: str, body: bytes) -> HttpResponse:
        """Answer a form of the Query protocol, which is signed as it is."""
        headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
        return self.answer(path, headers, body)

    def answer(
        self, path: str, headers: Mapping[str, str], body: bytes, service: str = "sqs"
    ) -> HttpResponse:
        """The answer to a signed POST. What is no answer of 2xx or 4xx is raised."""
        if self._answered == _ANSWERED_MAX or (
            self.served and self.served[-1].code == _CLOSED_AGAIN
        ):
            self.close()
            self._open()
        self._answered += 1
        self.served.clear()
        response = self._runner.run(
            self._front_end.answer(self._sign(path, headers, body, service))
        )
        (served,) = self.served
        if served.exception is not None:
            raise served.exception
        assert response.status < 500, (response.status, response.body)
        return response

    def _sign(
        self, path: str, headers: Mapping[str, str], body: bytes, service: str
    ) -> HttpRequest:
        date = f"{datetime.fromtimestamp(self._loop.now_us() // 1_000_000, UTC):%Y%m%dT%H%M%SZ}"
        day = date[:8]
        sent = {**headers, "host": ENDPOINT.partition("://")[2], "x-amz-date": date}
        names = sorted(sent)
        scope = f"{day}/{REGION}/{service}/aws4_request"
        try:
            canonical = sigv4.canonical_request(
                "POST", path, "", sent, names, sigv4.body_hash(body)
            )
        except (RefusedError, UnicodeEncodeError):  # no address: it is not sent
            canonical = ""
        signature = sigv4.signature(
            sigv4.signing_key(self._key.secret, day, REGION, service),
            sigv4.string_to_sign(date, scope, canonical),
        )
        sent["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self._key.id}/{scope}, "
            f"SignedHeaders={';'.join(names)}, Signature={signature}"
        )
        return HttpRequest("POST", path, "", sent, body, "127.0.0.1")

    def close(self) -> None:
        """End what still runs."""
        self._runner.close()
