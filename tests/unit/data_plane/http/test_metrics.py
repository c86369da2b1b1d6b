from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from data_plane.core.message import Counts
from data_plane.frontend.served import Served
from data_plane.http import metrics as module
from data_plane.http import queue_record_metrics, stream_metrics
from data_plane.http.metrics import Gauges, Metrics, resident_bytes
from data_plane.streams.lag import Lag

NOW_MS = 1_800_000_000_000


def served(operation: str, **fields: Any) -> Served:
    defaults: dict[str, Any] = {
        "request_id": "r",
        "operation": operation,
        "account": "111111111111",
        "region": "us-east-1",
        "queue": "orders",
        "protocol": "json",
        "status": 200,
        "code": "",
        "started_us": 0,
        "finished_us": 3000,
        "messages": 0,
        "bytes": 0,
        "failed_entries": 0,
        "client": "127.0.0.1:1",
    }
    return Served(**{**defaults, **fields})


def values(metrics: Metrics, gauges: Gauges | None = None) -> dict[str, float]:
    """Sample values by name, with the labels that matter here."""
    gauges = gauges or Gauges({}, 0, 0.0, NOW_MS, {})
    return {
        sample.name
        + "".join(
            f",{sample.labels[label]}"
            for label in ("queue", "stream", "operation", "status", "code", "le", "cell")
            if label in sample.labels
        ): sample.value
        for family in text_string_to_metric_families(b"".join(metrics.pieces(gauges)).decode())
        for sample in family.samples
    }


def test_messages_are_counted_per_queue_as_sqs_does() -> None:
    metrics = Metrics()
    metrics.served(served("SendMessage", messages=1, bytes=100))
    metrics.served(served("SendMessageBatch", messages=9, bytes=900, failed_entries=1))
    metrics.served(served("ReceiveMessage", messages=4, bytes=400))
    metrics.served(served("ReceiveMessage"))
    metrics.served(served("DeleteMessageBatch", messages=3))
    metrics.served(served("DeleteMessage", messages=1, queue="other"))
    found = values(metrics)
    assert found["tidegate_sqs_number_of_messages_sent_total,orders"] == 10
    assert found["tidegate_sqs_sent_message_size_bytes_sum,orders"] == 1000
    assert found["tidegate_sqs_sent_message_size_bytes_count,orders"] == 10
    assert found["tidegate_sqs_number_of_messages_received_total,orders"] == 4
    assert found["tidegate_sqs_number_of_empty_receives_total,orders"] == 1
    assert found["tidegate_sqs_number_of_messages_deleted_total,orders"] == 3
    assert found["tidegate_sqs_number_of_messages_deleted_total,other"] == 1


def of_streams(metrics: Metrics, now_ms: int = NOW_MS) -> dict[str, float]:
    found = values(metrics, Gauges({}, 0, 0.0, now_ms, {}))
    return {
        name.removeprefix("tidegate_kinesis_"): value
        for name, value in found.items()
        if name.startswith("tidegate_kinesis_")
    }


def test_records_are_counted_per_stream_as_kinesis_does() -> None:
    metrics = Metrics()
    for operation, did in (
        ("PutRecord", {"messages": 1, "bytes": 100}),
        ("PutRecords", {"messages": 3, "bytes": 900, "failed_entries": 2}),
        ("GetRecords", {"messages": 4, "bytes": 1000, "behind_ms": 70}),
        ("GetRecords", {}),
        ("ListShards", {}),
    ):
        metrics.served(served(f"kinesis:{operation}", queue="clicks", **did))
    metrics.served(served("kinesis:PutRecord", queue="clicks", status=500, messages=1))
    assert of_streams(metrics, now_ms=1_000) == {
        f"{name},clicks": value
        for name, value in {
            "incoming_bytes_total": 1000,
            "incoming_records_total": 4,
            "put_record_bytes_total": 100,
            "put_record_success_total": 1,
            "put_records_bytes_total": 900,
            "put_records_success_total": 1,
            "put_records_total_records_total": 5,
            "put_records_successful_records_total": 3,
            "put_records_failed_records_total": 2,
            "get_records_bytes_total": 1000,
            "get_records_records_total": 4,
            "get_records_success_total": 2,
            "get_records_iterator_age_milliseconds": 70,
        }.items()
    }
    assert not any("tidegate_sqs" in name for name in values(metrics)), "a stream is no queue"


