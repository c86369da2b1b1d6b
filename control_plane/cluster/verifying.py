"""Verify: whether what was done about the cells is what the registry says now. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from control_plane.cluster.acting import DONE
from control_plane.cluster.actions import Action, Admit, Complete, Release, TakeOut, action_of
from control_plane.places.stored import PlaceMap


def unmet(results: Iterable[Mapping[str, Any]], now: PlaceMap) -> list[str]:
    """What acts say that they did and the registry does not show, a line each.

    Others may have gone on from there: an epoch that is later still is what was wanted.
    """
    missing = []
    for result in results:
        task = result.get("task")
        if isinstance(task, Mapping) and result.get("outcome") == DONE:
            missing += _unmet(action_of(task), now)
    return missing


def _unmet(action: Action, now: PlaceMap) -> list[str]:
    match action:
        case TakeOut(_, groups):
            epochs = groups
        case Admit(group, epoch, _) | Complete(group, epoch, _) | Release(group, epoch, _):
            epochs = {group: epoch}
        case _:
            # Their own compare-and-set says that it was done; others may have undone it since.
            return []
    return [
        f"group {group} still has epoch {epoch}"
        for group, epoch in epochs.items()
        if group in now.placements and now.placements[group].placement.epoch <= epoch
    ]
