import pytest

from data_plane.core.errors import (
    LENGTH_REQUIRED,
    MALFORMED_HTTP_REQUEST,
    REQUEST_TOO_LARGE,
    Fault,
    RefusedError,
)
from data_plane.http.screening import (
    HeadersWithHost,
    body_length,
    check_host,
    check_length,
    check_readable,
    combine,
)


def test_repeated_headers_count_as_one_in_their_order() -> None:
    assert combine([("a", "1"), ("b", "2"), ("a", "3"), ("a", "")]) == {"a": "1,3,", "b": "2"}
    assert combine([("a", "1"), ("b", "2")]) == {"a": "1", "b": "2"}
    assert combine([]) == {}


@pytest.mark.parametrize(
    "name",
    [
        *("authorization", "content-type", "date", "host", "x-amz-target", "x-amz-date"),
        *("x-amz-anything", "amz-sdk-invocation-id"),
    ],
)
def test_headers_that_decide_are_neither_repeated_nor_unreadable(name: str) -> None:
    with pytest.raises(RefusedError, match=f"The header {name} is repeated"):
        combine([(name, "a"), (name, "a")])
    with pytest.raises(RefusedError, match=f"The header {name} is not ASCII"):
        check_readable([name, "user-agent"], {})
    check_readable([name, "user-agent"], {name: "a"})


@pytest.mark.parametrize(
    ("headers", "version", "authority"),
    [
        ({"host": "x"}, "1.1", None),
        ({"host": "sqs.eu-west-1.example_x:65535"}, "1.1", None),
        ({"host": "[::1]:9324"}, "1.1", None),
        ({"host": "X:1"}, "1.1", "x:1"),
        ({}, "1", None),
        ({}, "1", "x"),
    ],
)
def test_hosts(headers: dict[str, str], version: str, authority: str | None) -> None:
    check_host(headers, version, authority)


@pytest.mark.parametrize(
    ("headers", "version", "authority"),
    [
        ({}, "1.1", None),
        ({}, "1.1", "x"),
        ({"host": ""}, "1.1", None),
        ({"host": "x/y"}, "1", None),
        ({"host": "x\n"}, "1.1", None),
        ({"host": "\u0445"}, "1.1", None),
        ({"host": "x" * 254}, "1.1", None),
        ({"host": "x"}, "1.1", "y"),
        ({"host": "x"}, "1.1", "x:80"),
        ({"host": "x"}, "1.1", "u@x"),
    ],
)
def test_no_hosts(headers: dict[str, str], version: str, authority: str | None) -> None:
    with pytest.raises(RefusedError) as raised:
        check_host(headers, version, authority)
    assert raised.value.fault is MALFORMED_HTTP_REQUEST


@pytest.mark.parametrize(
    ("headers", "length"),
    [
        ({}, 0),
        ({"content-length": "10"}, 10),
        ({"transfer-encoding": "chunked"}, None),
        ({"transfer-encoding": "Chunked"}, None),
    ],
)
def test_lengths(headers: dict[str, str], length: int | None) -> None:
    assert body_length(headers, 10) == length


@pytest.mark.parametrize(
    ("headers", "fault"),
    [
        ({"content-length": "11"}, REQUEST_TOO_LARGE),
        ({"transfer-encoding": "chunked,chunked"}, LENGTH_REQUIRED),
        ({"transfer-encoding": "gzip, chunked"}, LENGTH_REQUIRED),
        ({"transfer-encoding": ""}, LENGTH_REQUIRED),
        ({"transfer-encoding": "chunked", "content-length": "1"}, MALFORMED_HTTP_REQUEST),
        *(
            ({"content-length": told}, MALFORMED_HTTP_REQUEST)
            for told in ("", "2, 2", "+2", "-2", "2.", "\u0662", "9" * 5_000)
        ),
    ],
)
def test_bodies_that_are_not_read(headers: dict[str, str], fault: Fault) -> None:
    with pytest.raises(RefusedError) as raised:
        body_length(headers, 10)
    assert raised.value.fault is fault


def test_in_http_2_the_authority_is_the_host() -> None:
    received = HeadersWithHost({"a": "1"}, "x:80")
    assert received.items() == [("a", "1"), ("host", "x:80")]
    assert received.keys() == ["a", "host"]
    assert len(received) == len(received.items())
    assert "host" in received
    assert "b" not in received
    assert (received.get("host", ""), received.get("a"), received.get("b", "")) == ("x:80", "1", "")
    named = HeadersWithHost({"host": "y"}, "x")  # which check_host refuses
    assert (named.items(), named.get("host"), len(named)) == ([("host", "y")], "y", 1)
    unnamed = HeadersWithHost({}, None)
    assert (unnamed.items(), "host" in unnamed, len(unnamed)) == ([], False, 0)


def test_in_http_2_a_request_says_how_long_its_body_is() -> None:
    check_length({"content-length": "0"})
    with pytest.raises(RefusedError) as refused:
        check_length({})
    assert refused.value.fault is LENGTH_REQUIRED
