"""Whether a service of several cells may start with what was found of them, and how it does.

A start never makes a known service an empty one. Every refusal says what solves it, and what that
loses.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from control_plane.core.identity import Judged, Standing, Verdict
from control_plane.places.changes import PlacementChangeError, without
from control_plane.places.items import StoredPlacement
from control_plane.places.own import Keep, KnownService, OwnPlacement, first_known
from data_plane.ports import Cell, Clock, Entropy, Waits
from data_plane.replication.placement import Placement

MANIFEST: Final = "manifest.json"
"""In the data directory."""

_SERVICE_BYTES: Final = 8
_NONCE_BYTES: Final = 8
_ALL_LOST: Final = "begin with an empty store, which loses all queues and messages: --begin-anew"
_RESCUE: Final = "write what is whole of {} into a new store: `tidegate rescue DIRECTORY NEW`"


class StartRefusedError(Exception):
    """The service may not start so; the message is one line that says what helps."""


class WronglyNamedError(StartRefusedError):
    """It may start, but not by what was said about its cells."""


class Plan(NamedTuple):
    """How to start: as a new service (`known` is None), or with what is known, by these cells.

    `leaving` are those of them that cannot be read, and those that are `given_up`: no cells of
    the service any more.
    """

    known: KnownService | None
    leaving: tuple[Judged, ...] = ()
    given_up: tuple[str, ...] = ()

    def registry_of(self, now_us: int) -> Placement:
        """The registry's placement without those that leave. Raises StartRefusedError."""
        if self.known is None:
            raise ValueError("a new service has no placement yet")
        self.check_registry()
        placement = self.known.stored.placement
        for one in self.leaving:
            # Of what is lost for sure nobody has to be asked.
            forced = one.standing.is_lost or one.name in self.given_up
            try:
                factor = len(self.known.paths)
                placement = without(placement, one.name, factor, now_us, forced=forced)
            except PlacementChangeError as error:
                raise StartRefusedError(
                    f"{error}: {one}; {_repair_or_give_up([one.name])}"
                ) from error
        return placement

    def check_registry(self) -> None:
        """Raise StartRefusedError where no cell that stays has all of the registry."""
        if self.known is None:
            return
        away = {one.name for one in self.leaving}
        full = {one.cell for one in self.known.stored.placement.members if one.full}
        if not full <= away:
            return
        ways = ["put back one of these directories as it was last"]
        if left := sorted(self.known.paths.keys() - away):
            ways.append(_RESCUE.format(" or ".join(left)))
        raise StartRefusedError(
            "no cell that can be read has all of the registry (queues, accounts, keys):"
            f" {_listed(one for one in self.leaving if one.name in full)};"
            f" {', or '.join([*ways, f'move all away and {_ALL_LOST}'])}"
        )


def plan_start(
    verdict: Verdict,
    known: Iterable[KnownService],
    *,
    has_manifest: bool,
    gives_up: Collection[str],
    begins_anew: bool,
) -> Plan:
    """The plan, by what the manifest and all that was found know.

    All directories that an operator has named are used, and no cell is elsewhere. Also an old copy
    may know of a change that a cell which is current has missed. Raises StartRefusedError.
    """
    if verdict.refusal:
        raise StartRefusedError(verdict.refusal)
    if not verdict.cells:
        return Plan(None)
    given_up = tuple(name for name in verdict.cells if name in gives_up)
    cells = [one for name, one in verdict.cells.items() if name not in given_up]
    current = [one for one in cells if one.standing is Standing.CURRENT]
    _check_given_up(verdict, given_up)
    if current or not begins_anew:
        _check_named(verdict, cells)
    if not current:
        return _without_any(verdict, cells, has_manifest=has_manifest, begins_anew=begins_anew)
    ours = [one for one in known if one.service in (verdict.service, "")]
    latest = max(ours, key=lambda one: one.knowledge.order)
    if not latest.service:
        latest = replace(latest, service=verdict.service)
    paths = {one.name: one.path for one in cells}
    leaving = [one for one in verdict.cells.values() if one not in current]
    plan = Plan(replace(latest, paths=paths), tuple(leaving), given_up)
    # Nobody is told to give up what a start needs.
    plan.check_registry()
    _check_most(cells, len(current), has_manifest=has_manifest)
    plan.registry_of(now_us=0)
    return plan


@dataclass(frozen=True, slots=True)
class Ground:
    """What a start works with: the cells that are open, or will be, four ports, the manifest."""

    cells: Mapping[str, Cell]
    clock: Clock
    entropy: Entropy
    waits: Waits
    keep: Keep
    data: str = ""

    def own(self, known: KnownService, last: int = 0) -> OwnPlacement:
        """The registry's placement over these cells."""
        return OwnPlacement(self.cells, self.clock, self.waits, known, last, self.keep)

    def new_service(self) -> str:
        """An id."""
        return self.entropy.random_bytes(_SERVICE_BYTES).hex()

    def nonce(self) -> bytes:
        """Of a write."""
        return self.entropy.random_bytes(_NONCE_BYTES)


