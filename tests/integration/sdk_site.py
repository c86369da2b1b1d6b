"""What tests of the SDK's producers and consumers share: clients, streams, ledgers."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final, NamedTuple

from botocore.config import Config

import tidegate_sdk
from tests.integration.server_process import ROOT

FACT_S_MAX: Final = 120
"""A fact that takes seconds comes within this."""

_QUICK: Final = Config(
    retries={"total_max_attempts": 2, "mode": "standard"}, connect_timeout=10, read_timeout=60
)


def sdk_client(url: str, service: str) -> Any:
    return tidegate_sdk.client(
        url,
        service,
        region_name="eu-west-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=_QUICK,
    )


def wait_until(is_so: Callable[[], object], what: str) -> None:
    until_s = time.monotonic() + FACT_S_MAX
    while not is_so():
        assert time.monotonic() < until_s, f"not within {FACT_S_MAX} s: {what}"
        time.sleep(0.02)  # between two looks


def records_of(kinesis: Any, stream: str) -> dict[str, list[dict[str, Any]]]:
    """All records of a stream, by shard, as they lie there."""
    found: dict[str, list[dict[str, Any]]] = {}
    for shard in kinesis.list_shards(StreamName=stream)["Shards"]:
        found[shard["ShardId"]] = records = []
        iterator = kinesis.get_shard_iterator(
            StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while iterator:
            page = kinesis.get_records(ShardIterator=iterator)
            records += page["Records"]
            iterator = page.get("NextShardIterator")
            if not page["Records"] and not page["MillisBehindLatest"]:
                break
    return found


class Program(NamedTuple):
    """A program of its own that a test has started, and what it prints."""

    process: subprocess.Popen[str]
    said: IO[str]

    def stop(self, number: int) -> str:
        """Send it a signal, and see it end well: what it has said since."""
        return self.stop_within(number, FACT_S_MAX)

    def stop_within(self, number: int, end_s_max: float) -> str:
        """As above, in so much time. `communicate` would forget what was read and not asked for."""
        late = threading.Timer(end_s_max, self.process.kill)
        late.start()
        self.process.send_signal(number)
        rest = self.said.read()
        assert self.process.wait() == 0, f"it ends well, and within {end_s_max} s"
        late.cancel()
        return rest


@contextmanager
def program(text: str, *arguments: str) -> Iterator[Program]:
    with subprocess.Popen(
        [sys.executable, "-c", text, *arguments],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'sdk/src'}", "PATH": ""},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield Program(process, process.stdout)
        finally:
            process.kill()
