"""Observe: read the registry and the heartbeats, look at the cells."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from control_plane.cluster.cluster import Cluster
from control_plane.cluster.external import UNEVEN
from control_plane.cluster.observation import (
    CellRecord,
    FrontEnd,
    Group,
    Logs,
    Observation,
    Removal,
    Report,
    is_heard,
)
from control_plane.cluster.probing import ask
from control_plane.core.fifo_generations import drained, may_split
from control_plane.places.groups import REGISTRY
from control_plane.places.items import ACTIVE, REMOVED, CellSeen, Heartbeat, StoredPlacement
from control_plane.places.stored import PlaceMap
from data_plane.core.deadline import deadline
from data_plane.ports import CellUnavailableError

READ_US_MAX: Final = 1_000_000
"""A registry that takes longer does not answer."""

EMPTY_US_MAX: Final = 10_000_000
"""For all groups together: there may be hundreds, each with a request of its own."""

LOGS_MAX: Final = 20
"""FIFO queues that are looked at: those with the most appends."""

_PROBE_PERIOD_US: Final = 250_000

_FifoName = tuple[str, str, str]


async def observe(cluster: Cluster) -> Observation:
    """What is to be known for a plan.

    Where the registry does not answer, what this process knows of it and sees itself has to do: so
    the registry itself can fail over. Raises CellUnavailableError where there is no such thing.
    """
    beat = cluster.beat()
    try:
        with deadline(cluster.clock.now_us() + READ_US_MAX):
            known = await cluster.places.read_all()
        with deadline(cluster.clock.now_us() + EMPTY_US_MAX):
            empty = await _empty(cluster, known)
        with deadline(cluster.clock.now_us() + READ_US_MAX):  # late: heartbeats are old soon
            beats = await cluster.places.heartbeats()
            last = await cluster.places.removal()
        logs = await _logs(cluster, beats)
    except CellUnavailableError:
        if cluster.known is None or beat is None:
            raise
        known = PlaceMap(cluster.known.placements, cluster.known.cells)
        beats, last, logs, empty = [], None, (), frozenset()
    if beat is not None:
        beats = [beat, *(one for one in beats if one.front_end != beat.front_end)]
        probes = _reports(beat.cells)
    else:
        probes = await _probe_all(cluster, known)
    removal = Removal(last.cell, last.at_us) if last is not None else None
    return _observation(cluster, known, beats, probes, removal, logs, empty)


def seen_here(
    cluster: Cluster, removal: Removal | None, empty: Collection[str]
) -> Observation | None:
    """What this process knows and sees itself, without asking anybody; None if it sees nothing.

    The last removal, and which groups are `empty`, are of the last observation.
    """
    beat = cluster.beat()
    if cluster.known is None or beat is None:
        return None
    known = PlaceMap(cluster.known.placements, cluster.known.cells)
    return _observation(cluster, known, [beat], _reports(beat.cells), removal, empty=empty)


def _observation(  # noqa: PLR0913, PLR0917 - one for each part of it
    cluster: Cluster,
    known: PlaceMap,
    beats: Iterable[Heartbeat],
    probes: tuple[Report, ...],
    removal: Removal | None,
    logs: tuple[Logs, ...] = (),
    empty: Collection[str] = (),
) -> Observation:
    return Observation(
        at_us=cluster.clock.now_us(),
        cells=tuple(
            CellRecord(cell.name, cell.state, cell.since_us) for cell in known.cells.values()
        ),
        groups=tuple(_group(held, empty) for held in known.placements.values()),
        probes=probes,
        front_ends=tuple(
            FrontEnd(one.front_end, one.time_us, _reports(one.cells), told_us=one.told_us)
            for one in beats
        ),
        removal=removal,
        logs=logs,
    )


def _group(stored: StoredPlacement, empty: Collection[str]) -> Group:
    at = stored.placement
    is_empty = at.group in empty
    return Group(
        at.group, at.epoch, at.members, at.since_us, stored.factor, is_empty, stored.chosen
    )


async def _empty(cluster: Cluster, known: PlaceMap) -> Collection[str]:
    """Groups without queues, if that matters: where all cells are in, or cells give some away."""
    placements = [held.placement for held in known.placements.values()]
    counts = Counter(member.cell for at in placements for member in at.members)
    present = [cell for cell in known.cells.values() if cell.state != REMOVED]
    of_active = [counts[cell.name] for cell in present if cell.state == ACTIVE]
    groups = [at.group for at in placements if at.group != REGISTRY]
    if all(cell.state == ACTIVE for cell in present) and (
        not of_active or max(of_active) - min(of_active) < UNEVEN
    ):
        # No cell could join these, where they lack copies.
        groups = [group for group in groups if _is_everywhere(known.placements[group], present)]
    return [group for group in groups if await cluster.placing.is_empty(group)]


def _is_everywhere(held: StoredPlacement, present: Sequence[object]) -> bool:
    return len(present) <= len(held.placement.members) < held.factor


def _reports(cells: Mapping[str, CellSeen]) -> tuple[Report, ...]:
    return tuple(
        Report(
            name,
            failing_since_us=None if seen.answers else seen.since_us,
            answering_since_us=seen.since_us if seen.answers else 0,
            full=seen.full,
            requests_per_s=seen.requests_per_s,
        )
        for name, seen in cells.items()
    )


async def _probe_all(cluster: Cluster, known: PlaceMap) -> tuple[Report, ...]:
    """Ask each cell; those that fail again and again, until they count as down.

    That decides where there is no front end, or where they are divided.
    """
    names = [
        name
        for name, cell in known.cells.items()
        if cell.state != REMOVED and name in cluster.cells
    ]
    reports: list[Report] = []
    calls = [_probe(cluster, name) for name in names]
    for outcome in await cluster.waits.all_of(calls):
        if isinstance(outcome, Exception):
            raise outcome
        reports.append(outcome)
    return tuple(reports)


async def _probe(cluster: Cluster, name: str) -> Report:
    clock = cluster.clock
    failing_since_us = None
    while True:
        begun_us = clock.now_us()
        try:
            await ask(cluster, name)
        except CellUnavailableError:
            failing_since_us = begun_us if failing_since_us is None else failing_since_us
        else:
            return Report(name, None, 0 if failing_since_us is None else clock.now_us())
        if clock.now_us() - failing_since_us >= cluster.options.down_after_us:
            return Report(name, failing_since_us)
        await cluster.waits.sleep_until(clock.now_us() + _PROBE_PERIOD_US)


async def _logs(cluster: Cluster, beats: Iterable[Heartbeat]) -> tuple[Logs, ...]:
    """The busiest FIFO queues, by what all front ends that are heard append to them."""
    now_us = cluster.clock.now_us()
    rates: Counter[_FifoName] = Counter()
    for beat in beats:
        if is_heard(beat.time_us, now_us, cluster.options):
            for one in beat.appends:
                # A counter of rates: typeshed has counts in mind.
                rates[one.account, one.region, one.name] += one.appends_per_s  # type: ignore[assignment]
    found = []
    for name, rate in rates.most_common(LOGS_MAX):
        definition = await cluster.registry.read(*name)
        if definition is None or not definition.fifo:
            continue
        generations = definition.generations
        past = generations[: drained(generations, now_us // 1_000_000)]
        found.append(
            Logs(
                *name,
                definition.uid,
                generations[-1].number,
                generations[-1].partitions,
                generations[-1].since_s * 1_000_000,
                appends_per_s=rate,
                may_split=may_split(generations, definition.attributes),
                drained_through=past[-1].number if past else None,
            )
        )
    return tuple(found)
