"""Quotas are kept exactly, refusals say what SDKs look for, and nobody pays for anybody else."""

from collections import Counter
from contextlib import suppress

import pytest

from data_plane.core.caller import Caller
from data_plane.core.limits import REQUEST_BODY_BYTES_MAX
from data_plane.core.quotas import Quotas, parse_quotas
from data_plane.frontend.exchange import Exchange
from data_plane.frontend.refusals import ThrottledError
from data_plane.frontend.throttling import Throttle
from data_plane.operations.catalog import message_operations
from data_plane.protocol.sqs import sqs
from data_plane.protocol.wire_protocols import AWS_JSON
from tests.unit.data_plane.frontend.tenants import NOISY, QUIET, START_US, Tenants, code
from tests.unit.data_plane.wire import json_request, run

THROTTLED = "RequestThrottled"
SECOND_US = 1_000_000


def with_quotas(account: str = NOISY, **numbers: int) -> Tenants:
    return Tenants({account: parse_quotas(numbers)})


def test_at_ten_times_its_quota_a_tenant_gets_its_quota_and_the_other_loses_nothing() -> None:
    quotas = parse_quotas({"account_send_per_s": 100, "account_send_burst": 20})
    tenants = Tenants({NOISY: quotas, QUIET: quotas})
    served: Counter[str] = Counter()
    quiet: Counter[str] = Counter()
    for tick in range(10_000):  # a call of the noisy one each millisecond, of the quiet one each 20
        tenants.at_us = START_US + tick * 1000
        served[code(tenants.send(NOISY))] += 1
        if tick % 20 == 0:
            quiet[code(tenants.send(QUIET))] += 1
    # The burst, then 100 a second until the last call, at 9.999 s.
    assert served == {"": 20 + 999, THROTTLED: 10_000 - 1_019}
    assert quiet == {"": 500}


def test_classes_have_buckets_of_their_own_and_a_batch_is_one_call() -> None:
    tenants = with_quotas(account_send_per_s=2, account_receive_per_s=1, account_delete_per_s=1)
    entries = [{"Id": str(at), "MessageBody": "m"} for at in range(10)]
    calls = (
        tenants.call(NOISY, "SendMessageBatch", Entries=entries),
        tenants.send(NOISY),
        tenants.send(NOISY),
        tenants.call(NOISY, "ReceiveMessage", WaitTimeSeconds=0),
        tenants.call(NOISY, "ReceiveMessage", WaitTimeSeconds=0),
        tenants.call(NOISY, "DeleteMessage", ReceiptHandle="nonsense"),
        tenants.call(NOISY, "ChangeMessageVisibility", ReceiptHandle="x", VisibilityTimeout=0),
    )
    invalid = "ReceiptHandleIsInvalid"
    assert [code(each) for each in calls] == [
        *("", "", THROTTLED),
        *("", THROTTLED),
        *(invalid, THROTTLED),
    ]
    assert len(tenants.bag.messages) == 11


def test_a_queue_at_its_limit_does_not_use_up_its_account() -> None:
    tenants = with_quotas(account_send_per_s=10, queue_send_per_s=3)
    assert tenants.outcomes(NOISY, "SendMessage", 1_000, MessageBody="m") == {"": 3, THROTTLED: 997}
    other = {"MessageBody": "m", "QueueUrl": "orders-of-others"}
    assert tenants.outcomes(NOISY, "SendMessage", 5, **other) == {"": 3, THROTTLED: 2}
    third = {"MessageBody": "m", "QueueUrl": "the-third-one"}
    assert tenants.outcomes(NOISY, "SendMessage", 5, **third) == {"": 3, THROTTLED: 2}
    fourth = {"MessageBody": "m", "QueueUrl": "4"}
    assert tenants.outcomes(NOISY, "SendMessage", 5, **fourth) == {"": 1, THROTTLED: 4}


def test_the_limit_of_a_queue_is_its_owners_whoever_calls() -> None:
    tenants = with_quotas(NOISY, queue_send_per_s=2)
    url = {"QueueUrl": f"http://h/{NOISY}/orders", "MessageBody": "m"}
    assert tenants.outcomes(QUIET, "SendMessage", 5, **url) == {"": 2, THROTTLED: 3}
    assert code(tenants.send(NOISY)) == THROTTLED
    assert tenants.outcomes(QUIET, "SendMessage", 5, MessageBody="m") == {"": 5}


