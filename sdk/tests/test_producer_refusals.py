"""What a producer does with what the server refuses for good."""

import pickle
import traceback
from concurrent.futures import Future
from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError

import tidegate_sdk
from sdk.tests.scripted import ScriptedClient, cut_off, refused
from sdk.tests.test_producer import Make, Server, make
from tidegate_sdk import DeliveryError, Producer
from tidegate_sdk.put_errors import like

__all__ = ["make"]


def test_a_refusal_is_not_repeated(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    site = make()
    site.client.lay_down("put_records", refused("ResourceNotFoundException"), site.server)
    lost = [site.producer.put(data, "k") for data in (b"secret", b"private")]
    site.at(1)
    assert all("ResourceNotFoundException" in str(future.exception(0)) for future in lost)
    [said] = caplog.messages
    assert said.startswith("2 records for clicks are refused, and not stored: An error occurred")
    assert "ResourceNotFoundException" in said
    later = site.producer.put(b"b", "k")
    site.at(2)
    assert later.result(0)


@pytest.mark.parametrize(("method", "told"), [("put", (b"x", "k")), ("flush", ()), ("close", ())])
@pytest.mark.parametrize(
    ("timeout_s", "error"),
    [(-1, ValueError), (float("nan"), ValueError), ("5", TypeError), (True, TypeError)],
)
def test_a_timeout_that_cannot_be_is_refused_and_changes_nothing(
    make: Make, method: str, told: tuple[Any, ...], timeout_s: Any, error: type[Exception]
) -> None:
    producer = make().producer
    with pytest.raises(error, match=r"^timeout_s is a number of seconds"):
        getattr(producer, method)(*told, timeout_s=timeout_s)
    assert not producer._closing
    assert not producer._put_bytes


@pytest.mark.parametrize("timeout_s", [float("inf"), 1e12, None])
def test_a_close_may_take_for_ever(timeout_s: float | None) -> None:
    client = ScriptedClient()
    client.lay_down("list_shards", refused("AccessDeniedException"))
    client.lay_down("put_records", Server())
    producer = Producer(client, "clicks")
    stored = producer.put(b"x", "k")
    producer.close(timeout_s=timeout_s)
    assert stored.result(0)


def _told_by(future: Future[Any]) -> tuple[Exception, str]:
    """What a future raises, and how it is shown then."""
    try:
        future.result(0)
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error, traceback.format_exc()
    raise AssertionError("it is stored")


def test_each_record_has_an_error_of_its_own_of_the_clients_class(make: Make) -> None:
    kinesis = tidegate_sdk.client("http://nowhere.example", "kinesis", region_name="any")
    gone = kinesis.exceptions.ResourceNotFoundException(
        {"Error": {"Code": "ResourceNotFoundException", "Message": "gone"}}, "PutRecords"
    )
    site = make()
    site.client.lay_down("put_records", gone)
    futures = [site.producer.put(b"x", "k") for _ in range(20)]
    site.at(1)
    told = [_told_by(future) for future in futures]
    assert {type(error) for error, _ in told} == {kinesis.exceptions.ResourceNotFoundException}
    assert {str(error) for error, _ in told} == {str(gone)}
    assert {error.response["Error"]["Message"] for error, _ in told} == {"gone"}  # type: ignore[attr-defined]
    assert len({id(error) for error, _ in told}) == 20
    assert len({shown.count("\n") for _, shown in told}) == 1, "they grow with each one"
    assert "batch_sending.py" in told[0][1], "where it comes from"


def test_each_record_that_is_late_has_an_error_of_its_own(make: Make) -> None:
    site = make(delivery_s_max=1)
    site.client.lay_down("put_records", cut_off())
    futures = [site.producer.put(b"x", "k") for _ in range(3)]
    site.at(1)
    errors = [future.exception(0) for future in futures]
    assert len({id(error) for error in errors}) == 3
    assert len({id(error.__cause__) for error in errors if error}) == 1


class _WantsMoreError(Exception):
    def __init__(self, text: str, _code: int) -> None:
        super().__init__(text)


@pytest.mark.parametrize(
    "error",
    [OSError(2, "no such file", "a"), UnicodeDecodeError("a", b"b", 0, 1, "c"), cut_off()],
)
def test_an_error_like_another_says_the_same(error: Exception) -> None:
    other = like(error)
    assert (type(other), str(other), other is error) == (type(error), str(error), False)


def test_a_delivery_error_may_be_pickled() -> None:
    error = DeliveryError("late", may_be_stored=True)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - the test's own
    assert (type(again), str(again), again.may_be_stored) == (DeliveryError, "late", True)


def test_an_error_of_which_none_can_be_made_is_shared() -> None:
    error = _WantsMoreError("text", 5)
    assert like(error) is error


def test_an_error_that_may_quote_records_is_named_in_the_log(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    site = make()
    site.client.lay_down("put_records", ParamValidationError(report="value: secret"))
    site.producer.put(b"secret", "k")
    site.at(1)
    assert caplog.messages == [
        "1 records for clicks are refused, and not stored: ParamValidationError"
    ]


@pytest.mark.parametrize(
    "unsure", [cut_off(), refused("InternalFailure", 500), refused("RequestTimeoutException", 408)]
)
def test_a_refusal_says_nothing_of_an_attempt_whose_answer_was_lost(
    make: Make, caplog: pytest.LogCaptureFixture, unsure: Exception
) -> None:
    site = make()
    site.client.lay_down("put_records", unsure, refused("UnrecognizedClientException"))
    futures = [site.producer.put(each, "k") for each in (b"a", b"b")]
    site.at(0.05)
    site.at(1)
    for future in futures:
        error = future.exception(0)
        assert isinstance(error, DeliveryError)
        assert error.may_be_stored
        assert "UnrecognizedClient" in str(error.__cause__)
    [said] = caplog.messages
    assert said.startswith("2 records for clicks were sent before, and may be stored or not;")


def test_a_refusal_says_nothing_of_an_attempt_that_botocore_repeated(make: Make) -> None:
    site = make()
    site.client.lay_down("put_records", refused("ValidationException", attempts_before=1))
    futures = [site.producer.put(each, "k") for each in (b"a", b"b")]
    site.at(1)
    errors = [future.exception(0) for future in futures]
    assert [isinstance(each, DeliveryError) and each.may_be_stored for each in errors] == [True] * 2
    assert site.sent() == [[b"a", b"b"]]


def test_what_was_too_fast_and_then_is_refused_is_not_stored(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    site = make()
    site.client.lay_down(
        "put_records", refused("LimitExceededException"), refused("AccessDeniedException")
    )
    future = site.producer.put(b"a", "k")
    site.at(0.05)
    site.at(1)
    assert isinstance(future.exception(0), ClientError)
    assert "not stored" in caplog.text


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("ProvisionedThroughputExceededException", "1 records for clicks are refused"),
        ("InternalFailure", "1 records for clicks were sent before"),
    ],
)
def test_of_a_batch_that_is_stored_in_part_only_the_rest_is_refused(
    make: Make, caplog: pytest.LogCaptureFixture, code: str, said: str
) -> None:
    site = make()
    half = {
        "FailedRecordCount": 1,
        "Records": [{"ShardId": "shard-0", "SequenceNumber": "7"}, {"ErrorCode": code}],
    }
    site.client.lay_down("put_records", half, refused("AccessDeniedException"))
    stored, rest = [site.producer.put(each, "k") for each in (b"a", b"b")]
    site.at(0.05)
    site.at(1)
    assert stored.result(0).sequence_number == "7"
    assert isinstance(rest.exception(0), DeliveryError if "before" in said else ClientError)
    [line] = caplog.messages
    assert line.startswith(said)


def test_a_wrong_name_of_a_stream_costs_one_call(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    site = make()
    text = "1 validation error detected: Value 'clicks!' at 'streamName' failed to satisfy"
    site.client.lay_down("put_records", refused("ValidationException", text=text))
    futures = [site.producer.put(b"x", "k") for _ in range(100)]
    site.at(1)
    assert all(isinstance(future.exception(0), ClientError) for future in futures)
    assert (len(site.sent()), len(caplog.messages)) == (1, 1)


def test_what_is_refused_of_a_batch_is_logged_when_its_producer_is_closed(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    site = make()
    wrong = refused("ValidationException")
    site.client.lay_down("put_records", wrong, wrong, cut_off())
    for data in (b"a", b"b"):
        site.producer.put(data, "k")
    site.at(0.05)
    assert site.sent() == [[b"a", b"b"], [b"a"], [b"b"]]
    site.producer.close(0)
    assert caplog.messages[0].startswith("1 records for clicks are refused")


def test_of_a_batch_only_what_is_refused_fails_and_the_order_is_kept(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    site = make()
    data = [str(number).encode() for number in range(500)]
    bad = {b"99", b"100", b"407"}

    def answer(params: dict[str, Any]) -> Any:
        if bad.intersection(entry["Data"] for entry in params["Records"]):
            return refused("ValidationException")
        return site.server(params)

    site.client.lay_down("put_records", answer)
    futures = [site.producer.put(each, "k") for each in data]
    cancelled = site.producer.put(b"not wanted", "k")
    cancelled.cancel()
    behind = site.producer.put(b"behind", "k")
    site.at(1)
    failed = [each for each, future in zip(data, futures, strict=True) if future.exception(0)]
    assert set(failed) == bad
    assert site.server.stored == [each for each in data if each not in bad] + [b"behind"]
    assert behind.result(0)
    assert site.producer._held_bytes() == 0
    [said] = caplog.messages
    assert said.startswith("3 records for clicks are refused, and not stored")


def test_what_may_be_stored_is_not_sent_under_another_name(make: Make) -> None:
    site = make()
    site.client.lay_down("put_records", cut_off(), refused("ValidationException"))
    futures = [site.producer.put(each, "k") for each in (b"a", b"b")]
    site.at(0.05)
    site.at(1)
    assert all(future.exception(0) for future in futures)
    assert site.sent() == [[b"a", b"b"]] * 2


def test_a_half_that_is_repeated_holds_up_the_other_one(make: Make) -> None:
    site = make()
    site.client.lay_down("put_records", refused("ValidationException"), cut_off(), site.server)
    site.producer.put(b"a", "k")
    site.producer.put(b"b", "k")
    site.at(0.05)
    assert site.sent() == [[b"a", b"b"], [b"a"]]
    assert not site.producer.flush(0)
    site.at(0.2)
    assert site.sent()[2:] == [[b"a"], [b"b"]]
    assert site.producer.flush(0)
