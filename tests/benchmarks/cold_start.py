"""`python -m tests.benchmarks.cold_start`: what a door of Lambda costs before its first answer.

Each run is a new interpreter on this machine, as a sandbox starts one: it imports app.py, opens the
service over moto, and answers a signed SendMessage twice. Lambda adds the download of the asset,
which no machine but its own shows, and gives a sandbox less CPU after its start than this.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from data_plane.dynamodb.opening import make_table
from tests.benchmarks.latency import median
from tests.conformance.door_events import rest_event
from tests.conformance.in_process import to_http_request
from tests.rehearsal.emulators import REGION, client, running

ROOT: Final = Path(__file__).resolve().parents[2]
ACCOUNT: Final = "111122223333"
PHASES: Final = ("import", "open", "first answer", "second answer")
SANDBOX: Final = """
import json, sys
from time import perf_counter, process_time
stops = [(perf_counter(), process_time())]
def stop():
    stops.append((perf_counter(), process_time()))
import app
stop()
app.sandbox.doors
stop()
class Context:
    def get_remaining_time_in_millis(self):
        return 29_000
for event in json.loads(sys.argv[1]):
    result = app.app(event, Context())
    stop()
    assert result["statusCode"] == 200, result
print(json.dumps({"stops": stops, "modules": len(sys.modules)}))
"""
PREPARE: Final = """
import app, json
opened = app.sandbox.opened
accounts = opened.service.accounts
opened.run(accounts.create_account("bench", "ACCOUNT", {}))
key = opened.run(accounts.create_key("ACCOUNT"))
print(json.dumps([key.id, key.secret]))
"""


def main() -> int:
    """Measure, and print a line for each phase."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cold_start")
    parser.add_argument("--runs", type=int, default=15, metavar="N")
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder, running("moto", Path(folder)) as url:
        environ = _deploy(url)
        key_id, secret = json.loads(_python(PREPARE.replace("ACCOUNT", ACCOUNT), environ))
        make, *sends = _events(key_id, secret)
        _python(SANDBOX, environ, json.dumps([make]))  # the queue, and compiled modules
        measured: list[list[tuple[float, float]]] = []
        modules = 0
        for _ in range(runs):
            ran = json.loads(_python(SANDBOX, environ, json.dumps(sends)).splitlines()[-1])
            measured.append([_took_ms(*pair) for pair in pairwise(ran["stops"])])
            modules = ran["modules"]
    print(f"{modules} modules; medians of {runs} runs:")
    for name, phase in zip(PHASES, zip(*measured, strict=True), strict=True):
        walls, cpus = ([took[which] for took in phase] for which in (0, 1))
        print(f"{name:<14} {median(walls):7.1f} ms, {median(cpus):7.1f} ms of CPU")
    return 0


def _took_ms(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """Time that passed, and CPU time that was used, all threads together."""
    return 1000 * (after[0] - before[0]), 1000 * (after[1] - before[1])


def _deploy(url: str) -> dict[str, str]:
    """Make what a deployment has; the environment of its functions."""
    make_table(client("dynamodb", url), "tidegate")
    client("s3", url).create_bucket(Bucket="bodies")
    key = client("kms", url).create_key()["KeyMetadata"]["Arn"]
    return {
        "PYTHONPATH": str(ROOT),
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "TIDEGATE_ENDPOINT": url,
        "TIDEGATE_TABLE": "tidegate",
        "TIDEGATE_BLOBS": "s3://bodies",
        "TIDEGATE_KMS_KEY": key,
        "TIDEGATE_LOG_LEVEL": "error",
    }


def _events(key_id: str, secret: str) -> list[dict[str, Any]]:
    """Signed calls as API Gateway hands them over: CreateQueue, and SendMessage twice."""
    url = f"https://queues.example/{ACCOUNT}/bench"
    send = {"QueueUrl": url, "MessageBody": "x" * 100}
    return [
        _event(key_id, secret, "CreateQueue", {"QueueName": "bench"}),
        _event(key_id, secret, "SendMessage", send),
        _event(key_id, secret, "SendMessage", send),
    ]


def _event(key_id: str, secret: str, action: str, params: Mapping[str, Any]) -> dict[str, Any]:
    request: Any = AWSRequest(
        "POST",
        "https://queues.example/",
        headers={
            "X-Amz-Target": f"AmazonSQS.{action}",
            "Content-Type": "application/x-amz-json-1.0",
        },
        data=json.dumps(params).encode(),
    )
    SigV4Auth(Credentials(key_id, secret), "sqs", REGION).add_auth(request)
    return rest_event(to_http_request(request.prepare()))


def _python(program: str, environ: Mapping[str, str], *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=dict(environ),
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr or ran.stdout)
    return ran.stdout


if __name__ == "__main__":
    sys.exit(main())
