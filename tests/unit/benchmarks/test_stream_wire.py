import base64
import json

from tests.benchmarks import stream_wire
from tests.benchmarks.wire import BODY_BYTES, response_body


def _params(asked: bytearray) -> dict[str, object]:
    params = json.loads(response_body(asked))
    assert isinstance(params, dict)
    return params


def test_one_record_goes_by_put_record_and_several_by_put_records() -> None:
    one = stream_wire.put_requests(9324, "clicks", 1, BODY_BYTES)[0]
    several = stream_wire.put_requests(9324, "clicks", 10, 100)[0]
    assert b"X-Amz-Target: Kinesis_20131202.PutRecord\r\n" in one.raw
    assert b"X-Amz-Target: Kinesis_20131202.PutRecords\r\n" in several.raw
    assert b"Content-Type: application/x-amz-json-1.1\r\n" in several.raw
    assert len(base64.b64decode(str(_params(one.raw)["Data"]))) == BODY_BYTES
    records = _params(several.raw)["Records"]
    assert isinstance(records, list)
    assert [len(base64.b64decode(record["Data"])) for record in records] == [100] * 10


def test_what_is_read_of_answers() -> None:
    got = b'{"Records":[{"SequenceNumber":"1"},{"SequenceNumber":"2"}],"NextShardIterator":"bbb"}'
    assert stream_wire.record_count(got) == 2
    assert stream_wire.next_iterator(got) == b"bbb"
    assert stream_wire.next_iterator(b'{"Records":[],"ChildShards":[]}') is None
    assert stream_wire.shard_iterator(b'{"ShardIterator": "aaa"}') == b"aaa"
    assert stream_wire.failed_records(b'{"FailedRecordCount":0,"Records":[]}') == 0
    assert stream_wire.failed_records(b'{"FailedRecordCount": 12,"Records":[]}') == 12
