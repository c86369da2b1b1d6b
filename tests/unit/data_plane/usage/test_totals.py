from typing import Any

from data_plane.usage.totals import Counting, Totals
from tests.unit.data_plane.http.test_metrics import served

MINUTE_US = 60_000_000
KIB_64 = 65_536


def usage(totals: Totals) -> list[tuple[Any, ...]]:
    return [
        (r.minute, r.operation, r.status, r.code, r.requests, r.units, r.messages, r.bytes)
        for r in totals.records("0" * 16, 1)
    ]


def test_what_is_alike_is_added_up() -> None:
    counting = Counting(())
    for size in (0, 1, KIB_64, KIB_64 + 1, 1 << 20):
        counting.served(served("ReceiveMessage", messages=2, bytes=size))
    counting.served(served("ReceiveMessage", finished_us=MINUTE_US, messages=1, bytes=9))
    counting.served(served("ReceiveMessage", status=403, code="RequestThrottled"))
    totals = counting.take()
    assert usage(totals) == [
        (0, "ReceiveMessage", "2xx", "", 5, 1 + 1 + 1 + 2 + 16, 10, KIB_64 * 2 + 2 + (1 << 20)),
        (0, "ReceiveMessage", "4xx", "RequestThrottled", 1, 1, 0, 0),
        (1, "ReceiveMessage", "2xx", "", 1, 1, 1, 9),
    ]
    assert [record.number for record in totals.records("0" * 16, 7)] == [7, 8, 9]
    assert usage(counting.take()) == []


def test_classes_of_statuses_are_added_up() -> None:
    counting = Counting(())
    for status in (500, 503):
        counting.served(served("SendMessage", status=status, code="ServiceUnavailable"))
    assert usage(counting.take()) == [(0, "SendMessage", "5xx", "ServiceUnavailable", 2, 2, 0, 0)]


def test_sends_that_a_ledger_has_are_left_to_it() -> None:
    counting = Counting({"a"})
    for cell in ("a", "b"):
        for operation in ("SendMessage", "SendMessageBatch", "DeleteMessage"):
            sends = operation != "DeleteMessage"
            counting.served(served(operation, cell=cell, messages=1, counted=sends))
    counting.served(served("SendMessageBatch", cell="a", failed_entries=3))
    counting.served(served("SendMessage", cell="a", status=400, code="InvalidMessageContents"))
    totals = counting.take()
    assert usage(totals) == [
        (0, "DeleteMessage", "2xx", "", 2, 2, 2, 0),
        (0, "SendMessage", "2xx", "", 1, 1, 1, 0),
        (0, "SendMessage", "4xx", "InvalidMessageContents", 1, 1, 0, 0),
        (0, "SendMessageBatch", "2xx", "", 2, 2, 1, 0),
    ]
    assert sum(record.requests for record in totals.access_records("0" * 16, 1)) == 8


def test_sends_that_stored_nothing_are_requests_with_no_messages() -> None:
    counting = Counting({"a"})
    for cell in ("a", "b"):
        sent = {"messages": 2, "bytes": KIB_64 + 1, "cell": cell}
        counting.served(served("SendMessage", duplicates=2, duplicate_bytes=KIB_64 + 1, **sent))
        counting.served(served("SendMessageBatch", duplicates=1, duplicate_bytes=1, **sent))
    assert usage(counting.take()) == [
        (0, "SendMessage", "2xx", "", 2, 4, 0, 0),
        # What it stored in a cell with a ledger is in that, whoever counts the request.
        (0, "SendMessageBatch", "2xx", "", 2, 4, 1, KIB_64),
    ]


def test_receives_that_found_nothing_have_a_record_of_their_own() -> None:
    counting = Counting(())
    for messages in (0, 3, 0):
        counting.served(served("ReceiveMessage", cell="a", messages=messages))
    assert usage(counting.take()) == [
        (0, "ReceiveMessage", "2xx", "", 1, 1, 3, 0),
        (0, "ReceiveMessage", "2xx", "", 2, 2, 0, 0),
    ]


def test_accesses_say_who_and_from_where() -> None:
    counting = Counting(())
    for port in (1, 2):
        counting.served(
            served(
                "DeleteQueue",
                status=403,
                code="AccessDenied",
                principal="arn:aws:iam::111122223333:user/eve",
                access_key_id="TGKA1",
                client=f"10.0.0.1:{port}",
            )
        )
    (record,) = counting.take().access_records("0" * 16, 1)
    assert (record.principal, record.access_key_id, record.client, record.code) == (
        *("arn:aws:iam::111122223333:user/eve", "TGKA1"),
        *("10.0.0.1", "AccessDenied"),
    )
    assert record.requests == 2
