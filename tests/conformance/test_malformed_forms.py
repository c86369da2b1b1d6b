"""What is wrong with a request's form, or with the numbers in it, and what SQS answers."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from tests.conformance.raw_calls import Bench, Reply, form_request, refused, url

ORDERS = quote(url("orders"), safe="")
SEND = f"Action=SendMessage&QueueUrl={ORDERS}&MessageBody=x"
BATCH = f"Action=SendMessageBatch&QueueUrl={ORDERS}"
ENTRY = "SendMessageBatchRequestEntry"
NOT_A_FORM = refused("MalformedQueryString", "The query string contains a syntax error.")
NOT_AN_INTEGER = "STRING_VALUE can not be converted to an Integer"
NOT_A_NUMBER = "Start of list found where not expected"


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench("query")
    bench.ask("CreateQueue", QueueName="orders")
    yield bench
    bench.close()


def call(bench: Bench, form: str) -> Reply:
    return bench.send(form_request(form.encode()))


@pytest.mark.parametrize(
    "field", ["a=%", "a=%4", "a=%zz", "%=a", "a=%u0041", "a=%+1", "MessageBody=100%"]
)
def test_broken_escapes(bench: Bench, field: str) -> None:
    before = bench.state()
    assert call(bench, f"{SEND}&{field}") == NOT_A_FORM
    request = replace(form_request(b""), method="GET", query=f"{SEND}&{field}")
    assert bench.send(request) == NOT_A_FORM
    assert bench.state() == before


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("DelaySeconds=", "missing value for decimal type"),
        ("DelaySeconds", "missing value for decimal type"),
        ("DelaySeconds=x", NOT_AN_INTEGER),
        ("DelaySeconds=1.0", NOT_AN_INTEGER),
        ("DelaySeconds=1e2", NOT_AN_INTEGER),
        ("DelaySeconds=0x10", NOT_AN_INTEGER),
        ("DelaySeconds=+", NOT_AN_INTEGER),
        ("DelaySeconds=1+", NOT_AN_INTEGER),
        ("DelaySeconds=--1", NOT_AN_INTEGER),
        ("DelaySeconds=1_000", NOT_AN_INTEGER),
        ("DelaySeconds=true", NOT_AN_INTEGER),
        ("DelaySeconds=NaN", NOT_AN_INTEGER),
        ("DelaySeconds=%D9%A1", NOT_AN_INTEGER),
        ("DelaySeconds=2147483648", NOT_AN_INTEGER),
        ("DelaySeconds=-2147483649", NOT_AN_INTEGER),
        ("DelaySeconds=" + "9" * 5000, NOT_AN_INTEGER),
        ("MessageAttribute.1.Name=a&MessageAttribute.1.Value.BinaryValue=A", "A blob must be "),
    ],
    ids=lambda text: text[:40],
)
def test_values_of_other_types(bench: Bench, field: str, message: str) -> None:
    before = bench.state()
    reply = call(bench, f"{SEND}&{field}")
    assert (reply.status, reply.code) == (400, "MalformedInput")
    assert reply.message.startswith(message)
    assert bench.state() == before


@pytest.mark.parametrize("delay", [2**31 - 1, -(2**31), 901, -1])
def test_integers_out_of_range(bench: Bench, delay: int) -> None:
    assert call(bench, f"{SEND}&DelaySeconds={delay}") == refused(
        "InvalidParameterValue",
        f"Value {delay} for parameter DelaySeconds is invalid. "
        "Reason: DelaySeconds must be >= 0 and <= 900.",
    )


@pytest.mark.parametrize("text", ["5", "%2B5", "005", "-0", "%2B" + "0" * 5000])
def test_other_ways_to_write_an_integer(bench: Bench, text: str) -> None:
    assert call(bench, f"{SEND}&DelaySeconds={text}") == Reply(200)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ("member.1", NOT_A_NUMBER),
        ("x", NOT_A_NUMBER),
        ("-1", NOT_A_NUMBER),
        ("1x", NOT_A_NUMBER),
        ("%D9%A1", NOT_A_NUMBER),
        ("0", "0 is not a valid index"),
        ("12", "Excessively sparse input would skip 11 list elements"),
        ("1 12", "Excessively sparse input would skip 11 list elements"),
        ("214748369", "Excessively sparse input would skip 214,748,368 list elements"),
        ("214748370", "Index 214748370 is illegal"),
        ("9999999999", "Index 9999999999 is illegal"),
    ],
)
@pytest.mark.parametrize(
    "form",
    [
        BATCH + "".join(f"&{ENTRY}.{{}}.{name}=a" for name in ("Id", "MessageBody")),
        f"Action=ReceiveMessage&QueueUrl={ORDERS}&MessageAttributeName.{{}}=a",
        f"Action=TagQueue&QueueUrl={ORDERS}&Tag.{{}}.Key=k&Tag.{{}}.Value=v",
    ],
    ids=["batch", "list", "map"],
)
def test_what_is_no_number_of_a_member(bench: Bench, form: str, numbers: str, message: str) -> None:
    """`.member.` is how other services write lists: recorded from SQS, the rest from SES."""
    before = bench.state()
    wrong = "&".join(form.replace("{}", number) for number in numbers.split())
    assert call(bench, wrong) == refused("MalformedInput", message)
    assert bench.state() == before


def test_a_missing_number_is_an_empty_member(bench: Bench) -> None:
    before = bench.state()
    entries = f"&{ENTRY}.1.Id=a&{ENTRY}.1.MessageBody=x&{ENTRY}.3.Id=c&{ENTRY}.3.MessageBody=x"
    assert call(bench, BATCH + entries) == refused(
        "MissingParameter", f"The request must contain the parameter {ENTRY}.2.Id."
    )
    names = "&AttributeName.1=SenderId&AttributeName.3=SentTimestamp"
    assert call(bench, f"Action=ReceiveMessage&QueueUrl={ORDERS}{names}") == refused(
        "InvalidAttributeName", "Unknown Attribute ."
    )
    assert bench.state() == before


def test_numbers_order_members_however_fields_are_sorted(bench: Bench) -> None:
    ids = [
        f"&{ENTRY}.{number}.MessageBody=x&{ENTRY}.{number}.Id=e{number}" for number in range(1, 11)
    ]
    reply = call(bench, BATCH + "".join(sorted(ids, reverse=True)))
    found = reply.result.iterfind(".//{*}SendMessageBatchResultEntry/{*}Id")
    assert [element.text for element in found] == [f"e{number}" for number in range(1, 11)]


def test_of_repeated_fields_the_first_counts(bench: Bench) -> None:
    """Recorded from STS."""
    missing = refused("MissingParameter", "The request must contain the parameter MessageBody.")
    assert (
        call(bench, f"Action=SendMessage&Action=Nonsense&QueueUrl={ORDERS}&MessageBody=") == missing
    )
    assert call(bench, f"{SEND}&MessageBody=&DelaySeconds=0&DelaySeconds=x") == Reply(200)
    request = replace(form_request(b"Action=Nonsense&MessageBody="), query=SEND)
    assert bench.send(request) == Reply(200)


@pytest.mark.parametrize(
    "field", ["", "&&", "=", "a", "a.b.c=d", ".=", "MessageBody.1=y", "a." * 5000 + "a=", "%00=a"]
)
def test_fields_that_belong_to_nothing(bench: Bench, field: str) -> None:
    assert call(bench, f"{SEND}&{field}") == Reply(200)


@pytest.mark.parametrize(
    "content_type", ["application/xml", "multipart/form-data; boundary=x", "text/plain"]
)
def test_bodies_that_are_no_forms(bench: Bench, content_type: str) -> None:
    before = bench.state()
    request = form_request(SEND.encode(), {"content-type": content_type})
    assert bench.send(request) == refused("MalformedInput", "The content type is not supported.")
    assert bench.state() == before


@pytest.mark.parametrize(
    "content_type",
    ["", "application/x-www-form-urlencoded", "Application/X-WWW-Form-URLEncoded;charset=UTF-8"],
)
def test_content_types_of_forms(bench: Bench, content_type: str) -> None:
    assert bench.send(form_request(SEND.encode(), {"content-type": content_type})) == Reply(200)


@pytest.mark.parametrize(
    "fields",
    [
        "Attribute.1.Name=DelaySeconds",
        "Attribute.1.Name=DelaySeconds&Attribute.1.Valeu=1",
        "Attribute.1.Name=DelaySeconds&Attribute.2.Value=1",
    ],
)
def test_entries_of_maps_need_a_value(bench: Bench, fields: str) -> None:
    before = bench.state()
    form = f"Action=SetQueueAttributes&QueueUrl={ORDERS}&{fields}"
    assert call(bench, form) == refused(
        "InvalidParameterValue",
        "Value DelaySeconds for parameter Attributes is invalid. Reason: It must have a value.",
    )
    assert bench.state() == before
