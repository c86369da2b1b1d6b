"""The load generator's signatures are those of botocore."""

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.benchmarks import wire
from tests.benchmarks.signing import REGION, AccessKey, Signer

KEY = AccessKey("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
URL = "http://127.0.0.1:9324/000000000000/orders"


def test_a_signature_is_botocores() -> None:
    unsigned = wire.send_requests(9324, URL)[3]
    signed = Signer(KEY).signed(unsigned)
    head, _, body = bytes(signed.raw).partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    names = ("Host", "X-Amz-Target", "Content-Type")
    again = AWSRequest("POST", "http://127.0.0.1:9324/", {n: headers[n] for n in names}, body)
    again.context["timestamp"] = headers["X-Amz-Date"]
    auth = SigV4Auth(Credentials(KEY.id, KEY.secret), "sqs", REGION)
    again.headers["X-Amz-Date"] = headers["X-Amz-Date"]
    string = auth.string_to_sign(again, auth.canonical_request(again))
    assert f"Signature={auth.signature(string, again)}" in headers["Authorization"]
    assert f"Credential={KEY.id}/{headers['X-Amz-Date'][:8]}/" in headers["Authorization"]


def test_what_is_patched_in_later_is_still_found() -> None:
    unsigned = wire.send_batch_requests(9324, URL, message_groups=7)[0]
    signed = Signer(KEY).signed(unsigned)
    for request in (unsigned, signed):
        request.name_call(0xABC)
        request.stamp(5)
    cut = [bytes(each.raw).split(b"amz-sdk-invocation-id")[1] for each in (unsigned, signed)]
    assert cut[0] == cut[1]


def test_without_a_key_nothing_changes() -> None:
    request = wire.send_requests(9324, URL)[0]
    assert Signer(None).signed(request) is request
