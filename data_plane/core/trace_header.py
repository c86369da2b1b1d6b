"""The HTTP header of a trace, which SQS passes on as a message's AWSTraceHeader.

Source: "Amazon SQS and AWS X-Ray" and "Tracing header" of the X-Ray developer guide.
"""

import re
from typing import Final

from data_plane.core.limits import TRACE_HEADER_BYTES_MAX

HTTP_HEADER: Final = "x-amzn-trace-id"

_is_printable: Final = re.compile("[ -~]+").fullmatch


def from_http_header(text: str) -> str:
    """The trace that a request's header names, for messages that bring none; "" for no trace.

    Load balancers, API Gateway and function URLs put the header, with a `Root` of their own, into
    every request that has none. That is no trace anybody follows: one has a `Parent`, or says
    whether it is `Sampled`. What is malformed or too long is no trace either: to ignore it loses
    no message, and to refuse it would.
    """
    if not text or len(text) > TRACE_HEADER_BYTES_MAX or not _is_printable(text):
        return ""
    names = {field.partition("=")[0].strip() for field in text.split(";") if "=" in field}
    return text if "Root" in names and not names.isdisjoint({"Parent", "Sampled"}) else ""
