import pytest
from botocore.exceptions import (
    CredentialRetrievalError,
    MetadataRetrievalError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)

from sdk.tests.scripted import cut_off, refused
from tidegate_sdk.clock import Backoff
from tidegate_sdk.failures import is_of_contents, is_passing


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (cut_off(), True),
        (ReadTimeoutError(endpoint_url="http://nowhere.example"), True),
        (ConnectionResetError(), True),
        (refused("InternalFailure", 500), True),
        (refused("ServiceUnavailable", 503), True),
        (refused("Whatever", 429), True),
        (refused("RequestThrottled", 403), True),
        (refused("ProvisionedThroughputExceededException"), True),
        (refused("AccessDeniedException", 403), False),
        (refused("QueueDoesNotExist"), False),
        (NoCredentialsError(), False),
        (MetadataRetrievalError(error_msg="timed out"), True),
        (CredentialRetrievalError(provider="container-role", error_msg="timed out"), True),
        (CredentialRetrievalError(provider="iam-role", error_msg="nothing came"), True),
        (CredentialRetrievalError(provider="custom-process", error_msg="no such file"), False),
        (ParamValidationError(report="wrong"), False),
        (ValueError(), False),
    ],
)
def test_errors_of_networks_and_servers_pass(error: Exception, passes: bool) -> None:  # noqa: FBT001
    assert is_passing(error) == passes


_ONE_WRONG = "1 validation error detected: Value"


@pytest.mark.parametrize(
    ("error", "is_so"),
    [
        (refused("ValidationException", text=f"{_ONE_WRONG} 'a b' at 'streamName' failed"), False),
        (refused("ValidationException", text=f"{_ONE_WRONG} 'a b' at 'streamARN' failed"), False),
        (refused("InvalidArgumentException", text="StreamARN arn:foo is not the ARN"), False),
        (refused("AccessDeniedException"), False),
        (ValueError(), False),
        (
            refused(
                "ValidationException",
                text=f"{_ONE_WRONG} null at 'records.1.member.partitionKey' failed",
            ),
            True,
        ),
        (refused("SerializationException"), True),
    ],
)
def test_a_part_of_a_call_may_be_taken_where_its_records_are_wrong(
    error: Exception,
    is_so: bool,  # noqa: FBT001
) -> None:
    assert is_of_contents(error) == is_so


def test_pauses_double_up_to_the_longest() -> None:
    pauses = Backoff(first_s=1, max_s=5, fraction=lambda: 0.0)
    assert [pauses.pause_s(failures) for failures in (1, 2, 3, 4, 10_000)] == [1, 2, 4, 5, 5]
    assert Backoff(first_s=1, fraction=lambda: 1.0).pause_s(1) == 0.5
