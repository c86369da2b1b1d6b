"""The HTTP header of a trace, which SQS passes on as a message's AWSTraceHeader.

Source: "Amazon SQS and AWS X-Ray" and "Tracing header" of the X-Ray developer guide.
"""

import re
from typing import Final

from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError
from data_plane.core.limits import TRACE_HEADER_BYTES_MAX

HTTP_HEADER: Final = "x-amzn-trace-id"

_is_printable: Final = re.compile("[ -~]+").fullmatch
_find_root: Final = re.compile(r"(?:^|;)\s*Root=1-[0-9A-Fa-f]{8}-[0-9A-Fa-f]{24}\s*(?:;|$)").search


def check_http_header(text: str) -> None:
    """Raise RefusedError for a header that names no trace, as SQS does of every call.

    Seen of a root that is none, of a header that is percent-encoded, and of a plain id, which SDKs
    take from where they run (aws/aws-xray-sdk-python #213, boto/boto3 #3372, aws/aws-sdk-net #2992,
    martincostello/lambda-test-server #449).
    """
    if text and not _find_root(text):
        raise RefusedError(
            INVALID_PARAMETER_VALUE,
            "The request has a 'X-Amzn-Trace-Id' HTTP header which is reserved for AWS X-Ray trace "
            f"header and has an invalid value '{text}'",
        )


def from_http_header(text: str) -> str:
    """The trace that a request's header names, for messages that bring none; "" for no trace.

    Load balancers, API Gateway and function URLs put the header, with a `Root` of their own, into
    every request that has none. That is no trace anybody follows: one has a `Parent`, or says
    whether it is `Sampled`. What is too long or not printable is no trace either: to ignore it
    loses no message, and to refuse it would.
    """
    if not text or len(text) > TRACE_HEADER_BYTES_MAX or not _is_printable(text):
        return ""
    names = {field.partition("=")[0].strip() for field in text.split(";") if "=" in field}
    return text if "Root" in names and not names.isdisjoint({"Parent", "Sampled"}) else ""