def test_the_age_of_iterators_is_the_greatest_of_a_minute_or_two() -> None:
    name = "get_records_iterator_age_milliseconds,clicks"
    metrics = Metrics()
    for minute, behind_ms in ((0, 900), (0, 100), (1, 50), (4, 20)):
        when = {"finished_us": minute * 60_000_000, "behind_ms": behind_ms}
        metrics.served(served("kinesis:GetRecords", queue="clicks", **when))
        assert of_streams(metrics, now_ms=minute * 60_000)[name] == (20 if minute == 4 else 900)
    assert of_streams(metrics, now_ms=5 * 60_000)[name] == 20
    assert of_streams(metrics, now_ms=6 * 60_000)[name] == 0


def test_queues_of_kinesis_are_counted_by_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_record_metrics, "QUEUES_MAX", 2)
    metrics = Metrics()
    for queue_id, messages in (("a", 3), ("a", 0), ("b", 1), ("c", 5), ("d", 5)):
        metrics.served(served("kinesis:ReceiveQueueRecords", queue=queue_id, messages=messages))
    metrics.served(served("kinesis:AcknowledgeQueueRecords", queue="a", messages=2))
    metrics.served(served("kinesis:AcknowledgeQueueRecords", queue="a", status=400, messages=0))
    metrics.served(served("kinesis:ReceiveDeadLetterQueueRecords", queue="a", messages=9))
    metrics.served(served("kinesis:DeleteQueue", queue="b"))
    text = b"".join(metrics.pieces(Gauges({}, 0, 0.0, NOW_MS, {}))).decode()
    told = {
        line.partition("{")[0].removeprefix("tidegate_kinesis_")
        + ","
        + line.partition('queue_id="')[2].partition('"')[0]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if "queue_id=" in line
    }
    assert told == {
        "received_queue_records_total,a": 3,
        "acknowledged_queue_records_total,a": 2,
        "empty_receives_total,a": 1,
        "received_queue_records_total,(other)": 10,
        "acknowledged_queue_records_total,(other)": 0,
        "empty_receives_total,(other)": 0,
    }


def test_gauges_of_queues_of_kinesis_are_those_of_the_scrape() -> None:
    counts = Counts(visible=5, in_flight=3, delayed=0, oldest_sent_ms=1, dead=2)
    queues = {("1" * 12, "us-east-1", "ab12"): counts}
    text = b"".join(Metrics().pieces(Gauges({}, 0, 0.0, NOW_MS, {}, queue_records=queues))).decode()
    labels = '{account="111111111111",queue_id="ab12",region="us-east-1"}'
    assert f"tidegate_kinesis_visible_queue_records{labels} 5.0\n" in text
    assert f"tidegate_kinesis_in_flight_queue_records{labels} 3.0\n" in text
    assert f"tidegate_kinesis_visible_dead_letter_queue_records{labels} 2.0\n" in text


def test_lags_of_groups_are_told_by_stream() -> None:
    lags = {("1" * 12, "us-east-1", "billing", "clicks"): Lag(7, 1_500)}
    text = b"".join(Metrics().pieces(Gauges({}, 0, 0.0, NOW_MS, {}, group_lags=lags))).decode()
    labels = '{account="111111111111",group="billing",region="us-east-1",stream="clicks"}'
    assert f"tidegate_kinesis_group_lag_records{labels} 7.0\n" in text
    assert f"tidegate_kinesis_group_lag_milliseconds{labels} 1500.0\n" in text


def test_a_deleted_stream_has_no_series_and_more_than_a_thousand_share_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_metrics, "STREAMS_MAX", 2)
    metrics = Metrics()
    for name in ("a", "b", "c", "d"):
        metrics.served(served("kinesis:PutRecord", queue=name, messages=1))
    found = of_streams(metrics)
    assert found["incoming_records_total,a"] == 1
    assert found["incoming_records_total,(other)"] == 2
    assert "incoming_records_total,c" not in found
    metrics.served(served("kinesis:DeleteStream", queue="a"))
    assert "incoming_records_total,a" not in of_streams(metrics)


def test_a_refused_request_counts_as_request_and_moves_no_messages() -> None:
    metrics = Metrics()
    metrics.served(served("ReceiveMessage", status=400, code="OverLimit"))
    found = values(metrics)
    assert found["tidegate_requests_total,ReceiveMessage,400,OverLimit"] == 1
    assert not any(name.startswith("tidegate_sqs_number_of_empty") for name in found)


