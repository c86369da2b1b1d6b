from typing import Any

import pytest

from data_plane.core.caller import Caller
from data_plane.frontend.condition_keys import ConditionKeys
from data_plane.frontend.exchange import Exchange
from data_plane.policy.conditions import KNOWN_KEYS, is_known_key
from data_plane.protocol.http import HttpRequest
from data_plane.protocol.wire_protocols import AWS_JSON

ACCOUNT = "111122223333"
HEADERS = {
    "user-agent": "Boto3/1.44",
    "referer": "http://here",
    "x-amz-source-arn": "arn:aws:sns:eu-west-1:1:t",
    "x-amz-source-account": "1",
    "x-forwarded-for": "10.0.0.1",
    "x-forwarded-proto": "https",
}
ROOT = Caller(ACCOUNT)
ANN = Caller(ACCOUNT, "ann", user_id="AIDA1")
SNS = Caller(ACCOUNT, service="sns.amazonaws.com")


def values(
    key: str, caller: Caller = ROOT, *, client: str = "", secure: bool = False, **params: Any
) -> tuple[str, ...]:
    request = HttpRequest("POST", "/", "", HEADERS, b"", client=client, secure=secure)
    exchange = Exchange(request, "id", 1_795_262_400_900_000, AWS_JSON, params=params)
    exchange.region = "eu-west-1"
    return ConditionKeys(exchange, caller, "444455556666", None).get(f"aws:{key}", ())


@pytest.mark.parametrize(
    ("client", "address"),
    [
        ("192.0.2.1:4711", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.1"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("::1", "::1"),
    ],
)
def test_the_address_is_that_of_the_connection(client: str, address: str) -> None:
    assert values("sourceip", client=client) == (address,)


def test_a_connection_without_an_address_has_none() -> None:
    assert values("sourceip") == ()


def test_what_is_known_of_any_request() -> None:
    assert values("currenttime") == ("2026-11-21T12:00:00Z",)
    assert values("epochtime") == ("1795262400",)
    assert values("securetransport") == ("false",)
    assert values("securetransport", secure=True) == ("true",)
    assert values("requestedregion") == ("eu-west-1",)
    assert values("resourceaccount") == ("444455556666",)
    assert values("useragent") == ("Boto3/1.44",)
    assert values("referer") == ("http://here",)
    assert values("viaawsservice") == ("false",)
    assert values("principalorgid") == values("sourcevpc") == ()


OF_CALLERS = {
    "principalaccount": (ACCOUNT, ACCOUNT, ""),
    "principalarn": (f"arn:aws:iam::{ACCOUNT}:root", f"arn:aws:iam::{ACCOUNT}:user/ann", ""),
    "principaltype": ("Account", "User", ""),
    "principalisawsservice": ("false", "false", "true"),
    "principalservicename": ("", "", "sns.amazonaws.com"),
    "userid": (ACCOUNT, "AIDA1", ""),
    "username": ("", "ann", ""),
    "sourcearn": ("", "", "arn:aws:sns:eu-west-1:1:t"),
    "sourceaccount": ("", "", "1"),
}


@pytest.mark.parametrize("key", OF_CALLERS)
def test_what_is_known_of_callers(key: str) -> None:
    said = tuple("".join(values(key, caller)) for caller in (ROOT, ANN, SNS))
    assert said == OF_CALLERS[key]


def test_tags_of_a_request() -> None:
    given = {"Team": "red", "team": "blue", "stage": None}
    assert values("requesttag/team", Tags=given) == ("red", "blue")
    assert values("requesttag/stage", tags=given) == values("requesttag/x", tags=given) == ()
    assert values("tagkeys", tags=given) == ("Team", "team", "stage")
    assert values("tagkeys", TagKeys=["a", "b"]) == ("a", "b")
    assert values("tagkeys") == values("requesttag/team") == values("resourcetag/team") == ()


def test_keys_that_have_values_are_known_to_policies() -> None:
    assert all(f"aws:{key}" in KNOWN_KEYS for key in OF_CALLERS)
    assert is_known_key("aws:requesttag/x")
