"""Signatures that users of other projects made, and what AWS told them; see docs/clients.md."""

from dataclasses import replace

from data_plane.core.sigv4 import canonical_request
from tests.conformance.in_process import InProcessServer
from tests.conformance.raw_calls import form_request, read_reply
from tests.conformance.signing import (
    ACCOUNT,
    FORM,
    NO_MATCH,
    OTHER_KEY,
    authorized,
    call,
    form_call,
    refusal,
    signed,
    with_headers,
)

FIFO_FORM = (
    b"Action=SendMessage&MessageBody=%7B%22key%22%3A%20%22value%22%7D&Version=2012-11-05"
    b"&MessageGroupId=12345&MessageDeduplicationId=12345"
)


def test_no_spaces_between_the_parts() -> None:
    """ex-aws/ex_aws #220: it was the key that AWS refused, not the spelling."""
    request = form_call("/", b"Action=ListQueues")
    dense = authorized(request, lambda text: text.replace(", ", ","))
    assert (
        "Credential=AKIDEXAMPLE/20150830/eu-west-1/sqs/aws4_request,SignedHeaders="
        in (dense.headers["authorization"])
    )
    assert refusal(dense) == ("", "", 200)
    unknown = authorized(dense, lambda text: text.replace("AKIDEXAMPLE", "65"))
    assert refusal(unknown) == (
        "InvalidClientTokenId",
        "The security token included in the request is invalid.",
        403,
    )


def test_a_form_without_a_version() -> None:
    """ex-aws/ex_aws #220, too: its body is `Action=ListQueues`."""
    server = InProcessServer()
    assert read_reply(server.answer(form_request(b"Action=ListQueues")), "query").status == 200
    server.close()


def test_a_region_that_is_none() -> None:
    """boto/boto #3688: the words end with a space."""
    request = authorized(call(), lambda text: text.replace("/eu-west-1/", "/Queue/"))
    assert refusal(request) == (
        "SignatureDoesNotMatch",
        "Credential should be scoped to a valid region, not 'Queue'. ",
        403,
    )


def test_a_date_in_the_words_of_http() -> None:
    """brendanhay/amazonka #5."""
    date = "Sun, 23 Nov 2014 04:07:43 GMT"
    wanted = (
        "IncompleteSignature",
        (
            f"Date must be in ISO-8601 'basic format'. Got '{date}'. "
            "See http://en.wikipedia.org/wiki/ISO_8601"
        ),
        400,
    )
    in_date = authorized(call(), lambda text: text.replace(";x-amz-date;", ";"))
    assert refusal(with_headers(in_date, {"x-amz-date": None, "date": date})) == wanted
    assert refusal(with_headers(call(), {"x-amz-date": date})) == wanted


def test_a_secret_in_the_place_of_the_key() -> None:
    """boto/boto3 #1752; AWS repeats the credential, which is none of our business."""
    request = authorized(call(), lambda text: text.replace("AKIDEXAMPLE", "sec/ret"))
    code, message, status = refusal(request)
    assert (code, status) == ("IncompleteSignature", 400)
    assert message == (
        "Credential must have exactly 5 slash-delimited elements, e.g. "
        "keyid/date/region/service/term"
    )


def test_headers_that_other_clients_sign() -> None:
    """postmanlabs/postman-app-support #5996: what AWS says should have been signed holds here."""
    headers = {
        "Content-Type": FORM,
        "Cache-Control": "no-cache",
        "Content-Length": str(len(FIFO_FORM)),
    }
    request = signed("POST", f"/{ACCOUNT}/orders.fifo", headers=headers, body=FIFO_FORM)
    names = "cache-control;content-length;content-type;host"
    assert f"SignedHeaders={names}" in request.headers["authorization"]
    assert refusal(request) == ("", "", 200)


def test_a_path_is_escaped_once_more_where_it_is_signed() -> None:
    """erlcloud/erlcloud #335: AWS shows what should have been signed of `/foo%25`."""
    body_hash = "62bd803266d1241d4d977f450bc1dec1a924d61a9fe6e7ca76a26c6acf706134"
    names = ("host", "x-amz-content-sha256", "x-amz-date")
    values = ("queue.amazonaws.com", body_hash, "20161011T104311Z")
    text = canonical_request(
        "POST", "/foo%25", "", dict(zip(names, values, strict=True)), names, body_hash
    )
    assert text == (
        "POST\n/foo%2525\n\nhost:queue.amazonaws.com\n"
        f"x-amz-content-sha256:{body_hash}\nx-amz-date:20161011T104311Z\n\n"
        f"host;x-amz-content-sha256;x-amz-date\n{body_hash}"
    )


def test_a_wrong_secret() -> None:
    """erlcloud/erlcloud #113 shows the same words."""
    assert refusal(call(key=replace(OTHER_KEY, secret="wrong"))) == NO_MATCH
