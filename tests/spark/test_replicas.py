"""Exports of several cells: each message counts once, and copies are compared."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from glue_jobs import audit
from glue_jobs.arguments import JobError
from glue_jobs.exports import find_exports, gaps_between
from glue_jobs.places import FolderPlace
from tests.spark.cells import ACCOUNT, MINUTE_US, REGION, T0_US, Cell, Value, write_export

ORDERS, FIFO, ALONE = "0" * 16, "f" * 16, "a" * 16
CELLS = ("cell-1", "cell-2", "cell-3")
MEMBERS = [("cell-1", 0, 1), ("cell-2", 4, 1), ("cell-3", 0, 1)]
"""Of the group of both queues; cell-2 has joined anew."""
S = 1_000_000
END_US = T0_US + 10 * MINUTE_US


def block(number: int) -> bytes:
    return b"front." + number.to_bytes(4, "big")


def whole() -> dict[str, Cell]:
    """Three cells that have the same messages, the last deletes of which have got about."""
    cells = {}
    for name, incarnation, _full in MEMBERS:
        cell = Cell()
        attributes: dict[str, Value] = {"k": "q", "p": 0, "a": "{}"}
        registry = f"Q|{ACCOUNT}|{REGION}"
        cell.put(registry, b"orders", u=ORDERS, c="g3.00/first", **attributes)
        cell.put(
            registry, b"f.fifo", u=FIFO, c="g3.00", **attributes | {"a": '{"FifoQueue":"true"}'}
        )
        cell.put(registry, b"alone", u=ALONE, c="cell-3", **attributes)
        cell.put("P|", b"g3.00", m=json.dumps(MEMBERS), e=4, s=T0_US, f=3)
        cell.segment(ORDERS, block(1), 0, 3, T0_US)
        cell.segment(ORDERS, block(1), 3, 2, T0_US + S)
        cell.done(ORDERS, block(1), {0, 1})
        cell.slot(FIFO, 7, 7, 0, 2, T0_US + S, R=1, E=1 + incarnation)
        cell.done(FIFO, (7).to_bytes(8, "big"), {1}, R=3, E=1 + incarnation)
        if incarnation:
            its = {(f"{key[0]}@{incarnation}", key[1]): item for key, item in cell.items.items()}
            # What it had before it joined anew is no copy.
            cell = Cell(its)
            cell.segment(ORDERS, block(9), 0, 5, T0_US)
        cell.put("M|cells", b"\0", m=json.dumps(MEMBERS), e=2, s=T0_US, n=name, c="{}")
        cells[name] = cell
    cells["cell-3"].segment(ALONE, block(3), 0, 1, T0_US)
    return cells


def run(session: SparkSession, root: Path, *looks: dict[str, Cell]) -> dict[str, Any]:
    """Audit exports of all cells, those of each look an hour after the last."""
    for hour, cells in enumerate(looks):
        for number, (name, cell) in enumerate(cells.items()):
            at_us = END_US + (hour * 3600 + number) * S
            write_export(root / "exports", cell.lines(), at_us, cell=name, cells=CELLS)
    options = {"exports": str(root / "exports"), "usage": "", "out": str(root / "out")}
    return audit.run({**options, "table": "", "restored": ""}, session)


SLOT = f"block {(7).to_bytes(8, 'big').hex()}"
FIRST_ID = (7).to_bytes(1, "big").ljust(16, b"\0").hex()


def named(report: dict[str, Any]) -> set[tuple[str, str, str, int]]:
    return {
        (its["kind"], its["queue"] or "", its["message"] or "", its["count"])
        for its in report["findings"]
    }


def test_each_message_of_a_group_counts_once(session: SparkSession, tmp_path: Path) -> None:
    cells = whole()
    # Too young to be everywhere, and what a member has removed when it came to it.
    cells["cell-1"].segment(ORDERS, block(2), 0, 1, END_US - S)
    its_time = {"t": T0_US, "s": T0_US, "u": 1, "y": 1}
    cells["cell-3"].trace(ORDERS, T0_US + 5 * S, block(1), "x", i=0, n=5, **its_time)
    for key in [key for key in cells["cell-3"].items if key[0].startswith(f"B|{ORDERS}")]:
        del cells["cell-3"].items[key]
    report = run(session, tmp_path, cells)
    assert named(report) == set()
    counted = {row["queue"]: (row["sent"], row["deleted"]) for row in report["conservation"]}
    assert counted == {"orders": (6, 2), "f.fifo": (2, 1), "alone": (1, 0)}


@pytest.mark.nightly
def test_members_at_different_steps_of_a_drop_are_alike(
    session: SparkSession, tmp_path: Path
) -> None:
    """Of a purged queue one copy has let go of segments, and emptied the slots of moves."""
    before, after = whole(), whole()
    for cells in (before, after):
        for name, incarnation, _full in MEMBERS:
            suffix = f"@{incarnation}" if incarnation else ""
            for key, attributes in cells[name].items.items():
                if key[0] == f"Q|{ACCOUNT}|{REGION}{suffix}" and key[1] != b"alone":
                    attributes["p"] = T0_US + 2 * S
                if key[0] == f"G|{FIFO}|00|0{suffix}":
                    attributes |= {"j": 1, "z": b"sealed"}
    last = after["cell-3"].items
    last[f"G|{FIFO}|00|0", (7).to_bytes(8, "big")].pop("z")
    for key in [key for key in last if key[0] == f"B|{ORDERS}|00|0"]:
        del last[key]
    del last[f"F|{FIFO}|00|0", (7).to_bytes(8, "big")]
    report = run(session, tmp_path, before, after)
    assert named(report) == set()
    counted = {row["queue"]: (row["deleted"], row["purged"]) for row in report["conservation"]}
    assert counted == {"orders": (2, 3), "f.fifo": (1, 1), "alone": (0, 0)}


@pytest.mark.nightly
def test_copies_that_are_not_alike_are_named(session: SparkSession, tmp_path: Path) -> None:
    cells = whole()
    del cells["cell-3"].items[cells["cell-3"].segment(ORDERS, block(1), 3, 2, T0_US + S)]
    only = cells["cell-1"].segment(ORDERS, block(5), 0, 4, T0_US + 3 * S)
    cells["cell-3"].slot(FIFO, 7, 7, 0, 1, T0_US + S, R=1, E=1)
    cells["cell-1"].done(ORDERS, block(1), {0, 1, 2, 3})
    del cells["cell-2"].items["M|cells", b"\0"]
    report = run(session, tmp_path, cells)
    first, second = f"block {block(1).hex()} index ", f"block {only[1][8:18].hex()} index 0"
    assert named(report) == {
        ("copy_lacks", "orders", f"{first}3", 2),
        ("copy_lacks", "orders", second, 8),
        ("copies_differ", "f.fifo", f"{SLOT} index 0 id {FIRST_ID}", 1),
        # cell-3 has not got the second of them, either.
        ("copy_behind", "orders", "", 2),
        ("copy_behind", "orders", "", 1),
        # The copy that counts, cell-3's, has one message where two were.
        ("deleted_and_never_seen", "f.fifo", f"block {(7).to_bytes(8, 'big').hex()} index 1", 1),
    }
    behind = [its["detail"] for its in report["findings"] if its["kind"] == "copy_behind"]
    assert sorted(detail.split()[0] for detail in behind) == ["cell-2", "cell-3"]


def collect(cell: Cell, number: int) -> None:
    """A message was sent, deleted and removed: two traces are left."""
    at_us = T0_US + number * S
    its = {"i": 0, "n": 1, "t": T0_US, "s": T0_US, "u": END_US // S + 400_000, "y": 1}
    cell.trace(ORDERS, at_us, block(number), "n", **its)
    cell.trace(ORDERS, at_us, block(number), "n", d={0})


def in_cell_2(plant: Cell) -> dict[tuple[str, bytes], dict[str, Value]]:
    return {(f"{key[0]}@4", key[1]): item for key, item in plant.items.items()}


@pytest.mark.nightly
def test_what_becomes_of_copies_between_two_looks_is_named(
    session: SparkSession, tmp_path: Path
) -> None:
    before, after = whole(), whole()
    for cells in (before, after):
        for name in ("cell-1", "cell-3"):
            collect(cells[name], 6)
            collect(cells[name], 8)
        both = Cell()
        collect(both, 6)
        cells["cell-2"].items |= in_cell_2(both)
    # The copy that is asked first has lost two messages, the others have not.
    del after["cell-1"].items[after["cell-1"].segment(ORDERS, block(1), 3, 2, T0_US + S)]
    # One copy has forgotten a delete; another time one that was deleted and removed came back.
    after["cell-3"].done(ORDERS, block(1), {0})
    came = Cell()
    came.segment(ORDERS, block(6), 0, 1, T0_US)
    # Where all others have removed a message, one has it still, and was never told.
    came.segment(ORDERS, block(8), 0, 1, T0_US)
    # One copy's state is another one of the same revision, and one copy's bytes are others.
    came.done(FIFO, (7).to_bytes(8, "big"), {0, 1}, R=3, E=5)
    after["cell-2"].items |= in_cell_2(came)
    after["cell-1"].slot(FIFO, 7, 7, 0, 2, T0_US + S, R=1, E=1, e=0, z=b"others")
    # What has one copy only is gone with it.
    del after["cell-3"].items[after["cell-3"].segment(ALONE, block(3), 0, 1, T0_US)]
    report = run(session, tmp_path, before, after)
    first = f"block {block(1).hex()} index "
    assert named(report) == {
        ("copy_lacks", "orders", f"{first}3", 2),
        ("deletion_forgotten", "orders", f"{first}1", 1),
        ("removed_and_stored", "orders", f"block {block(6).hex()} index 0", 1),
        ("copy_behind", "orders", "", 1),
        ("copies_differ", "f.fifo", f"{SLOT} index 0 id {FIRST_ID}", 1),
        # Which copy of them it is that was changed.
        ("changed", "f.fifo", f"{SLOT} index 0 id {FIRST_ID}", 1),
        ("copies_differ", "f.fifo", "", 1),
        ("lost", "alone", f"block {block(3).hex()} index 0", 1),
    }
    assert {its["partition"] for its in report["findings"]} == {"00|0"}
    counted = {row["queue"]: (row["sent"], row["stored"]) for row in report["conservation"]}
    assert counted == {"orders": (7, 3), "f.fifo": (2, 1), "alone": (1, 0)}


def test_cells_without_an_export_are_named(tmp_path: Path) -> None:
    write_export(tmp_path, [], T0_US, cell="cell-1", cells=CELLS)
    exports, _refused, _strays = find_exports(FolderPlace(tmp_path))
    gaps = gaps_between(audit.of_one_service(exports, ""))
    assert gaps == ["there is no export of cell-2", "there is no export of cell-3"]
    with pytest.raises(JobError, match="no full export"):
        audit.of_one_service(exports, "arn:other")


def test_a_cell_that_is_exported_no_more_is_named(tmp_path: Path) -> None:
    """What went there since nobody knows. One that the service has no more is none."""
    day_us = 86_400 * S
    write_export(tmp_path, [], T0_US, cell="cell-9", cells=("cell-1", "cell-9"))
    for name, days in (("cell-1", 4), ("cell-2", 0), ("cell-3", 1)):
        for day in range(days + 1):
            at_us = T0_US + day * day_us + S
            write_export(tmp_path, [], at_us, cell=name, cells=CELLS, prefix=name)
    exports, _refused, _strays = find_exports(FolderPlace(tmp_path))
    assert gaps_between(audit.of_one_service(exports, "")) == [
        "the last export of cell-2 is 4.0 days older than that of cell-1"
    ]
