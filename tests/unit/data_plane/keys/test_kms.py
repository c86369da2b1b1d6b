"""Master keys in KMS, on moto."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from botocore.exceptions import (
    ClientError,
    CredentialRetrievalError,
    EndpointConnectionError,
    MetadataRetrievalError,
    NoCredentialsError,
    ReadTimeoutError,
)
from moto import mock_aws

from data_plane.keys import file, kms
from data_plane.keys.file import KeyFile
from data_plane.keys.kms import KmsKeys, open_kms
from data_plane.keys.succession import KmsAfterFile
from data_plane.ports import CellUnavailableError, MasterKeysError, WrappedKey
from data_plane.system import SystemEntropy

T = TypeVar("T")

CONTEXT = {"tidegate:account": "111122223333", "tidegate:queue": "arn:aws:sqs:eu-west-1:1:q"}
SECRET = bytes(range(32))


async def at_once(call: Callable[[], T]) -> T:
    return call()


def run(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "placeholder")
    with mock_aws():
        yield kms.connect("", "eu-west-1", connections_max=2)


def new_key(client: Any, alias: str = "") -> str:
    arn: str = client.create_key()["KeyMetadata"]["Arn"]
    if alias:
        client.create_alias(AliasName=alias, TargetKeyId=arn)
    return arn


def opened(client: Any, key_id: str) -> KmsKeys:
    return run(open_kms(client, key_id, at_once))


def test_what_is_wrapped_opens_for_its_context_alone(client: Any) -> None:
    arn = new_key(client, "alias/own")
    keys = opened(client, "alias/own")
    key = run(keys.wrap(SECRET, CONTEXT))
    assert key.master_key == f"kms:{arn}"
    assert SECRET not in key.wrapped
    assert run(keys.unwrap(key, CONTEXT)) == SECRET
    assert keys.is_current(key)
    with pytest.raises(MasterKeysError) as refusal:
        run(keys.unwrap(key, {**CONTEXT, "tidegate:account": "999999999999"}))
    assert refusal.value.reason == "InvalidCiphertext"


def test_data_keys_are_of_the_key_that_is_asked_for(client: Any) -> None:
    own, other = new_key(client), new_key(client, "alias/theirs")
    keys = opened(client, own)
    names = (("", own), ("alias/aws/sqs", own), ("alias/aws/kinesis", own))
    for key_id, arn in (*names, ("alias/theirs", other), (other, other)):
        plain, wrapped = run(keys.generate(CONTEXT, key_id))
        assert wrapped.master_key == f"kms:{arn}"
        assert len(plain) == 32
        assert plain not in wrapped.wrapped
        assert run(keys.unwrap(wrapped, CONTEXT)) == plain


def test_after_another_key_has_become_the_own_one_the_earlier_still_opens(client: Any) -> None:
    before, after = opened(client, new_key(client)), opened(client, new_key(client))
    key = run(before.wrap(SECRET, CONTEXT))
    assert run(after.unwrap(key, CONTEXT)) == SECRET
    assert not after.is_current(key)


def test_a_key_that_is_none_is_not_found(client: Any) -> None:
    keys = opened(client, new_key(client))
    for key_id in ("alias/none", "00000000-0000-0000-0000-000000000000"):
        with pytest.raises(MasterKeysError) as refusal:
            run(keys.generate(CONTEXT, key_id))
        assert refusal.value.reason == "NotFound"
    with pytest.raises(MasterKeysError, match="NotFoundException"):
        opened(client, "alias/none")


def failing(error: Exception) -> KmsKeys:
    class Client:
        def encrypt(self, **_: object) -> None:
            raise error

    return KmsKeys(Client(), "arn", at_once)


def refusal_of(code: str, status: int = 400) -> ClientError:
    answer: Any = {
        "Error": {"Code": code, "Message": "why"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(answer, "Encrypt")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("AccessDeniedException", "AccessDenied"),
        ("DisabledException", "Disabled"),
        ("InvalidArnException", "NotFound"),
        ("InvalidKeyUsageException", "InvalidKeyUsage"),
        ("KMSInvalidStateException", "KMSInvalidState"),
        ("NotFoundException", "NotFound"),
        ("OptInRequired", "OptInRequired"),
        ("ThrottlingException", "Throttling"),
        ("UnrecognizedClientException", "AccessDenied"),
    ],
)
def test_refusals_have_the_name_of_the_reason(code: str, reason: str) -> None:
    with pytest.raises(MasterKeysError, match=f"why .*{code}") as refusal:
        run(failing(refusal_of(code)).wrap(SECRET, CONTEXT))
    assert refusal.value.reason == reason


@pytest.mark.parametrize(
    "error",
    [
        refusal_of("KMSInternalException", 500),
        refusal_of("DependencyTimeoutException"),
        refusal_of("SomethingElse", 503),
        EndpointConnectionError(endpoint_url="http://kms"),
        ReadTimeoutError(endpoint_url="http://kms"),
        CredentialRetrievalError(provider="container-role", error_msg="timed out"),
        MetadataRetrievalError(error_msg="timed out"),
    ],
    ids=str,
)
def test_failures_that_pass_are_unavailability(error: Exception) -> None:
    with pytest.raises(CellUnavailableError, match="KMS: "):
        run(failing(error).wrap(SECRET, CONTEXT))


def test_missing_credentials_are_access_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MasterKeysError, match="no AWS credentials") as refusal:
        run(failing(NoCredentialsError()).wrap(SECRET, CONTEXT))
    assert refusal.value.reason == "AccessDenied"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(MasterKeysError, match="no AWS credentials"):
        kms.connect("", "eu-west-1", connections_max=1)


def test_a_client_waits_for_seconds_at_most(client: Any) -> None:
    config = client.meta.config
    assert config.connect_timeout + config.read_timeout <= 3
    assert config.retries["total_max_attempts"] == 2


def test_an_endpoint_that_is_none_is_named() -> None:
    with pytest.raises(MasterKeysError, match="nonsense"):
        kms.connect("nonsense", "eu-west-1", connections_max=1)


def test_a_key_of_a_file_is_not_looked_for_in_kms(client: Any) -> None:
    keys = opened(client, new_key(client))
    with pytest.raises(MasterKeysError, match="file:00"):
        run(keys.unwrap(WrappedKey("file:00", b""), CONTEXT))


def test_kms_may_take_the_place_of_a_file(client: Any, tmp_path: Path) -> None:
    path = tmp_path / "master.keys"
    file.create(path, SystemEntropy(), 0)
    older = KeyFile(path, SystemEntropy())
    key = run(older.wrap(SECRET, CONTEXT))
    arn = new_key(client)
    both = KmsAfterFile(opened(client, arn), older)
    assert run(both.unwrap(key, CONTEXT)) == SECRET
    assert not both.is_current(key)
    anew = run(both.wrap(SECRET, CONTEXT))
    assert anew.master_key == f"kms:{arn}"
    assert both.is_current(anew)
    assert run(both.unwrap(anew, CONTEXT)) == SECRET
    plain, wrapped = run(both.generate(CONTEXT, arn))
    assert run(both.unwrap(wrapped, CONTEXT)) == plain
