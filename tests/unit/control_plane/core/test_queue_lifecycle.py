import pytest

from control_plane.core.definition import Definition, Tombstone
from control_plane.core.queue_lifecycle import (
    check_name,
    check_name_is_free,
    check_purge,
    check_same_queue,
)
from data_plane.core.errors import RefusedError

STANDARD = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
FIFO = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or "
    "underscores, must end with .fifo suffix and be 1 to 80 in length."
)
NOW_US = 1_700_000_000_000_000


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 80])
def test_good_names(name: str) -> None:
    check_name(name, fifo=False)


@pytest.mark.parametrize("name", ["a.b", "a b", "ü", "x" * 81, "orders.fifo", "a\n", "a/b"])
def test_bad_names(name: str) -> None:
    with pytest.raises(RefusedError) as refused:
        check_name(name, fifo=False)
    assert (refused.value.fault.code, refused.value.message) == ("InvalidParameterValue", STANDARD)


def test_a_fifo_name_has_its_suffix_inside_80_characters() -> None:
    check_name("x" * 75 + ".fifo", fifo=True)
    for name in ("x" * 76 + ".fifo", ".fifo", "orders", "a.b.fifo"):
        with pytest.raises(RefusedError) as refused:
            check_name(name, fifo=True)
        assert refused.value.message == FIFO


def test_a_deleted_name_is_free_after_60_seconds() -> None:
    tombstone = Tombstone("0" * 16, NOW_US, 1)
    with pytest.raises(RefusedError) as refused:
        check_name_is_free(tombstone, NOW_US + 59_999_999)
    assert refused.value.fault.code == "AWS.SimpleQueueService.QueueDeletedRecently"
    assert refused.value.message == (
        "You must wait 60 seconds after deleting a queue before you can create another with the "
        "same name."
    )
    check_name_is_free(tombstone, NOW_US + 60_000_000)


def queue(**facts: object) -> Definition:
    return Definition("1" * 12, "r", "orders", "0" * 16, "a", 0, 0, **facts)  # type: ignore[arg-type]


def test_purges_lie_60_seconds_apart() -> None:
    check_purge(queue(), NOW_US)
    check_purge(queue(purged_us=NOW_US), NOW_US + 60_000_000)
    with pytest.raises(RefusedError) as refused:
        check_purge(queue(purged_us=NOW_US), NOW_US + 59_999_999)
    assert refused.value.fault.status == 403
    assert refused.value.message == (
        "Only one PurgeQueue operation on orders is allowed every 60 seconds."
    )


def test_the_same_name_needs_the_same_attributes() -> None:
    held = queue(attributes={"DelaySeconds": "5"})
    check_same_queue(held, {"DelaySeconds": "5"})
    with pytest.raises(RefusedError) as refused:
        check_same_queue(held, {"DelaySeconds": "6"})
    assert refused.value.fault.code == "QueueAlreadyExists"
    assert refused.value.message == (
        "A queue already exists with the same name and a different value for attribute DelaySeconds"
    )
