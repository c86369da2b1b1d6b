"""One deployment for all tests: the stacks of a stage, on a MiniStack of its own."""

import configparser
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.server_process import ServerProcess, run_command
from tests.rehearsal import emulators
from tests.rehearsal.deployment.cdk import Cdk
from tests.rehearsal.deployment.deployed import Deployed, sqs_client
from tests.rehearsal.deployment.names import answered_by
from tests.rehearsal.deployment.stage import fetch_wheels, write_stage
from tests.rehearsal.deployment.story import Story, told
from tests.rehearsal.emulators import REGION
from tests.rehearsal.glue.job import need_spark
from tests.rehearsal.processes import UnavailableError

DOORS: Final = ("rest", "url")


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What an operator has: the command line of the CDK, stacks, and the first access key."""

    cdk: Cdk
    deployed: Deployed
    access_key: tuple[str, str]
    credentials: Path

    def deploy(self, long_poll_s_max: int) -> None:
        """Update the stacks in place."""
        synthesise(self.cdk, long_poll_s_max)
        self.cdk.deploy()

    def client(self, door: str, *, attempts: int = 1) -> Any:
        """A client of SQS with the root's key, for a door: "rest" or "url"."""
        return sqs_client(self.door(door), self.access_key, attempts=attempts)

    def server(self, log: Path) -> ServerProcess:
        """A long-lived server on what the stacks made; the caller starts it."""
        deployed = self.deployed
        cell = ("--cell", "dynamodb", "--endpoint", deployed.url)
        table = ("--table", deployed.the("AWS::DynamoDB::Table"))
        bodies = ("--blobs", f"s3://{deployed.the('AWS::S3::Bucket', 'bodies')}")
        key = ("--kms-key", deployed.the("AWS::KMS::Key", "mrk-"), "--kms-endpoint", deployed.url)
        options = (*cell, *table, *bodies, *key)
        return ServerProcess(self.credentials.parent, log, options=options, auth="on")

    def door(self, name: str) -> str:
        return self.deployed.rest_door() if name == "rest" else self.deployed.url_door()


def synthesise(cdk: Cdk, long_poll_s_max: int) -> None:
    """Write the templates of the stage with this option."""
    file = cdk.folder / "stage.toml"
    write_stage(file, endpoint=cdk.endpoint, long_poll_s_max=long_poll_s_max)
    cdk.synthesise(file)


def first_access(deployed: Deployed, folder: Path, table: str = "") -> Path:
    """The credentials file that `tidegate root` writes for a deployment nobody has used.

    `table` is that of the registry, if there are others.
    """
    table = table or deployed.the("AWS::DynamoDB::Table")
    done = run_command(
        *("root", "--table", table, "--region", REGION),
        *("--kms-key", deployed.the("AWS::KMS::Key", "mrk-"), "--endpoint", deployed.url),
        *("--data", str(folder)),
    )
    assert done.returncode == 0, done.stderr
    line = re.fullmatch(r"export AWS_SHARED_CREDENTIALS_FILE=(\S+)\n", done.stdout)
    assert line is not None, done.stdout
    return Path(line[1])


def read_key(credentials: Path) -> tuple[str, str]:
    """Id and secret."""
    parser = configparser.RawConfigParser()
    parser.read(credentials)
    section = parser["default"]
    return section["aws_access_key_id"], section["aws_secret_access_key"]


@pytest.fixture(scope="session")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Deployed, with long polls that end after a second, and its first access key made."""
    folder = tmp_path_factory.mktemp("deployment")
    try:
        fetch_wheels()
        with emulators.running("ministack", folder) as url, answered_by(url):
            cdk, deployed = Cdk(url, folder), Deployed(url)
            synthesise(cdk, long_poll_s_max=1)
            cdk.bootstrap()
            cdk.deploy()
            credentials = first_access(deployed, folder / "operator")
            yield Rehearsal(cdk, deployed, read_key(credentials), credentials)
        shutil.rmtree(cdk.assembly)  # the wheels alone are some 80 MB
    except UnavailableError as error:
        pytest.skip(str(error))  # which says what the emulator lacks to be started


@pytest.fixture(scope="session")
def story(rehearsal: Rehearsal, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """A client's messages; they are billed, exported, audited and digested by the jobs."""
    try:
        need_spark()
    except UnavailableError as error:
        pytest.skip(str(error))  # which says what is not installed
    return told(rehearsal.deployed, rehearsal.client("url"), tmp_path_factory.mktemp("glue"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "last: ends what the other tests use")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What ends the deployment comes last, whatever order the others have."""
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def sqs(rehearsal: Rehearsal, door: str) -> Iterator[Any]:
    """A client for each of the doors, to whom there are no queues yet."""
    client = rehearsal.client(door)
    yield client
    for found in client.list_queues().get("QueueUrls", []):
        client.delete_queue(QueueUrl=found)
    client.close()
