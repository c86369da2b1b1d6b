"""A second service passes the stages of the first: no stage knows either of them by name."""

import json
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlencode

import pytest

from data_plane.core.caller import AccessKey, Caller
from data_plane.core.queue import Queue
from data_plane.core.quotas import UNLIMITED, Quotas
from data_plane.core.token_bucket import Rate
from data_plane.frontend.front_end import FrontEnd
from data_plane.frontend.served import Served
from data_plane.frontend.settings import FrontEndSettings
from data_plane.http.lines import fields_of
from data_plane.http.metrics import Gauges, Metrics
from data_plane.operations.catalog import message_operations
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.protocol.sqs import sqs
from data_plane.usage.totals import Counting
from tests.conformance.signing import ACCOUNT, FORM, KEY, FixedClock, KnownKeys, signed
from tests.unit.data_plane.frontend import toy_service
from tests.unit.data_plane.frontend.toy_service import Toys
from tests.unit.data_plane.wire import ORDERS, FakeBag, run

PUT_PER_S = 3
POLICY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": "toys:PutToy", "Resource": "arn:aws:toys:*:*:bear"}
        ],
    }
)
USER_KEY = AccessKey("AKIDUSER", "hers", Caller(ACCOUNT, "ann", "", "AKIDUSER", (POLICY,)))


class Shop:
    """A front end of SQS and of toys, whose calls are signed, and what is told of its answers."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.toys = Toys()
        self.served: list[Served] = []
        self.queues_looked_up: list[str] = []
        self.metrics, self.counting = Metrics(), Counting(())
        keys = KnownKeys({key.id: key for key in (KEY, USER_KEY)})
        self.front_end = FrontEnd(
            (sqs(message_operations(FakeBag())), toy_service.toy_service(self.toys)),
            self,
            FixedClock(),
            self,
            FrontEndSettings(),
            self._observe,
            quotas=self,
            credentials=keys,
        )

    def _observe(self, served: Served) -> None:
        self.served.append(served)
        self.metrics.served(served)
        self.counting.served(served)

    def random_bytes(self, count: int) -> bytes:
        return bytes(count)

    async def find(self, account: str, _region: str, name: str) -> Queue | None:
        self.queues_looked_up.append(name)
        return replace(ORDERS, account=account, name=name)

    async def find_quotas(self, _account: str) -> Quotas:
        return replace(UNLIMITED, account={"send": Rate(PUT_PER_S, PUT_PER_S)})

    def request(
        self, action: str, params: Mapping[str, str], key: AccessKey, service: str
    ) -> HttpRequest:
        if self.protocol == "json":
            target = f"{toy_service.TARGET_PREFIX}.{action}"
            headers = {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0"}
            body = json.dumps(params).encode()
        else:
            headers = {"Content-Type": FORM}
            fields = {"Action": action, "Version": toy_service.VERSION, **params}
            body = urlencode(fields).encode()
        return signed("POST", headers=headers, body=body, key=key, service=service)

    def call(
        self, action: str, *, key: AccessKey = KEY, service: str = "toys", **params: str
    ) -> HttpResponse:
        return run(self.front_end.answer(self.request(action, params, key, service)))

    def code(self, action: str, **options: object) -> str:
        """The code of the error that it is refused with; "" where it is not."""
        answer = self.call(action, **options)  # type: ignore[arg-type]
        assert (answer.status == 200) == (self.served[-1].code == "")
        return self.served[-1].code


@pytest.fixture(params=["json", "query"])
def shop(request: pytest.FixtureRequest) -> Shop:
    return Shop(request.param)


def test_its_operations_are_found_and_answered_in_its_own_words(shop: Shop) -> None:
    put, listed = shop.call("PutToy", Name="bear"), shop.call("ListQueues")
    assert shop.toys.owners == {"bear": ACCOUNT}
    if shop.protocol == "json":
        assert json.loads(put.body) == {"Pieces": 4}
        assert json.loads(listed.body) == {"Names": ["bear"]}
        return
    assert f'<ListQueuesResponse xmlns="{toy_service.NAMESPACE}">'.encode() in listed.body
    assert b"<ListQueuesResult><Name>bear</Name></ListQueuesResult>" in listed.body
    assert b"<Pieces>4</Pieces>" in put.body


def test_its_refusals_are_its_own(shop: Shop) -> None:
    answer = shop.call("PutToy", Name="broken")
    assert answer.status == 409
    if shop.protocol == "json":
        assert json.loads(answer.body)["__type"] == "com.example.toys#ToyBroken"
    else:
        assert f'xmlns="{toy_service.NAMESPACE}"'.encode() in answer.body
    assert shop.code("PutToy") == "MissingParameter"
    assert shop.code("SendMessage", QueueUrl="orders", MessageBody="x") == "InvalidAction"
    too_long = shop.call("PutToy", Name="b" * toy_service.BODY_BYTES_MAX)
    assert too_long.status == 413


def test_it_is_signed_for_by_its_own_name(shop: Shop) -> None:
    assert shop.code("ListQueues") == ""
    assert shop.code("ListQueues", service="sqs") == "SignatureDoesNotMatch"
    stranger = AccessKey(KEY.id, "not the secret", KEY.caller)
    assert shop.code("ListQueues", key=stranger) == "SignatureDoesNotMatch"
    assert shop.code("ListQueues") == ""


def test_policies_name_its_actions_and_resources(shop: Shop) -> None:
    assert shop.code("PutToy", key=USER_KEY, Name="bear") == ""
    assert shop.code("PutToy", key=USER_KEY, Name="doll") == "AccessDenied"
    refused = shop.call("ListQueues", key=USER_KEY)
    assert b"toys:ListQueues on resource: arn:aws:toys:eu-west-1:111122223333:" in refused.body


def test_a_queue_has_no_say_in_it(shop: Shop) -> None:
    """There is a queue of every name here, with whatever policy: none is asked for one."""
    assert shop.code("PutToy", key=USER_KEY, Name="bear") == ""
    assert shop.queues_looked_up == []


def test_its_calls_count_in_the_classes_that_it_says(shop: Shop) -> None:
    outcomes = [shop.code("PutToy", Name="bear") for _ in range(PUT_PER_S + 2)]
    assert outcomes == [""] * PUT_PER_S + ["RequestThrottled"] * 2
    assert shop.code("ListQueues") == ""
    # What is refused unread goes by the whole target: SQS has operations of the same names.
    headers = shop.request("PutToy", {}, KEY, "toys").headers
    unread = shop.front_end.refuse_unread(headers)
    assert (unread is not None) == (shop.protocol == "json")


def test_it_is_metered_and_logged_under_its_own_name(shop: Shop) -> None:
    shop.call("PutToy", Name="bear")
    shop.call("ListQueues")
    lines = [fields_of(served, "info", 0) for served in shop.served]
    assert [line["operation"] for line in lines] == ["toys:PutToy", "toys:ListQueues"]
    assert (lines[0]["messages"], lines[0]["bytes"]) == (1, 4)
    told = b"".join(shop.metrics.pieces(Gauges({}, 0, 0.0, 0, {}))).decode()
    assert '_count{operation="toys:PutToy"} 1.0' in told
    records = {one.operation: one for one in shop.counting.take().records("writer", 1)}
    assert records.keys() == {"toys:ListQueues", "toys:PutToy"}
    assert (records["toys:PutToy"].requests, records["toys:PutToy"].messages) == (1, 1)
