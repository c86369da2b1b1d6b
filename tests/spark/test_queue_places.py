"""Which queues there were at each moment, and which copy of each counted then."""

import json
from typing import Any

from glue_jobs.queue_places import Known, Placed, Tenure, tenures

END = 1 << 62
ACCOUNT, REGION = "123456789012", "us-east-1"
UID, OTHER = "0" * 16, "1" * 16
EVER = (0, END)


def item(cell: str, partition: str, name: str, time: tuple[int, int], **its: Any) -> Known:
    none = dict.fromkeys(("k", "u", "c", "a", "m", "n", "p"))
    incarnation = its.pop("incarnation", 0)
    return Known(cell, partition, incarnation, name, *time, none | its)


def queue(cell: str, time: tuple[int, int], **its: Any) -> Known:
    name = its.pop("name", "orders")
    its = {"k": "q", "u": UID, "c": "g2.03", "a": "{}", "p": 0} | its
    return item(cell, f"Q|{ACCOUNT}|{REGION}", name, time, **its)


def placement(cell: str, time: tuple[int, int], *members: Any, **its: Any) -> Known:
    return item(cell, "P|", "g2.03", time, m=json.dumps(members), **its)


def found(known: list[Known], **moments: list[int]) -> list[tuple[str, int, int, int]]:
    its, _ = tenures(known, moments, END)
    return [(one.placed.cell, one.placed.incarnation, one.from_us, one.until_us) for one in its]


def test_a_queue_of_one_cell_is_there_from_its_first_export_on() -> None:
    its = [queue("x", (20, 40), c="default", p=7, a='{"MessageRetentionPeriod":"60"}')]
    placed = Placed("x", 0, UID, ACCOUNT, REGION, "orders", 7, 60)
    assert tenures(its, {"x": [10, 20, 30, 40]}, END) == (
        [Tenure(placed, 20, 40)],
        {"x": [10, 20, 30, 40]},
    )
    # A tombstone is none.
    assert found([queue("x", EVER, k="d", c=None)], x=[10]) == []


def test_a_change_of_a_queue_begins_another_time() -> None:
    its = [queue("x", (10, 20)), queue("x", (20, END), p=15)]
    assert found(its, x=[10, 20, 30]) == [("x", 0, 10, 20), ("x", 0, 20, END)]


def test_the_copy_that_counts_is_the_placements() -> None:
    pair = [["x", 0, 1], ["y", 2, 1]]
    registry = [placement(cell, EVER, *pair) for cell in "xy"]
    both = {"x": [10, 20], "y": [11, 21]}
    plain = [*registry, *(queue(cell, EVER) for cell in "xy")]
    assert found(plain, **both) == [("x", 0, 10, END)]
    chain = [*registry, *(queue(cell, EVER, c="g2.03/chain") for cell in "xy")]
    assert found(chain, **both) == [("y", 2, 11, END)]
    fifo = [*registry, *(queue(cell, EVER, name="a.fifo") for cell in "xy")]
    assert found(fifo, **both) == [("y", 2, 11, END)]
    # One that is not full yet does not count; and then it does.
    joining = [
        placement("x", (0, 15), ["x", 0, 1], ["y", 2, 0]),
        placement("x", (15, END), *pair),
        queue("x", EVER, c="g2.03/chain"),
    ]
    assert found(joining, x=[10, 20], y=[11, 21]) == [("x", 0, 10, 20), ("y", 2, 21, END)]


def test_tables_go_by_the_registry_of_the_first() -> None:
    its = [
        item("one", "C|", "first", EVER, a='{"table":"one"}'),
        item("one", "C|", "second", EVER, a='{"table":"two"}'),
        placement("one", EVER, ["second", 0, 1], ["first", 0, 1]),
        queue("one", EVER),
        queue("one", EVER, name="alone", u=OTHER, c="first"),
    ]
    assert found(its, one=[10, 20], two=[5, 10, 21]) == [("one", 0, 10, END), ("two", 0, 10, END)]
    # Before that nothing is known of the other table.
    assert tenures(its, {"one": [10], "two": [5, 10]}, END)[1] == {"one": [10], "two": [10]}


def test_only_a_full_copy_of_the_registry_is_gone_by() -> None:
    def own(cell: str, time: tuple[int, int], *members: Any) -> Known:
        return item(cell, "M|cells", "00", time, m=json.dumps(members), n=cell)

    its = [
        own("x", EVER, ["x", 0, 1], ["y", 4, 0]),
        queue("x", EVER, c="y"),
        # It was away: what it has of before is old, and it is not full yet.
        own("y", (0, 20), ["x", 0, 1], ["y", 4, 0]),
        own("y", (20, END), ["x", 0, 1], ["y", 4, 1]),
        queue("y", EVER, c="y", u=OTHER),
        queue("y", EVER, c="y", name="new", incarnation=4),
    ]
    known, _ = tenures(its, {"x": [10, 20], "y": [10, 20]}, END)
    assert [(one.placed.queue, one.placed.uid, one.from_us, one.until_us) for one in known] == [
        ("new", UID, 20, END),
        ("orders", UID, 10, 20),
    ]