def test_latency_buckets_are_cumulative() -> None:
    metrics = Metrics()
    for took_us in (400, 500, 501, 30_000_000):
        metrics.served(served("SendMessage", finished_us=took_us))
    found = values(metrics)
    bucket = "tidegate_request_duration_seconds_bucket,SendMessage"
    assert found[f"{bucket},0.0005"] == 2
    assert found[f"{bucket},0.001"] == 3
    assert found[f"{bucket},20.0"] == 3
    assert found[f"{bucket},+Inf"] == 4
    assert found["tidegate_request_duration_seconds_sum,SendMessage"] == pytest.approx(30.001401)


def test_queues_beyond_the_bound_share_one_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUES_MAX", 2)
    metrics = Metrics()
    for queue in ("a", "b", "c", "d", "a"):
        metrics.served(served("SendMessage", queue=queue, messages=1))
    found = values(metrics)
    name = "tidegate_sqs_number_of_messages_sent_total"
    assert found[f"{name},a"] == 2
    assert found[f"{name},b"] == 1
    assert found[f"{name},(other)"] == 2
    assert f"{name},c" not in found


def test_a_deleted_queue_leaves_no_series() -> None:
    metrics = Metrics()
    metrics.served(served("SendMessage", messages=1))
    metrics.forget(("111111111111", "us-east-1", "orders"))
    assert not any(",orders" in name for name in values(metrics))


def test_gauges_are_those_of_the_scrape() -> None:
    counts = Counts(visible=5, in_flight=3, delayed=2, oldest_sent_ms=NOW_MS - 1500)
    empty = Counts(visible=0, in_flight=0, delayed=0, oldest_sent_ms=0)
    queues = {("1" * 12, "us-east-1", "q"): counts, ("1" * 12, "us-east-1", "e"): empty}
    cells = {"local": {"commits_total": 7.0, "available": 1.0}}
    found = values(Metrics(), Gauges(queues, 4, 60.0, NOW_MS, cells))
    prefix = "tidegate_sqs_approximate"
    assert found[f"{prefix}_number_of_messages_visible,q"] == 5
    assert found[f"{prefix}_number_of_messages_not_visible,q"] == 3
    assert found[f"{prefix}_number_of_messages_delayed,q"] == 2
    assert found[f"{prefix}_age_of_oldest_message_seconds,q"] == 1.5
    assert found[f"{prefix}_age_of_oldest_message_seconds,e"] == 0
    assert found["tidegate_requests_in_flight"] == 4
    assert found["tidegate_uptime_seconds"] == 60
    assert found["tidegate_cell_commits_total,local"] == 7
    assert found["tidegate_cell_available,local"] == 1


def test_the_text_is_bounded_and_comes_in_small_pieces() -> None:
    metrics = Metrics()
    for number in range(2 * module.QUEUES_MAX):
        metrics.served(served("SendMessage", queue=f"{number:080}", region="r" * 32, messages=1))
    counts = Counts(visible=2**60, in_flight=2**60, delayed=2**60, oldest_sent_ms=1)
    names = list(metrics.queues)[: module.QUEUES_MAX]
    pieces = list(metrics.pieces(Gauges(dict.fromkeys(names, counts), 0, 0.0, NOW_MS, {})))
    assert sum(piece.count(b"\n") for piece in pieces) > 10 * module.QUEUES_MAX
    assert sum(map(len, pieces)) < 3 * 1024 * 1024
    assert max(piece.count(b"\n") for piece in pieces) <= 2 * 50
    assert max(map(len, pieces)) < 32 * 1024


def test_counting_goes_on_between_two_pieces() -> None:
    metrics = Metrics()
    metrics.served(served("SendMessage", messages=1))
    for number, _ in enumerate(metrics.pieces(Gauges({}, 0, 0.0, NOW_MS, {}))):
        metrics.served(served(f"Operation{number}", queue=f"q-{number}", messages=1, status=400))
        metrics.served(served("SendMessage", queue=f"q-{number}", messages=1))


def test_labels_cannot_end_their_line() -> None:
    cells = {'a "table"\n\\b': {"available": 1.0, "lag_seconds": float("nan")}}
    found = values(Metrics(), Gauges({}, 0, 0.0, NOW_MS, cells))
    assert found['tidegate_cell_available,a "table"\n\\b'] == 1


def test_resident_memory_is_that_of_a_python_process() -> None:
    assert 5_000_000 < resident_bytes() < 100_000_000_000
