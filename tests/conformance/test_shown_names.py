"""What logs, usage records and lines of functions show of a name that a request was refused for."""

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from botocore.exceptions import ClientError

from control_plane.serverless.answer_lines import AnswerLine, answer_line
from data_plane.frontend.served import Served
from data_plane.http.logs import LogWriter
from data_plane.usage.record import UsageRecord
from data_plane.usage.totals import Counting
from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer

HOSTILE = ("n" * 8_000, "n" * 129, 'n"}\n{"event":"forged"}', "n\x1b[2J", "n\u2028", "n name", "ö")
LINE_BYTES_MAX = 700
ARN = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:"


def calls(server: InProcessServer, name: str) -> list[tuple[Any, dict[str, Any]]]:
    """A call of each way to name something, with a text that is no name."""
    kinesis, sqs = server.kinesis(extended=True), server.client(extended=True)
    for client in (kinesis, sqs):
        client.meta.config.parameter_validation = False
    record = {"Data": b"x", "PartitionKey": "k"}
    return [
        (kinesis.put_record, {"StreamName": name, **record}),
        (kinesis.put_record, {"StreamARN": f"{ARN}stream/{name}", **record}),
        (kinesis.create_stream, {"StreamName": name}),
        (kinesis.describe_stream, {"StreamName": name}),
        (kinesis.list_tags_for_resource, {"ResourceARN": f"{ARN}stream/{name}"}),
        (kinesis.tidegate_describe_group, {"GroupName": name}),
        (kinesis.tidegate_create_group, {"GroupName": name, "StreamARNs": [f"{ARN}stream/s"]}),
        (sqs.create_queue, {"QueueName": name}),
        (sqs.get_queue_url, {"QueueName": name}),
        (sqs.send_message, {"QueueUrl": name, "MessageBody": "x"}),
        (sqs.send_message, {"QueueUrl": f"http://q/{ACCOUNT}/{name}", "MessageBody": "x"}),
        (sqs.start_message_move_task, {"SourceArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"}),
    ]


def shown(server: InProcessServer, served: Served) -> list[str]:
    """What three observers make of it, each a line."""
    written: list[bytes] = []
    log = LogWriter(written.append, server.clock, "info")
    log.served(served)
    log.flush()
    counting = Counting(())
    counting.served(served)
    (record,) = counting.take().records("0" * 16, 1)
    return [
        b"".join(written).decode(),
        answer_line(served, "0" * 16, 1, 1) + "\n",
        msgspec.json.encode(record).decode() + "\n",
    ]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_text_that_is_no_name_is_shown_nowhere(server: InProcessServer, name: str) -> None:
    for call, params in calls(server, name):
        with pytest.raises(ClientError):
            call(**params)
        served = server.served[-1]
        assert 400 <= served.status < 500
        assert served.queue == "", params
        log, line, record = shown(server, served)
        for text in (log, line, record):
            assert len(text.encode()) <= LINE_BYTES_MAX
            assert text.count("\n") == 1
            assert json.loads(text)["queue"] == ""
        # Whoever reads records takes no longer texts.
        msgspec.json.decode(line, type=AnswerLine)
        msgspec.json.decode(record, type=UsageRecord)


def test_a_valid_name_of_what_is_not_there_is_shown(server: InProcessServer) -> None:
    for name in ("n" * 80, "a-b_9"):
        for call, params in calls(server, name):
            with suppress(ClientError):
                call(**params)
            if "QueueUrl" in params or {"StreamName", "GroupName"} & params.keys():
                assert server.served[-1].queue == name, params
