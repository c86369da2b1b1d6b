"""`tidegate cells`: for the operator."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from control_plane.cli.connection import Connect, ConnectedGroup, connecting
from control_plane.cli.refusals import or_exit
from control_plane.cli.tables import lines
from data_plane.system import sleep

_POLL_S: Final = 1.0
_MS: Final = 1000
_UNITS: Final = ("B", "KB", "MB", "GB", "TB")


@click.group(cls=ConnectedGroup, short_help="Show, add, drain, remove, fail and restore cells.")
@connecting
def cells() -> None:
    """Show the cells of a service that has several, and change them; for the operator."""


@cells.command("list")
@click.option("--groups", is_flag=True, help="Show all placement groups, not just those that lack.")
@click.pass_obj
def list_cells(connect: Connect, *, groups: bool) -> None:
    """Show cells, placements, what copies are behind, and what the cluster manager does."""
    found = or_exit(lambda: connect().tidegate_list_cells())
    for line in _listing(found, all_groups=groups):
        click.echo(line)


@cells.command("add")
@click.argument("path", metavar="DIRECTORY")
@click.pass_obj
def add_cell(connect: Connect, path: str) -> None:
    """Add a cell in a directory of the server's machine; the manager moves groups to it."""
    answer = or_exit(lambda: connect().tidegate_add_cell(Path=path))
    click.echo(f"Added {answer['CellName']}.")


@cells.command("drain", short_help="Let everything move away from a cell, and wait.")
@click.argument("name")
@click.option("--no-wait", is_flag=True, help="Do not wait until it is empty.")
@click.pass_obj
def drain_cell(connect: Connect, name: str, *, no_wait: bool) -> None:
    """Let everything move away from a cell, and wait until it has nothing any more.

    Copies are made elsewhere first, so that takes a while. Ctrl-C ends the waiting alone.
    """
    or_exit(lambda: connect().tidegate_drain_cell(CellName=name))
    if no_wait:
        click.echo(f"{name} is being drained.")
        return
    left = -1
    while (now := or_exit(lambda: _groups_of(connect, name))) > 0:
        if now != left:
            click.echo(f"{name} has {now} group{'s' if now > 1 else ''} yet.")
            left = now
        sleep(_POLL_S)
    click.echo(f"{name} has nothing any more: `tidegate cells remove {name}` parts with it.")


@cells.command("remove")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--lose-messages", is_flag=True, help="Also of queues that have no other copy.")
@click.pass_obj
def remove_cell(connect: Connect, name: str, *, yes: bool, lose_messages: bool) -> None:
    """Part with a cell that was drained, or that is lost for good; its directory stays."""
    if not yes:
        click.confirm(f"Remove {name} for good?", abort=True)
    wanted = {"CellName": name, **({"LoseMessages": True} if lose_messages else {})}
    or_exit(lambda: connect().tidegate_remove_cell(**wanted))
    click.echo(f"Removed {name}.")


@cells.command("fail", short_help="Let a cell answer nothing until it is restored: a drill.")
@click.argument("name")
@click.pass_obj
def fail_cell(connect: Connect, name: str) -> None:
    """Let an embedded cell answer nothing until it is restored, or the server starts again.

    Its directory is closed: a disk may be taken out. An empty one in its place joins anew.
    """
    or_exit(lambda: connect().tidegate_fail_cell(CellName=name))
    click.echo(f"{name} answers nothing any more.")


@cells.command("restore")
@click.argument("name")
@click.pass_obj
def restore_cell(connect: Connect, name: str) -> None:
    """Let a cell that was failed or drained take part again."""
    or_exit(lambda: connect().tidegate_restore_cell(CellName=name))
    click.echo(f"{name} is back.")


def _groups_of(connect: Connect, name: str) -> int:
    """Raises ValueError where there is no such cell."""
    for cell in connect().tidegate_list_cells().get("Cells", []):
        if cell["CellName"] == name:
            return int(cell["Groups"])
    raise ValueError(f"There is no cell {name}.")


def _listing(found: Mapping[str, Any], *, all_groups: bool) -> Iterator[str]:
    header = ("CELL", "STATE", "HEALTH", "GROUPS", "DECIDES", "LAG", "LATENCY", "USED", "ADDRESS")
    yield from lines([header, *map(_cell_row, found.get("Cells", []))])
    for cell in found.get("Cells", []):
        if "Reason" in cell:
            yield f"{cell['CellName']}: {cell['Reason']}"
    groups = found.get("PlacementGroups", [])
    shown = [group for group in groups if all_groups or not _is_whole(group)]
    if shown:
        yield ""
        yield from lines([("GROUP", "EPOCH", "COPIES", "LAG", "MEMBERS"), *map(_group_row, shown)])
    elif groups:
        yield f"All {len(groups)} groups have all their copies."
    activities = found.get("ManagerActivities", [])
    if activities:
        yield ""
        yield "The cluster manager:"
        yield from (f"  {activity}" for activity in activities)


def _cell_row(cell: Mapping[str, Any]) -> Sequence[str]:
    seen = "LatencyMicroseconds" in cell
    groups = str(cell["Groups"])
    if cell["GroupsJoining"]:
        groups += f" ({cell['GroupsJoining']} joining)"
    return (
        cell["CellName"],
        cell["State"],
        cell["Health"],
        groups,
        str(cell["GroupsDecided"]),
        _milliseconds(cell["LagMicroseconds"]) if seen else "",
        _milliseconds(cell["LatencyMicroseconds"]) if seen else "",
        _size(cell["UsedBytes"]) if seen else "",
        cell["Address"],
    )


def _is_whole(group: Mapping[str, Any]) -> bool:
    full = sum(member["State"] == "full" for member in group["Members"])
    factor = int(group["ReplicationFactor"])
    return full == factor and len(group["Members"]) == factor


def _group_row(group: Mapping[str, Any]) -> Sequence[str]:
    members = group["Members"]
    full = sum(member["State"] == "full" for member in members)
    named = [
        member["CellName"] + ("" if member["State"] == "full" else " (joining)")
        for member in members
    ]
    return (
        group["GroupName"],
        str(group["Epoch"]),
        f"{full} of {group['ReplicationFactor']}",
        _milliseconds(group["LagMicroseconds"]),
        ", ".join(named),
    )


def _milliseconds(duration_us: int) -> str:
    return f"{duration_us / _MS:.1f} ms"


def _size(size_bytes: float) -> str:
    for unit in _UNITS:
        if size_bytes < _MS or unit == _UNITS[-1]:
            return f"{size_bytes:.0f} {unit}"
        size_bytes /= _MS
    raise AssertionError("the last unit takes everything")
