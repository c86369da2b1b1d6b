"""The table of errors against botocore's models of SQS and Kinesis."""

from typing import Any

import botocore.session

from data_plane.core import errors
from data_plane.core.errors import KINESIS_SPELLING, OF_EVERY_SERVICE, OF_KINESIS, OF_SQS, Fault
from data_plane.protocol.queue_shapes import QUEUE_SHAPES
from data_plane.protocol.stream_shapes import SHAPES

TABLE = [value for value in vars(errors).values() if isinstance(value, Fault)]
OF_KINESIS_ALONE = [fault for fault in TABLE if fault.namespace == OF_KINESIS]
FAULTS = [fault for fault in TABLE if fault.namespace != OF_KINESIS]
SPELLED_AS_BY_ALL = {
    *("AccessDeniedException", "IncompleteSignatureException", "InternalFailure"),
    *("InvalidAddress", "InvalidSecurity", "InvalidSignatureException", "LengthRequired"),
    *("MalformedHttpRequestException", "MalformedQueryString", "RequestEntityTooLarge"),
    *("MissingAuthenticationTokenException", "RequestTimeoutException", "SerializationException"),
    *("ServiceUnavailable", "UnknownOperationException", "UnrecognizedClientException"),
}


def model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


def test_the_shapes_of_sqs_are_those_of_its_model() -> None:
    modelled = {shape.name for shape in model("sqs").error_shapes}
    of_sqs = {fault.shape for fault in FAULTS if fault.namespace == OF_SQS}
    others = {fault.shape for fault in FAULTS if fault.namespace == OF_EVERY_SERVICE}
    assert of_sqs <= modelled
    assert others & modelled == set()
    assert of_sqs | others == {fault.shape for fault in FAULTS}


def test_no_two_faults_share_a_name() -> None:
    for faults in (FAULTS, OF_KINESIS_ALONE):
        assert len({fault.code for fault in faults}) == len(faults)
        assert len({fault.shape for fault in faults}) == len(faults)


OURS = {
    "TidegateFencedMember",
    "TidegateFencedProducer",
    "TidegateStaleAssignment",
    "TidegateUnknownMember",
    "TidegateUnreleasedInstance",
}
"""Beyond Kinesis (docs/streams.md)."""


def test_the_shapes_of_kinesis_are_those_of_its_model() -> None:
    kinesis = model("kinesis")
    served = (*SHAPES, *QUEUE_SHAPES)
    raised = {shape.name for name in served for shape in kinesis.operation_model(name).error_shapes}
    own = {fault.shape for fault in OF_KINESIS_ALONE} - OURS
    spelled = {fault.shape for fault in KINESIS_SPELLING.values()}
    assert own <= raised
    assert spelled - raised == SPELLED_AS_BY_ALL - raised
    # SQS's name of the last one is without `Exception`, and so is what AWS answers.
    assert raised - own - spelled == {"InternalFailureException"}


def test_what_is_wrong_with_a_call_of_kinesis_is_400() -> None:
    for fault in (*OF_KINESIS_ALONE, *KINESIS_SPELLING.values()):
        assert fault.code == fault.shape
        assert fault.namespace == ""
        assert fault.status in ({400, 408, 411, 413} if fault.sender else {500, 503})
    # Every service meets these; none comes through under SQS's name or status.
    assert {fault for fault in FAULTS if fault.namespace == OF_EVERY_SERVICE} <= {*KINESIS_SPELLING}