async def begin(ground: Ground, paths: Mapping[str, str]) -> OwnPlacement:
    """A new service with these cells. Raises StartRefusedError, CellUnavailableError."""
    service, nonce = ground.new_service(), ground.nonce()
    known = first_known(service, paths, nonce, ground.clock.now_us(), ground.data)
    own = ground.own(known)
    refused = await own.advance(paths)
    if refused:
        raise StartRefusedError(f"a new service needs all of its cells: {min(refused)} fails")
    await own.spread()
    return own


async def go_on(
    ground: Ground, plan: Plan, verdict: Verdict
) -> tuple[OwnPlacement, Sequence[Judged]]:
    """Let current cells begin a new incarnation, and the registry leave the others.

    Answers also which of the current ones did not store it. Raises StartRefusedError,
    CellUnavailableError.
    """
    if plan.known is None:
        raise ValueError("a new service begins")
    known = replace(plan.known, incarnations=verdict.incarnations, data=ground.data)
    own = ground.own(
        known if known.service else replace(known, service=ground.new_service()), verdict.last
    )
    away = {one.name: one for one in plan.leaving}
    own.empty = {name for name in own.paths if name in away and away[name].standing.is_lost}
    refused = [
        Judged(name, own.paths[name], Standing.FAILED, "did not take what was written")
        for name in await own.advance(own.paths.keys() - away.keys())
    ]
    for one in refused:
        own.shut(one.name)
    plan = plan._replace(leaving=(*plan.leaving, *refused))
    placement = plan.registry_of(ground.clock.now_us())
    stored = own.stored
    if placement is not stored.placement or plan.given_up:
        stored = StoredPlacement(placement, len(own.paths), ground.nonce())
    # What was half written when the process ended counts only now.
    await own.spread(stored)
    return own, refused


def _check_given_up(verdict: Verdict, given_up: Iterable[str]) -> None:
    for name in given_up:
        if verdict.cells[name].standing is Standing.CURRENT:
            raise WronglyNamedError(
                f"{verdict.cells[name]}, so it need not be given up: start without --give-up, and"
                f" part with it by `tidegate cells drain {name}` and `tidegate cells remove {name}`"
            )


def _without_any(
    verdict: Verdict, cells: Sequence[Judged], *, has_manifest: bool, begins_anew: bool
) -> Plan:
    """Where no cell is left: a new service, if that is wanted. Raises StartRefusedError."""
    told = f"no cell of this service can be read: {_listed(cells or verdict.cells.values())}"
    failed = [one.name for one in cells if one.standing is Standing.FAILED]
    if failed:
        rescue = _RESCUE.format(" or ".join(failed))
        raise StartRefusedError(f"{told}; mend what is said and start again, or {rescue}")
    if begins_anew:
        return Plan(None)
    ways = ["put back the directories as they were last"]
    stale = [one.name for one in cells if one.standing is Standing.STALE]
    if not stale:
        raise StartRefusedError(f"{told}; {', or '.join([*ways, _ALL_LOST])}")
    # What they have is not to be thrown away for a few words.
    if has_manifest:
        ways.append(
            f"go on with what they have, if that is a backup of all cells, which loses what came"
            f" after it: put back the {MANIFEST} of the same time, or remove {MANIFEST}, which is"
            " newer"
        )
    raise StartRefusedError(f"{told}; {', or '.join([*ways, _RESCUE.format(' or '.join(stale))])}")


def _check_named(verdict: Verdict, cells: Sequence[Judged]) -> None:
    """Raise WronglyNamedError where cells would be used elsewhere than was said, or others not."""
    away = [one for one in cells if one.standing is Standing.UNNAMED]
    unused = [
        one
        for one in verdict.others
        if one.path in verdict.named and one.standing in (Standing.STALE, Standing.FOREIGN)
    ]
    if not away and not unused:
        return
    told = _listed([*unused, *away])
    if not away:
        raise WronglyNamedError(f"{told}, and --cell-data names it: leave it out, or empty it")
    if unused:
        raise WronglyNamedError(
            f"{told}: name the directories of these cells, or move {MANIFEST} away if the named"
            " ones are to be served as they are"
        )
    every = [*verdict.named, *(one.path for one in away)]
    raise WronglyNamedError(
        f"{told}: add it, --cells {len(every)} --cell-data {','.join(every)}; or go on without,"
        f" which loses what no other cell has: --give-up {','.join(one.name for one in away)}"
    )


def _check_most(cells: Collection[Judged], current: int, *, has_manifest: bool) -> None:
    if 2 * current > len(cells) or (has_manifest and 2 * current == len(cells)):
        return
    away = [one for one in cells if one.standing is not Standing.CURRENT]
    raise StartRefusedError(
        f"{current} of {len(cells)} cells can be read, which is not more than half:"
        f" {_listed(away)}; {_repair_or_give_up([one.name for one in away])}"
    )


def _repair_or_give_up(names: Iterable[str]) -> str:
    return (
        "put back the directory as it was last, or go on without, which loses what no other cell"
        f" has: --give-up {','.join(names)}"
    )


def _listed(cells: Iterable[Judged]) -> str:
    return ", ".join(map(str, cells))
