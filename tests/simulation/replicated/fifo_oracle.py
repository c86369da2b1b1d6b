"""The invariants of FIFO queues on a chain: those of all FIFO queues, and those of chains.

What the first member alone had when it was lost was never there: of every item, what happened is
what survived.
"""

from collections.abc import Iterator
from itertools import pairwise

from data_plane.ports import Attributes, Key
from data_plane.replication.placement import Member
from data_plane.stored import keys
from data_plane.stored.segment import number
from tests.simulation.faulty_cell import Store
from tests.simulation.fifo import oracle
from tests.simulation.fifo.case import FifoCase
from tests.simulation.fifo.journal import SLOTS, STATES, Desk, Journal
from tests.simulation.fifo.ledger import Outcome, Use
from tests.simulation.oracle import Violation
from tests.simulation.replicated.plan import ReplicatedFifoPlan
from tests.simulation.replicated.records import Applied, Replica, rank_of
from tests.simulation.replicated.world import ReplicatedWorld

SECOND_US = 1_000_000


class _Moment:
    """The time that the journal takes for the present."""

    def __init__(self) -> None:
        self.now_us = 0


def check(plan: ReplicatedFifoPlan, world: ReplicatedWorld) -> list[Violation]:
    """Everything that is wrong with a universe."""
    case = FifoCase(plan, world, _journal(world))
    # One member after the other tells the log's time: by as much as their clocks differ.
    case.skew_us += world.apart_us()
    case.uses = [
        use
        for use in case.uses
        if not (
            (use.outcome is Outcome.REFUSED or _finds_given_back(case, use))
            and _may_not_know(case, world, use)
        )
    ]
    found = [violation for invariant in oracle.INVARIANTS for violation in invariant(case)]
    found += [Violation(invariant, text, []) for invariant, text in world.records.broken]
    return [*found, *members_agree(world, SLOTS)]


def _finds_given_back(case: FifoCase, use: Use) -> bool:
    """Whether a repeated call may have found its message given back, and written nothing."""
    if use.outcome is not Outcome.DONE or use.attempt.number == 1 or use.deletes:
        return False
    place, token = case.place_of(use.handle)
    return use.attempt.call.params["VisibilityTimeout"] == 0 and any(
        lease.token == token and not lease.visible_ms
        for lease in case.journal.consumed[place].leases
    )


def _may_not_know(case: FifoCase, world: ReplicatedWorld, use: Use) -> bool:
    """Whether a front end that judged a handle may have seen less than the first member has.

    Of what is half way down the chain nobody knows yet; and a member may be dropped while it is
    asked.
    """
    records, began_us = world.records, use.attempt.invoked_us
    answered_us = use.attempt.answered_us
    assert answered_us is not None
    log, block = (place := case.place_of(use.handle)[0]).log, place.block
    key = Key(keys.slot_states(log.uid, log.partition, log.generation), keys.be64(block))
    group = records.group_of(key.partition)
    at = records.placement(group, began_us)
    if at != records.placement(group, answered_us):
        return True
    first, last = [(at.members[i].cell, at.members[i].incarnation) for i in (0, at.tail)]
    return records.rank(key, first, answered_us) > records.rank(key, last, began_us)


def _journal(world: ReplicatedWorld) -> Journal:
    """What happened, as a journal has it of one cell; what was lost with a head comes last.

    So values of slots that did not survive count as written again, to what had another value.
    """
    moment = _Moment()
    journal = Journal(moment)  # type: ignore[arg-type]
    stores = {store.name: store for store in world.stores}
    happened: list[tuple[Key, Applied, Applied | None]] = []
    lost: list[tuple[Key, Applied]] = []
    for key, writes in world.records.writes.items():
        if not key.partition.startswith((SLOTS, STATES)):
            continue
        surviving, gone = survivors(world, key, writes)
        happened += [
            (key, write, before)
            for before, write in pairwise([None, *surviving])
            if write is not None
        ]
        lost += [(key, write) for write in gone]
    happened.sort(key=lambda one: one[1].time_us)
    for key, write, before in happened:
        moment.now_us = write.time_us
        _replay(journal, stores[write.at[0]], key, write, before)
    nonces = {(key, write.image.get("w")) for key, write, _ in happened}
    written = {key for key, _ in nonces}
    for key, write in lost:
        is_another = (key, write.image.get("w")) not in nonces
        if key in written and is_another and key.partition.startswith(SLOTS):
            moment.now_us = write.time_us
            _replay(journal, stores[write.at[0]], key, write, None)
    return journal


def _replay(
    journal: Journal, store: Store, key: Key, write: Applied, before: Applied | None
) -> None:
    desk = Desk(journal, store)
    if key.partition.startswith(STATES):
        desk.updated(key, {} if before is None else before.image, write.image)
    elif before is None:
        desk.put(write.front_end, key, write.image)
    else:
        desk.updated(key, before.image, write.image)


def survivors(
    world: ReplicatedWorld, key: Key, writes: list[Applied]
) -> tuple[list[Applied], list[Applied]]:
    """What the first members decided of an item and did not lose; and what they lost.

    What a cell removed because its time was over is not copied any more, and is not lost.
    """
    placed = world.records.placed_us[world.records.group_of(key.partition)]
    kept: list[Applied] = []
    lost: list[Applied] = []
    head: Replica | None = None
    for number_, (from_us, placement) in enumerate(placed):
        until_us = placed[number_ + 1][0] if number_ + 1 < len(placed) else 1 << 62
        first = (placement.members[0].cell, placement.members[0].incarnation)
        if first != head and not world.records.was_removed(key, from_us):
            had = [write for write in writes if write.at == first and write.time_us < from_us]
            revision = rank_of(had[-1].image)[0] if had else 0
            lost += [write for write in kept if rank_of(write.image)[0] > revision]
            kept = [write for write in kept if rank_of(write.image)[0] <= revision]
        head = first
        kept += [
            write for write in writes if write.at == first and from_us <= write.time_us < until_us
        ]
    return kept, lost


def held_by_full(world: ReplicatedWorld, key: Key) -> list[tuple[Member, Attributes | None]]:
    """What each full member has under a key in the end, in the order of the chain."""
    stores = {store.name: store for store in world.stores}
    found = []
    for member in world.records.present[world.records.group_of(key.partition)].members:
        if member.full:
            mark = f"@{member.incarnation}" if member.incarnation else ""
            here = Key(f"{key.partition}{mark}", key.sort)
            found.append((member, stores[member.cell].cell._find(here)))
    return found


def members_agree(world: ReplicatedWorld, slots: str) -> Iterator[Violation]:
    """In the end the slots of the last full member are in all members, and equal.

    Their partitions begin with `slots`.
    """
    for key in world.records.writes:
        if not key.partition.startswith(slots):
            continue
        held = held_by_full(world, key)
        _, last = held[-1]
        if last is None or number(last, "x") * SECOND_US <= world.scheduler.now_us:
            continue
        for member, item in held:
            if item is not None and (
                item.get("w") != last.get("w") or rank_of(item)[0] < rank_of(last)[0]
            ):
                yield Violation(
                    "members agree", f"{key} is another slot in {member}: {item}, {last}", []
                )
