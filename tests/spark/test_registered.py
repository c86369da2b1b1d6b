"""Names of accounts and tags of queues come from exports of the registry."""

import json
from pathlib import Path

from pyspark.sql import SparkSession

from glue_jobs.exports import find_exports
from glue_jobs.places import place_of
from glue_jobs.registered import Registered, read_registered
from tests.spark.cells import ACCOUNT, REGION, T0_US, Cell, write_export


def test_the_latest_export_says_names_and_tags(session: SparkSession, tmp_path: Path) -> None:
    cell = Cell()
    cell.put("A|", ACCOUNT.encode(), n="Aufträge", b=1, d=0)
    cell.put("A|@3", b"222233334444", n="Post", b=1, d=0)
    cell.queue("plain", "u1")
    for queue in ("orders", "mail"):
        cell.queue(queue, f"u-{queue}")
        cell.items[f"Q|{ACCOUNT}|{REGION}", queue.encode()]["g"] = json.dumps({"team": "red"})
    write_export(tmp_path, cell.lines(), T0_US)
    cell.items["A|", ACCOUNT.encode()]["n"] = "Orders"
    cell.items[f"Q|{ACCOUNT}|{REGION}", b"mail"]["g"] = "{}"
    write_export(tmp_path, cell.lines(), T0_US + 3_600_000_000)
    place = place_of(str(tmp_path))
    exports, _, _ = find_exports(place)
    kept = Registered({"333344445555": "Gone"}, {(ACCOUNT, REGION, "mail"): {"team": "blue"}})
    found = read_registered(session, place, exports, kept)
    assert found.names == {"333344445555": "Gone", ACCOUNT: "Orders", "222233334444": "Post"}
    assert found.tags == {(ACCOUNT, REGION, "orders"): {"team": "red"}}
    assert read_registered(session, None, [], kept) == kept
    assert Registered().encoded() == b""
