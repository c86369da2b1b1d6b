"""What one copy of a block's state lacks of another: deleted-sets unite, leases only advance.

See docs/storage.md, "Block state", and docs/replication.md.
"""

from collections.abc import Mapping
from typing import Final

from data_plane.core.limits import RETENTION_S_MAX
from data_plane.ports import Absent, Attributes, Condition, Equals, Update, Value
from data_plane.stored import keys, lease
from data_plane.stored.bounds import STATE_TTL_SLACK_S

_SETS: Final = ("d", "gd", "gr")
_LEASES_AT_ONCE: Final = 32
"""In one write, for its condition has a clause for each; the next call has the others."""

_FIXED: Final = "snfo"
"""What attributes begin with that never change once they are there."""


def written_s(block: bytes, state: Attributes) -> int:
    """When a block's state was written last, in seconds, by the clock of who did: `x` tells it."""
    kept_s = RETENTION_S_MAX + STATE_TTL_SLACK_S
    if keys.is_moved_block(block):
        kept_s += RETENTION_S_MAX
    expires_s = state.get("x")
    return expires_s - kept_s if isinstance(expires_s, int) else 0


def lacking(
    state: Attributes, copy: Attributes, *, copy_decides: bool = False
) -> tuple[Update, Condition] | None:
    """What brings a copy to know what `state` does, while what it changes is as in `copy`.

    None where it knows all of that; many leases take several calls. `state` is what the member that
    decides has; where `copy` is that member's own, it is what another one decided before. Where a
    copy knows more, of deletes or of later deliveries, that stays: nothing is taken from a set, and
    no receive count falls.
    """
    if copy_decides:
        state = _heard_late(state, copy)
    add: dict[str, Value] = {}
    for name in _SETS:
        missing = _set(state, name) - _set(copy, name)
        if missing:
            add[name] = missing
    assign = {
        name: value for name, value in state.items() if name[0] in _FIXED and name not in copy
    }
    done = _set(state, "d") | _set(copy, "d")
    behind = {index for index in _leased(copy) & done if _is_left_over(index, state, copy)}
    for index in _leased(state) - done:
        if _is_ahead(state[f"m{index}"], copy.get(f"m{index}")):
            behind.add(index)
    changed = [f"{a}{index}" for index in sorted(behind)[:_LEASES_AT_ONCE] for a in "mq"]
    remove: set[str] = set()
    for name in changed:
        if name in state:
            assign[name] = state[name]
        elif name in copy:
            remove.add(name)
    if not (add or assign or remove):
        return None
    assign["x"] = max(_number(state), _number(copy))
    as_seen = [
        (Absent(name) if name not in copy else Equals(name, copy[name]),) for name in changed
    ]
    return Update(assign, add, frozenset(remove)), ((Equals("v", copy["v"]),), *as_seen)


def is_needed(segment: Attributes, state: Attributes | None) -> bool:
    """Whether some message of a segment is not deleted, by this state of its block.

    Cells collect no segment of which this was true less than 20 s ago. Markers are needed.
    """
    if segment.get("k") != "s" or state is None:
        return True
    first, count = segment["i"], segment["n"]
    if not isinstance(first, int) or not isinstance(count, int):
        raise TypeError(f"a segment of {count!r} messages from {first!r} on")
    return not _set(state, "d").issuperset(range(first, first + count))


def _is_left_over(index: int, state: Attributes, copy: Attributes) -> bool:
    """Whether a copy has another lease than it should of a message that is deleted.

    `state` keeps one beside the delete where deletes are fenced; without the delete it knows less.
    """
    name = f"m{index}"
    return name not in state or (index in _set(state, "d") and state[name] != copy[name])


def _is_ahead(stored: Value, known: Value | None) -> bool:
    """Whether a lease is a later one; of the same delivery the one that decides is right."""
    if not isinstance(stored, bytes) or not isinstance(known, bytes):
        return known is None
    return stored != known and lease.receive_count(stored) >= lease.receive_count(known)


def _heard_late(told: Attributes, own: Attributes) -> Attributes:
    """What a member that decides takes of what it should have known when it began to.

    Of a message that it has delivered itself meanwhile, the lease that lasts longer hides it, and
    the higher receive count counts. Who has it by its own lease keeps it, if that is not the lower.
    """
    heard = dict(told)
    for index in _leased(told) & _leased(own):
        name, move = f"m{index}", f"q{index}"
        theirs, ours = told[name], own[name]
        if not isinstance(theirs, bytes) or not isinstance(ours, bytes):
            continue
        leases = lease.from_bytes(theirs), lease.from_bytes(ours)
        if leases[0].token == leases[1].token:
            continue  # the same delivery, whose visibility was changed
        later = leases[leases[0].receive_count <= leases[1].receive_count]
        visible_ms = max(one.visible_ms for one in leases)
        heard[name] = later._replace(visible_ms=visible_ms).to_bytes()
        if later is leases[1]:
            heard.pop(move, None)
            if move in own:
                heard[move] = own[move]
    return heard


def _leased(state: Attributes) -> set[int]:
    return {int(name[1:]) for name in state if name[0] == "m" and name[1:].isdigit()}


def _set(state: Mapping[str, Value], name: str) -> frozenset[int]:
    members = state.get(name, frozenset())
    return members if isinstance(members, frozenset) else frozenset()


def _number(state: Attributes) -> int:
    expires_s = state.get("x", 0)
    return expires_s if isinstance(expires_s, int) else 0
