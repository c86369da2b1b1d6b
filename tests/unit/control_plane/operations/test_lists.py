"""ListQueues and ListDeadLetterSourceQueues: their pages and tokens."""

import base64
import json
from typing import Any

import pytest

from tests.unit.control_plane.conftest import ACCOUNT, refusal

URL = f"http://localhost:9324/{ACCOUNT}/"
LONG = base64.urlsafe_b64encode(json.dumps([ACCOUNT, "eu-west-1", "queues ", "q" * 81]).encode())
BAD_TOKENS = ("x", "é", "e30=", "AQ", "WzEsMiwzLDRd", "=" * 9, "e30=\n", LONG.decode(), "A" * 70)


def listed(control: Any, **params: Any) -> tuple[list[str], str]:
    answer = control.call("ListQueues", **params)
    names = [url.rpartition("/")[2] for url in answer.get("QueueUrls", [])]
    return names, answer.get("NextToken", "")


def test_lists_are_in_order_and_by_prefix(control: Any) -> None:
    for name in ("b1", "a", "b", "b-2", "c", "B"):
        control.call("CreateQueue", QueueName=name)
    control.call("DeleteQueue", QueueUrl="b1")
    control.call("CreateQueue", QueueName="b-foreign", account="9" * 12)
    control.call("CreateQueue", QueueName="b-elsewhere", region="us-east-1")
    assert listed(control) == (["B", "a", "b", "b-2", "c"], "")
    assert listed(control, QueueNamePrefix="b") == (["b", "b-2"], "")
    assert control.call("ListQueues", QueueNamePrefix="x") == {}
    assert control.call("ListQueues", QueueNamePrefix="b" * 2_000) == {}


def test_pages_follow_each_other(control: Any) -> None:
    for number in range(7):
        control.call("CreateQueue", QueueName=f"q{number}")
    control.call("CreateQueue", QueueName="other")
    names, token, pages = [], "", 0
    while pages == 0 or token:
        more = {"NextToken": token} if token else {}
        page, token = listed(control, QueueNamePrefix="q", MaxResults=3, **more)
        names += page
        pages += 1
    assert (names, pages) == ([f"q{number}" for number in range(7)], 3)


def test_without_a_page_size_1000_are_listed_and_no_token(control: Any) -> None:
    for number in range(1_001):
        control.call("CreateQueue", QueueName=f"q{number}")
    names, token = listed(control)
    assert (len(names), token) == (1_000, "")
    assert len(listed(control, MaxResults=1_000)[0]) == 1_000


def test_a_token_is_bound_to_its_listing(control: Any) -> None:
    for name in ("a1", "a2"):
        control.call("CreateQueue", QueueName=name)
    _, token = listed(control, QueueNamePrefix="a", MaxResults=1)
    changed = "InvalidParameterValue: Invalid NextToken value. If you are passing in NextToken,"
    for other in ({"account": "9" * 12}, {"region": "us-east-1"}, {"QueueNamePrefix": "a1"}):
        params = {"QueueNamePrefix": "a", "NextToken": token, "MaxResults": 1} | other
        assert refusal(control, "ListQueues", **params).startswith(changed)
    for bad in BAD_TOKENS:
        assert refusal(control, "ListQueues", NextToken=bad, MaxResults=1) == (
            "InvalidParameterValue: Invalid NextToken value."
        )
    assert refusal(control, "ListQueues", QueueNamePrefix="a", NextToken=token) == (
        "InvalidParameterValue: MaxResults is a mandatory parameter when you provide a value for "
        "NextToken."
    )


def test_a_token_says_nothing_and_cannot_be_changed(control: Any) -> None:
    for name in ("a1", "a2", "a3"):
        control.call("CreateQueue", QueueName=name)
    _, token = listed(control, MaxResults=1)
    octets = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    assert b"a1" not in octets
    assert ACCOUNT.encode() not in octets
    for place, letter in enumerate(token):
        changed = token[:place] + ("B" if letter != "B" else "C") + token[place + 1 :]
        for bad in (changed, token[:place]):
            if bad:
                assert refusal(control, "ListQueues", NextToken=bad, MaxResults=1) == (
                    "InvalidParameterValue: Invalid NextToken value."
                )


@pytest.mark.parametrize("count", [0, -1, 1_001])
def test_a_page_has_1_to_1000_queues(control: Any, count: int) -> None:
    control.call("CreateQueue", QueueName="dead")
    wrong_size = (
        "InvalidParameterValue: Value for parameter MaxResults is invalid. "
        "Reason: MaxResults must be an integer between 1 and 1000."
    )
    assert refusal(control, "ListQueues", MaxResults=count) == wrong_size
    wanted = {"QueueUrl": "dead", "MaxResults": count}
    assert refusal(control, "ListDeadLetterSourceQueues", **wanted) == wrong_size


def sources(control: Any, **params: Any) -> tuple[list[str], str]:
    answer = control.call("ListDeadLetterSourceQueues", **({"QueueUrl": "dead"} | params))
    names = [url.rpartition("/")[2] for url in answer["queueUrls"]]
    return names, answer.get("NextToken", "")


def redriving(target: str) -> dict[str, str]:
    arn = f"arn:aws:sqs:eu-west-1:{ACCOUNT}:{target}"
    return {"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3})}


def test_the_sources_of_a_dead_letter_queue(control: Any) -> None:
    control.call("CreateQueue", QueueName="dead")
    assert control.call("ListDeadLetterSourceQueues", QueueUrl="dead") == {"queueUrls": []}
    for number in range(5):
        control.call("CreateQueue", QueueName=f"q{number}", Attributes=redriving("dead"))
    assert sources(control) == ([f"q{number}" for number in range(5)], "")
    assert control.call("ListDeadLetterSourceQueues", QueueUrl="dead")["queueUrls"][0] == URL + "q0"
    first, token = sources(control, MaxResults=2)
    control.call("DeleteQueue", QueueUrl="q1")
    second, token = sources(control, MaxResults=2, NextToken=token)
    third, token = sources(control, MaxResults=2, NextToken=token)
    assert [*first, *second, *third, token] == ["q0", "q1", "q2", "q3", "q4", ""]


def test_a_token_of_sources_is_bound_to_its_queue(control: Any) -> None:
    for name in ("dead", "other"):
        control.call("CreateQueue", QueueName=name)
    for name in ("a", "b"):
        control.call("CreateQueue", QueueName=name, Attributes=redriving("dead"))
    _, token = sources(control, MaxResults=1)
    _, foreign = listed(control, MaxResults=1)
    changed = "InvalidParameterValue: Invalid NextToken value. If you are passing in NextToken,"
    for wrong in ({"QueueUrl": "other", "NextToken": token}, {"NextToken": foreign}):
        params = {"QueueUrl": "dead", "MaxResults": 1} | wrong
        assert refusal(control, "ListDeadLetterSourceQueues", **params).startswith(changed)
    for bad in BAD_TOKENS:
        params = {"QueueUrl": "dead", "NextToken": bad}
        assert refusal(control, "ListDeadLetterSourceQueues", **params) == (
            "InvalidParameterValue: Invalid or expired next token."
        )