def test_bytes_sent_count_and_a_refusal_for_them_costs_no_call() -> None:
    per_s = REQUEST_BODY_BYTES_MAX
    tenants = with_quotas(account_send_per_s=3, sent_bytes_per_s=per_s)
    big = "b" * 1_000_000
    outcomes = [code(tenants.send(NOISY, big)) for _ in range(3)]
    assert outcomes == ["", "", ""]
    tenants.at_us += 1 * SECOND_US
    tenants.quotas[NOISY] = parse_quotas({"account_send_per_s": 100, "sent_bytes_per_s": per_s})
    outcomes = [code(tenants.send(NOISY, big)) for _ in range(13)]
    assert outcomes == [*[""] * 12, THROTTLED]
    assert tenants.outcomes(NOISY, "SendMessage", 88, MessageBody="m") == {"": 88}


def test_the_bytes_of_every_call_count() -> None:
    tenants = with_quotas(sent_bytes_per_s=1, sent_bytes_burst=REQUEST_BODY_BYTES_MAX)
    handle = "h" * 16_000
    outcomes = tenants.outcomes(NOISY, "DeleteMessage", 1_000, ReceiptHandle=handle)
    let_in = outcomes["ReceiptHandleIsInvalid"]
    assert 0 < let_in <= REQUEST_BODY_BYTES_MAX // len(handle)
    assert outcomes[THROTTLED] == 1_000 - let_in
    assert code(tenants.send(QUIET)) == ""


def test_answers_count_and_their_account_waits_with_its_next_call() -> None:
    per_s = 100_000
    tenants = with_quotas(received_bytes_per_s=per_s)
    assert code(tenants.send(NOISY, "m" * 1_000_000)) == ""
    receive = {"MaxNumberOfMessages": 1, "WaitTimeSeconds": 0}
    assert tenants.outcomes(NOISY, "ReceiveMessage", 2, **receive) == {"": 1, THROTTLED: 1}
    assert code(tenants.send(NOISY)) == THROTTLED
    tenants.at_us += 8 * SECOND_US
    assert code(tenants.send(NOISY)) == THROTTLED
    tenants.at_us += 2 * SECOND_US
    assert code(tenants.send(NOISY)) == ""


def test_the_answer_is_the_one_that_sdks_repeat() -> None:
    tenants = with_quotas(account_send_per_s=2, account_send_burst=1)
    assert code(tenants.send(NOISY)) == ""
    response = tenants.send(NOISY)
    headers = dict(response.headers)
    assert response.status == 403
    assert headers["x-amzn-query-error"] == "RequestThrottled;Sender"
    assert headers["retry-after"] == "1"
    assert headers["x-amz-retry-after"] == "500"
    assert b'"__type":"com.amazonaws.sqs#RequestThrottled"' in response.body
    refused = tenants.query(NOISY, Action="SendMessage", QueueUrl="orders", MessageBody="m")
    assert (refused.status, dict(refused.headers)["retry-after"]) == (403, "1")
    assert b"<Code>RequestThrottled</Code><Message>Request is throttled.</Message>" in refused.body
    tenants.at_us += 500_000
    assert code(tenants.send(NOISY)) == ""


def test_a_call_is_throttled_before_its_parameters_are_read() -> None:
    tenants = with_quotas(account_send_per_s=1)
    assert code(tenants.call(NOISY, "SendMessage", MessageBody=7)) == "SerializationException"
    assert code(tenants.call(NOISY, "SendMessage", MessageBody=7)) == THROTTLED


def test_a_changed_quota_counts_at_once() -> None:
    tenants = with_quotas(account_send_per_s=1)
    assert tenants.outcomes(NOISY, "SendMessage", 3, MessageBody="m") == {"": 1, THROTTLED: 2}
    del tenants.quotas[NOISY]
    assert tenants.outcomes(NOISY, "SendMessage", 3, MessageBody="m") == {"": 3}


@pytest.mark.parametrize("buckets_max", [1, 3])
def test_buckets_are_bounded_and_the_oldest_is_forgotten(buckets_max: int) -> None:
    everyone = _Everyone(parse_quotas({"account_send_per_s": 1}))
    tenants = Tenants({})
    throttle = Throttle(everyone, buckets_max)
    for account in range(1_000):
        throttle._take((str(account), "send"), everyone.quotas.account["send"], tenants.at_us)
    assert list(throttle._buckets) == [
        (str(at), "send") for at in range(1_000 - buckets_max, 1_000)
    ]


