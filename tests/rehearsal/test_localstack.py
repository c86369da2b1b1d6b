"""`localstack/`: the compose file and its hooks, and the same without Docker."""

import json
import os
import shlex
import subprocess
import sys
from typing import Any, Final

import pytest
import yaml

from data_plane.dynamodb.tables import cell_table
from data_plane.settings import ServerSettings
from localstack.provision import BUCKET, ENDPOINT, KEY, TABLE, provision, serve_options
from tests.rehearsal.conftest import EngineUrl
from tests.rehearsal.dynamodb_local import ROOT
from tests.rehearsal.emulators import client
from tests.rehearsal.localstack import ENVIRONMENT

FOLDER: Final = ROOT / "localstack"
AWSLOCAL: Final = ENVIRONMENT / "bin" / "awslocal"
_RUN_S_MAX: Final = 1800

SESSION: Final = """
set -e
queue=$(sqs create-queue --queue-name orders --query QueueUrl --output text)
sqs send-message --queue-url "$queue" --message-body 'by the command line' >&2
sqs receive-message --queue-url "$queue" --query 'Messages[].Body' --output text
aws dynamodb scan --table-name tidegate --select COUNT --query 'Count > `1`'
aws kms describe-key --key-id alias/tidegate --query KeyMetadata.Enabled
aws s3api head-bucket --bucket tidegate-bodies >&2
"""
PRINTED: Final = ["by the command line", "true", "true"]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    return parsed


def test_what_compose_names_is_there(compose: dict[str, Any]) -> None:
    assert set(compose) == {"name", "services"}
    assert set(compose["services"]) == {"localstack", "tidegate"}
    engine, server = compose["services"]["localstack"], compose["services"]["tidegate"]
    assert engine["image"] == "localstack/localstack:4.14.0"
    assert all(published.startswith("127.0.0.1:") for published in engine["ports"])
    inside = {}
    for volume in engine["volumes"]:
        source, target, mode = volume.split(":")
        assert (FOLDER / source).exists(), source
        assert mode == "ro"
        inside[target] = (FOLDER / source).resolve()
    home = engine["environment"]["TIDEGATE_HOME"]
    assert inside[f"{home}/localstack/provision.py"] == FOLDER / "provision.py"
    assert inside[f"{home}/data_plane"] == ROOT / "data_plane"
    assert [hook.name for hook in sorted(inside["/etc/localstack/init/ready.d"].iterdir())] == [
        *("10-provision.py", "20-sqs.py")
    ]
    assert server["network_mode"] == "service:localstack"
    assert set(server["depends_on"]) == {"localstack"}
    build = server["build"]
    context = (FOLDER / build["context"]).resolve()
    lines = (context / build["dockerfile"]).read_text().splitlines()
    copied = [
        word
        for line in lines
        if line.startswith("COPY") and "--from" not in line
        for word in line.split()[1:-1]
    ]
    assert copied
    assert all((context / source).exists() for source in copied)


def test_the_server_of_compose_stands_on_what_is_provisioned(compose: dict[str, Any]) -> None:
    name, *given = compose["services"]["tidegate"]["command"]
    assert name == "serve"
    options = dict(option.removeprefix("--").split("=", 1) for option in given)
    wanted = serve_options(ENDPOINT)
    assert options == {
        **{wanted[at].removeprefix("--"): wanted[at + 1] for at in range(0, len(wanted), 2)},
        "auth": "off",
        "host": "127.0.0.1",
        "allowed-hosts": "*.amazonaws.com",
    }
    settings = ServerSettings(**{name.replace("-", "_"): it for name, it in options.items()})
    hooks = compose["services"]["localstack"]["environment"]
    assert hooks["TIDEGATE_URL"] == settings.url
    assert hooks["TIDEGATE_CELL_ENDPOINT"] == settings.endpoint


@pytest.mark.xdist_group("ministack")
def test_the_hook_provisions_what_the_code_describes(engine_url: EngineUrl) -> None:
    url = engine_url("ministack")
    hook = FOLDER / "init" / "ready.d" / "10-provision.py"
    environment = {"TIDEGATE_HOME": str(ROOT), "TIDEGATE_CELL_ENDPOINT": url}
    for _ in range(2):  # a second run changes nothing
        done = subprocess.run(
            [sys.executable, str(hook)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
    tables, keys, storage = (client(name, url) for name in ("dynamodb", "kms", "s3"))
    described = tables.describe_table(TableName=TABLE)["Table"]
    assert described["KeySchema"] == cell_table(TABLE)["KeySchema"]
    lifetime = tables.describe_time_to_live(TableName=TABLE)["TimeToLiveDescription"]
    assert lifetime["TimeToLiveStatus"] == "ENABLED"
    storage.head_bucket(Bucket=BUCKET)
    before = keys.describe_key(KeyId=KEY)["KeyMetadata"]["Arn"]
    provision(url)
    assert keys.describe_key(KeyId=KEY)["KeyMetadata"]["Arn"] == before
    tables.delete_table(TableName=TABLE)


@pytest.mark.parametrize("engine", ["ministack", "localstack"])
def test_without_docker_one_command_serves(engine: str) -> None:
    aws = {"ministack": [sys.executable, "-m", "awscli"], "localstack": [str(AWSLOCAL)]}[engine]
    # LocalStack has one address for all. AWS's first command line asks no variable for SQS's.
    where = '--endpoint-url "$AWS_ENDPOINT_URL_SQS"' if engine == "ministack" else ""
    session = f"""
        aws() {{ {shlex.join(aws)} "$@"; }}
        sqs() {{ aws sqs {where} "$@"; }}
        {SESSION}"""
    done = subprocess.run(
        [sys.executable, str(FOLDER / "run.py"), "--engine", engine, "sh", "-c", session],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_RUN_S_MAX,
        check=False,
    )
    unavailable = f"{engine}: "
    if done.returncode and (reason := done.stderr.strip()).startswith(unavailable):
        pytest.skip(reason)  # what the program itself says is missing
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:3] == PRINTED, done.stdout
    sent = json.loads(done.stderr[done.stderr.index("{") : done.stderr.index("}") + 1])
    assert set(sent) >= {"MessageId", "MD5OfMessageBody"}
