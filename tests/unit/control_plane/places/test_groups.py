from collections import Counter

import pytest

from control_plane.core.replication import default_factor
from control_plane.places.groups import (
    check_guarantee,
    factor_of,
    first_placement,
    group_names,
    place_of,
    read_place,
)
from data_plane.core.errors import RefusedError


def test_names() -> None:
    assert group_names(3)[:2] == ["g3.00", "g3.01"]
    assert len(group_names(3)) == 16
    assert factor_of("g3.07") == 3
    for wrong in ("local", "g3.16", "g0.01", "g3.7", "g3.07/first"):
        with pytest.raises(ValueError, match="is no placement group"):
            factor_of(wrong)


def test_a_queue_goes_to_the_group_of_its_uid() -> None:
    assert place_of("00000000000000f7", {}, 3) == "g3.07"
    assert place_of("00000000000000f7", {"TidegateReplicationFactor": "1"}, 3) == "g1.07"
    first = {"TidegateReplicationAcknowledgement": "first"}
    assert place_of("00000000000000f7", first, 3) == "g3.07/first"
    assert place_of("00000000000000f7", {"TidegateReplicationAcknowledgement": "all"}, 3) == "g3.07"


def test_what_promises_more_than_at_least_once_lies_on_a_chain() -> None:
    once = {"TidegateDeliveryGuarantee": "exactlyOnce"}
    assert place_of("00000000000000f7", once, 3) == "g3.07/chain"
    assert place_of("00000000000000f7", {**once, "FifoQueue": "true"}, 3) == "g3.07"
    with pytest.raises(RefusedError, match="It does not go with this TidegateDeliveryGuarantee"):
        place_of("0" * 16, {**once, "TidegateReplicationAcknowledgement": "first"}, 3)
    for place in ("local", "g3.07/chain"):
        check_guarantee(place, once)
    check_guarantee("g3.07", {**once, "FifoQueue": "true"})
    check_guarantee("g3.07", {})
    with pytest.raises(RefusedError, match="has it from its creation on"):
        check_guarantee("g3.07", once)


def test_three_copies_where_there_are_three_cells() -> None:
    assert [default_factor(cells) for cells in (1, 2, 3, 9)] == [1, 2, 3, 3]


@pytest.mark.parametrize(
    ("cells", "reason"), [(2, "There are 2 cells."), (1, "There is one cell.")]
)
def test_more_copies_than_cells_are_refused(cells: int, reason: str) -> None:
    with pytest.raises(RefusedError) as refused:
        place_of("0" * 16, {"TidegateReplicationFactor": "3"}, cells)
    assert refused.value.fault.code == "InvalidAttributeValue"
    assert refused.value.message.endswith(reason)


def test_what_a_definition_names_is_read() -> None:
    assert read_place("g3.07") == ("g3.07", "")
    assert read_place("g3.07/first") == ("g3.07", "first")
    assert read_place("g3.07/chain") == ("g3.07", "chain")
    assert read_place("g3.07/last") is None
    assert read_place("local") is None
    assert read_place("cell-1") is None


def test_every_cell_decides_about_as_much() -> None:
    cells = ["a", "b", "c"]
    placements = [first_placement(group, cells, 1) for group in group_names(2)]
    assert set(Counter(at.members[0].cell for at in placements).values()) == {5, 6}
    assert all(len({member.cell for member in at.members}) == 2 for at in placements)
    with pytest.raises(ValueError, match="needs 4 cells"):
        first_placement("g4.00", cells, 1)
