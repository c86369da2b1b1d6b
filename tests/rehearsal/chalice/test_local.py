"""`chalice local` in a process of its own, on an emulator: signed requests, as SDKs make them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from data_plane.dynamodb.opening import make_table
from tests.conformance.client_calls import error
from tests.integration.server_process import run_command
from tests.ports import free_port
from tests.rehearsal import emulators
from tests.rehearsal.chalice.project import Project, config
from tests.rehearsal.deployment.conftest import read_key
from tests.rehearsal.deployment.deployed import sqs_client
from tests.rehearsal.emulators import REGION
from tests.rehearsal.processes import UnavailableError, running

pytestmark = pytest.mark.xdist_group("chalice")


@dataclass(frozen=True, slots=True)
class Served:
    """Where it serves, and root's key."""

    url: str
    key: tuple[str, str]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("chalice-local")
    try:
        with emulators.running("moto", folder) as engine:
            key_arn = made(engine)
            project = Project.at(
                folder / "project", TIDEGATE_ENDPOINT=engine, TIDEGATE_KMS_KEY=key_arn
            )
            key = first_key(engine, key_arn, folder / "operator")
            with running(project.local(free_port()), folder / "chalice.log") as url:
                yield Served(url, key)
    except UnavailableError as error:
        pytest.skip(str(error))  # which says what is not installed


def made(engine: str) -> str:
    """What the stage `dev` of `.chalice/config.json` names; the master key's ARN."""
    told = config()["stages"]["dev"]["environment_variables"]
    make_table(emulators.client("dynamodb", engine), told["TIDEGATE_TABLE"])
    buckets = emulators.client("s3", engine)
    for place in (told["TIDEGATE_BLOBS"], told["TIDEGATE_USAGE"]):
        buckets.create_bucket(Bucket=place.removeprefix("s3://").partition("/")[0])
    return str(emulators.client("kms", engine).create_key()["KeyMetadata"]["Arn"])


def first_key(engine: str, key_arn: str, data: Path) -> tuple[str, str]:
    table = config()["stages"]["dev"]["environment_variables"]["TIDEGATE_TABLE"]
    done = run_command(
        *("root", "--table", table, "--region", REGION, "--kms-key", key_arn),
        *("--endpoint", engine, "--data", str(data)),
    )
    assert done.returncode == 0, done.stderr
    return read_key(data / "credentials")


def test_a_message_is_sent_received_and_deleted(served: Served) -> None:
    sqs = sqs_client(served.url, served.key)
    queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sent = sqs.send_message(QueueUrl=queue, MessageBody="two coffees \N{SNOWMAN}")
    (message,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=2)["Messages"]
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], "two coffees \N{SNOWMAN}")
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_signatures_are_verified(served: Served) -> None:
    forged = sqs_client(served.url, (served.key[0], served.key[1][::-1]))
    code, _, status = error(forged.list_queues)
    assert (code, status) == ("SignatureDoesNotMatch", 403)


def test_calls_that_come_together_take_turns(served: Served) -> None:
    """Chalice has a thread for each; a sandbox has one call at a time."""
    sqs = sqs_client(served.url, served.key)
    queue = sqs.create_queue(QueueName="busy")["QueueUrl"]
    bodies = [f"number {number}" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda body: sqs.send_message(QueueUrl=queue, MessageBody=body), bodies))
    found: list[str] = []
    while len(found) < len(bodies):
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=2)
        found += [message["Body"] for message in answer["Messages"]]
    assert sorted(found) == sorted(bodies)