def test_a_bucket_in_use_is_not_forgotten() -> None:
    everyone = _Everyone(parse_quotas({"account_send_per_s": 1, "account_send_burst": 100}))
    throttle = Throttle(everyone, 2)
    rate = everyone.quotas.account["send"]
    taken = 0
    for account in range(1_000):
        throttle._take((str(account), "send"), rate, 0)
        try:
            throttle._take((NOISY, "send"), rate, 0)
        except ThrottledError:
            continue
        taken += 1
    assert taken == 100


def test_what_will_be_refused_is_known_from_its_headers() -> None:
    tenants = with_quotas(account_send_per_s=2, account_send_burst=1)
    throttle = Throttle(tenants)
    request = json_request("SendMessage", {})
    headers = {**request.headers, "authorization": "AWS4-HMAC-SHA256 Credential=AKIA1/2026/x"}

    def send(at_us: int) -> None:
        exchange = Exchange(request, "id", START_US + at_us, AWS_JSON)
        exchange.service = sqs(message_operations(tenants.bag))
        exchange.operation = exchange.service.operations["SendMessage"]
        exchange.caller = Caller(NOISY, access_key_id="AKIA1")
        run(throttle.by_account(exchange))

    def known(at_us: int, **changed: str) -> int:
        return throttle.exhausted_for_us({**headers, **changed}, START_US + at_us)

    send(0)
    assert known(0) == 0
    with pytest.raises(ThrottledError):
        send(100_000)
    assert known(100_000) == 400_000
    assert known(400_000, authorization="AWS4-HMAC-SHA256 Credential=AKIA2/2026/x") == 0
    assert known(400_000, authorization="") == 0
    assert known(400_000, **{"x-amz-target": "AmazonSQS.ReceiveMessage"}) == 0
    assert known(499_999) == 1
    assert known(500_000) == 0
    send(500_000)
    with pytest.raises(ThrottledError):
        send(500_001)
    assert known(500_001) == 499_999
    # A clock that was set back far does not lock anybody out.
    assert known(-3_600_000_000) == 0


@pytest.mark.parametrize(("per_s", "burst"), [(300, 300), (1_000, 1), (3, 1)])
def test_whoever_is_refused_unread_gets_the_whole_quota_all_the_same(
    per_s: int, burst: int
) -> None:
    tenants = with_quotas(account_send_per_s=per_s, account_send_burst=burst)
    throttle = Throttle(tenants)
    request = json_request("SendMessage", {})
    headers = {**request.headers, "authorization": "AWS4-HMAC-SHA256 Credential=AKIA1/2026/x"}
    outcomes: Counter[str] = Counter()
    for at_us in range(0, 10_000_000, 200):
        if throttle.exhausted_for_us(headers, START_US + at_us):
            outcomes["unread"] += 1
            continue
        exchange = Exchange(request, "id", START_US + at_us, AWS_JSON)
        exchange.service = sqs(message_operations(tenants.bag))
        exchange.operation = exchange.service.operations["SendMessage"]
        exchange.caller = Caller(NOISY, access_key_id="AKIA1")
        try:
            run(throttle.by_account(exchange))
        except ThrottledError:
            outcomes["read"] += 1
        else:
            outcomes["served"] += 1
    assert burst + per_s * 10 * 0.95 <= outcomes["served"] <= burst + per_s * 10
    assert outcomes["read"] <= max(10 * 10, outcomes["served"])


def test_keys_of_the_exhausted_are_bounded() -> None:
    tenants = with_quotas(account_send_per_s=1)
    throttle = Throttle(tenants)
    for number in range(10_000):
        exchange = Exchange(json_request("SendMessage", {}), "id", START_US, AWS_JSON)
        exchange.service = sqs(message_operations(tenants.bag))
        exchange.operation = exchange.service.operations["SendMessage"]
        exchange.caller = Caller(NOISY, access_key_id=str(number))
        with suppress(ThrottledError):
            run(throttle.by_account(exchange))
    assert 0 < len(throttle._exhausted_until_us) <= 4_096


class _Everyone:
    def __init__(self, quotas: Quotas) -> None:
        self.quotas = quotas

    async def find_quotas(self, account: str) -> Quotas:  # noqa: ARG002 - all have the same
        return self.quotas


def test_who_asks_for_too_much_is_answered_a_little_later() -> None:
    """So that a client that does not wait costs the server less than what it was refused."""
    tenants = with_quotas(account_send_per_s=1)
    assert not tenants.send(NOISY).held_back
    throttled = tenants.send(NOISY)
    assert code(throttled) == THROTTLED
    assert throttled.held_back
    assert not tenants.call(QUIET, "SendMessage", MessageBody="").held_back
