"""The table of errors against botocore's SQS model."""

import botocore.session

from data_plane.core import errors
from data_plane.core.errors import OF_EVERY_SERVICE, OF_SQS, Fault

FAULTS = [value for value in vars(errors).values() if isinstance(value, Fault)]


def test_the_shapes_of_sqs_are_those_of_its_model() -> None:
    model = botocore.session.get_session().get_service_model("sqs")
    modelled = {shape.name for shape in model.error_shapes}
    of_sqs = {fault.shape for fault in FAULTS if fault.namespace == OF_SQS}
    others = {fault.shape for fault in FAULTS if fault.namespace == OF_EVERY_SERVICE}
    assert of_sqs <= modelled
    assert others & modelled == set()
    assert of_sqs | others == {fault.shape for fault in FAULTS}


def test_no_two_faults_share_a_name() -> None:
    assert len({fault.code for fault in FAULTS}) == len(FAULTS)
    assert len({fault.shape for fault in FAULTS}) == len(FAULTS)
