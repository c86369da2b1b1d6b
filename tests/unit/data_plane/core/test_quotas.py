"""Quotas as numbers: what is stored is read again, and what is wrong is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_plane.core.limits import REQUEST_BODY_BYTES_MAX
from data_plane.core.quotas import (
    CONTROL,
    DEFAULT_QUOTAS,
    DELETE,
    OPERATION_CLASSES,
    QUOTA_NAMES,
    RECEIVE,
    SEND,
    UNLIMITED,
    QuotaError,
    parse_quotas,
    render_quotas,
)
from data_plane.core.token_bucket import Rate
from data_plane.operations.catalog import extension_operations, message_operations
from data_plane.protocol.sqs import sqs

_PER_S = [name for name in QUOTA_NAMES if not name.endswith(("_burst", "_percent", "_members"))]


@given(st.dictionaries(st.sampled_from(_PER_S), st.integers(0, 10**12)))
def test_what_is_rendered_is_read_again(numbers: dict[str, int]) -> None:
    quotas = parse_quotas(numbers)
    rendered = render_quotas(quotas)
    assert parse_quotas(rendered) == quotas
    for name, number in numbers.items():
        assert rendered.get(name, 0) == number


def test_what_is_absent_has_no_limit() -> None:
    quotas = parse_quotas({"queue_send_per_s": 5})
    assert quotas.queue[SEND] == Rate(5, 5)
    assert not any(quotas.account[each].per_s for each in OPERATION_CLASSES)
    assert (quotas.long_polls, quotas.sent_bytes) == (0, Rate())
    assert render_quotas(UNLIMITED) == {}


def test_the_biggest_request_can_pass() -> None:
    assert parse_quotas({"sent_bytes_per_s": 1}).sent_bytes == Rate(1, REQUEST_BODY_BYTES_MAX)


def test_defaults_can_be_stored() -> None:
    assert parse_quotas(render_quotas(DEFAULT_QUOTAS)) == DEFAULT_QUOTAS


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"sends": 1}, "sends: there is no such quota"),
        ({"long_polls": -1}, "long_polls: -1 is not a whole number"),
        ({"long_polls": True}, "long_polls: True is not"),
        ({"long_polls": "7"}, "long_polls: '7' is not"),
        ({"long_polls": 1.5}, "long_polls: 1.5 is not"),
        ({"account_send_per_s": 10**13}, "account_send_per_s: 10000000000000 is not"),
        ({"group_members": 1_001}, "group_members: 1001 is above 1000"),
        ({"queue_send_burst": 5}, "queue_send_burst: it needs queue_send_per_s"),
    ],
)
def test_what_is_wrong_is_named(numbers: dict[str, object], said: str) -> None:
    with pytest.raises(QuotaError, match=said):
        parse_quotas(numbers)


def test_every_message_operation_has_its_class() -> None:
    service = sqs(message_operations(None))  # type: ignore[arg-type]
    classes = {service.quota_class(operation) for operation in service.operations.values()}
    assert classes == {SEND, RECEIVE, DELETE}
    (browse,) = extension_operations(None)  # type: ignore[arg-type]
    assert service.quota_class(browse) == CONTROL


def test_the_usual_quotas_are_those_of_the_documentation() -> None:
    by_class = {
        f"{whose}_{operation}": per_s
        for whose, message_calls, control in (("account", 500, 100), ("queue", 300, 50))
        for operation, per_s in (
            *((name, message_calls) for name in ("send", "receive", "delete")),
            ("control", control),
        )
    }
    rates = {**by_class, **dict.fromkeys(("sent_bytes", "received_bytes"), 32 * 1024 * 1024)}
    assert render_quotas(DEFAULT_QUOTAS) == {
        **{f"{name}_per_s": per_s for name, per_s in rates.items()},
        **{f"{name}_burst": 2 * per_s for name, per_s in rates.items()},
        "long_polls": 1000,
        "account_stored_percent": 50,
        "account_queues": 100_000,
        "account_definition_bytes": 256 * 1024 * 1024,
        "account_streams": 1_000,
        "account_shards": 10_000,
        "account_groups": 1_000,
        "group_members": 250,
    }
