"""The audit of what a real server of several cells wrote, and of what was planted in its copies."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server_process import ServerProcess
from tests.rehearsal.forged import Forger
from tests.rehearsal.forged_copies import CopiesForger, export_all
from tests.rehearsal.stored_items import Directory
from tests.rehearsal.test_audit import SPARK, Client, audit

QUEUES: dict[str, dict[str, str]] = {
    **{name: {} for name in ("vanished", "one-copy", "serving", "undeleted")},
    **{name: {} for name in ("head.fifo", "tail.fifo", "slots.fifo", "states.fifo")},
    "changed": {"TidegateReplicationAcknowledgement": "first"},
    "chained": {"TidegateDeliveryGuarantee": "exactlyOnce"},
    "alone": {"TidegateReplicationFactor": "1"},
}
"""What is planted in one queue cannot hide what is in another. `alone` stays as it is."""


def use(client: Client) -> None:
    for name, attributes in QUEUES.items():
        queue = client.queue(name, **attributes)
        client.send(queue, 6)
        client.delete(queue, 2)


def plant(data: Path) -> Counter[Any]:
    """What an audit has to find of it."""
    forger = CopiesForger(data)
    forger.lose("vanished", [0, 1, 2])
    forger.lose("one-copy", [-1])
    forger.lose("serving", [0])
    forger.forget_a_delete("undeleted", 1)
    forger.change("changed", 1)
    forger.change("chained", -1)
    forger.lose("head.fifo", [0])
    forger.lose("tail.fifo", [-1])
    forger.change("slots.fifo", 1)
    forger.delete_more("states.fifo", 0)
    of_usage = Forger(Directory(data / "cell-1"), data / "usage")
    of_usage.drop_an_access_record()
    of_usage.drop_a_usage_record()
    return forger.expected + of_usage.expected


@pytest.mark.xdist_group("spark")
@pytest.mark.skipif(not SPARK.exists(), reason=f"there is no Spark: {SPARK}")
def test_the_audit_of_several_cells(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", tmp_path / "log", options=("--cells", "3"))
    server.start()
    try:
        client = Client(server.client(attempts=3))
        use(client)
        assert server.stop() == 0
    finally:
        server.kill()
    export_all(server.data, tmp_path / "exports")
    expected = plant(server.data)
    export_all(server.data, tmp_path / "exports")
    code, report = audit(server.data / "usage", tmp_path / "exports", tmp_path / "out")
    assert code == 1
    found = Counter(
        (its["kind"], its["queue"] or "", its["message"] or "", its["count"])
        for its in report["findings"]
    )
    assert found == expected
    assert all(its["partition"] for its in report["findings"] if its["queue"])
    counted = Counter({row["queue"]: row["sent"] for row in report["conservation"]})
    assert counted == {url.rpartition("/")[2]: sent for url, sent in client.sent.items()}
