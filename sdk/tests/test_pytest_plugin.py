"""The fixtures in tests of somebody else, in a pytest of their own."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
THEIRS: Final = """
import pytest

@pytest.mark.parametrize("number", range(6))
def test_a_queue_of_ones_own(tidegate_sqs, tidegate_queue, tidegate_account, number):
    assert tidegate_sqs.list_queues()["QueueUrls"] == [tidegate_queue]
    assert f"/{tidegate_account}/" in tidegate_queue
    tidegate_sqs.send_message(QueueUrl=tidegate_queue, MessageBody=str(number))
    (message,) = tidegate_sqs.receive_message(QueueUrl=tidegate_queue)["Messages"]
    assert message["Body"] == str(number)
    for page in tidegate_sqs.get_paginator("tidegate_browse_messages").paginate(
        QueueUrl=tidegate_queue
    ):
        assert len(page["Messages"]) == 1

def test_accounts_differ(tidegate_server):
    first, second = (tidegate_server.new_account() for _ in range(2))
    tidegate_server.client(first).create_queue(QueueName="orders")
    assert "QueueUrls" not in tidegate_server.client(second).list_queues()
"""


@pytest.mark.parametrize("processes", ["0", "2"])
def test_tests_have_queues_of_their_own(tmp_path: Path, processes: str) -> None:
    (tmp_path / "test_theirs.py").write_text(THEIRS)
    options = [
        "-p",
        "no:tidegate",
        "-p",
        "tidegate_pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
    ]
    ran = subprocess.run(  # noqa: S603 - pytest
        [sys.executable, "-m", "pytest", "-q", *options, "-n", processes, str(tmp_path)],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'sdk/src'}", "PATH": "", "TIDEGATE_PORT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"\b7 passed", ran.stdout)
