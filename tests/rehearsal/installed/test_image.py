"""The image: small, nobody's, read-only, useful without arguments, and it stops when told to."""

import http.client
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from infra.asset import size
from tests.ports import free_port
from tests.rehearsal.installed.image import BASE, Image, check_tools, fetched
from tests.rehearsal.processes import UnavailableError

MB = 1_000_000
BESIDE_ITS_BASE_BYTES_MAX = 150 * MB
_ANSWER_S_MAX = 300


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    try:
        check_tools()
    except UnavailableError as error:
        pytest.skip(str(error))
    if not fetched():
        pytest.skip("the base of the image was not fetched")
    return Image(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def config(image: Image) -> dict[str, Any]:
    return image.build()


@pytest.fixture
def volume(image: Image, config: dict[str, Any]) -> Iterator[Path]:
    """An empty one, that belongs to the image's user, as engines make them."""
    image.data.mkdir()
    os.chown(image.data, *map(int, config["User"].split(":")))
    yield image.data
    subprocess.run(["rm", "-rf", str(image.data)], check=True)


def test_it_says_how_it_runs(config: dict[str, Any]) -> None:
    assert config["User"] == "65532:65532"
    assert list(config["ExposedPorts"]) == ["9324/tcp"]
    assert list(config["Volumes"]) == ["/var/lib/tidegate"]
    assert config["Healthcheck"]["Test"] == ["CMD", "tidegate", "health"]
    assert " ".join(config["Entrypoint"] + config["Cmd"]) == "tidegate serve"


@pytest.mark.usefixtures("config")
def test_it_is_small_beside_its_base(image: Image) -> None:
    assert size(image.root) - size(BASE) < BESIDE_ITS_BASE_BYTES_MAX


def test_without_arguments_it_serves_whom_its_key_is_given(
    image: Image, config: dict[str, Any], volume: Path
) -> None:
    port = free_port()
    given = {
        "TIDEGATE_PORT": str(port),
        "TIDEGATE_ROOT_ACCESS_KEY_ID": "image-root",
        "TIDEGATE_ROOT_SECRET_ACCESS_KEY": "image-secret",
    }
    running = image.run("keyed", config, given)
    try:
        await_health(port, running)
        sqs = boto3.client(
            "sqs",
            endpoint_url=f"http://127.0.0.1:{port}",
            region_name="us-east-1",
            aws_access_key_id="image-root",
            aws_secret_access_key="image-secret",
            config=Config(retries={"total_max_attempts": 1}),
        )
        queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
        sqs.send_message(QueueUrl=queue, MessageBody="two coffees")
        (received,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=10)["Messages"]
        assert received["Body"] == "two coffees"
        well = image.execute("keyed", "tidegate", "health")
        assert (well.returncode, '"status": "ok"' in well.stdout) == (0, True)
        listed = image.execute(
            "keyed", "tidegate", "queue", "list", "--endpoint", f"http://127.0.0.1:{port}"
        )
        assert "orders" in listed.stdout, listed.stderr
    finally:
        image.stop("keyed")
        _, log = running.communicate(timeout=_ANSWER_S_MAX)
    assert running.returncode == 0
    assert "image-secret" not in log
    assert {path.stat().st_uid for path in volume.rglob("*")} == {65532}


@pytest.mark.usefixtures("volume")
def test_without_anything_it_makes_a_key_in_its_volume(
    image: Image, config: dict[str, Any]
) -> None:
    port = free_port()
    running = image.run("bare", config, {"TIDEGATE_PORT": str(port)})
    try:
        await_health(port, running)
        shown = image.execute("bare", "cat", "/var/lib/tidegate/credentials")
        assert "aws_access_key_id = AKIA" in shown.stdout
    finally:
        image.stop("bare")
        running.communicate(timeout=_ANSWER_S_MAX)
    assert running.returncode == 0


def await_health(port: int, running: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + _ANSWER_S_MAX
    while time.monotonic() < deadline and running.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == http.HTTPStatus.OK:
                return
        except OSError:
            # Nothing tells when a listener opens but trying.
            time.sleep(0.02)  # between two looks at a process that starts
        finally:
            connection.close()
    raise AssertionError(f"the container does not serve: {running.communicate()}")
