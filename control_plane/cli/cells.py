"""`tidegate cells`: for the operator."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import click

from control_plane.cli.confirming import confirm
from control_plane.cli.connection import Connect, ConnectedGroup, connecting
from control_plane.cli.refusals import or_exit
from control_plane.cli.tables import lines
from data_plane.system import sleep

_POLL_S: Final = 1.0
_MS: Final = 1000
_REGISTRY: Final = "registry"
"""The group that is not of queues."""

_PRESENT: Final = "at present: "
"""Before what the manager is doing; what it did comes behind, the latest first."""

_DONE_SHOWN: Final = 5

_UNITS: Final = ("B", "KB", "MB", "GB", "TB")


def _not_empty(_context: click.Context, _argument: click.Parameter, text: str) -> str:
    if not text:
        raise click.BadParameter("it is empty")
    return text


_argument: Final = partial(click.argument, callback=_not_empty)


@click.group(cls=ConnectedGroup, short_help="Show, add, drain, remove, fail and restore cells.")
@connecting
def cells() -> None:
    """Show the cells of a service that has several, and change them; for the operator.

    A service that is started with `tidegate serve --cells 3` has three directories with copies of
    each other. What needs a person stands in `list`, with the command for it. To replace a disk:
    `fail` its cell, put an empty directory in its place, `restore` the cell. To part with one:
    `drain` it, then `remove` it.
    """


@cells.command("list", short_help="Show cells, groups that lack copies, and what waits.")
@click.option("--groups", is_flag=True, help="Show all placement groups, not just those that lack.")
@click.pass_obj
def list_cells(connect: Connect, *, groups: bool) -> None:
    """Show cells, placements, what copies are behind, and what the cluster manager does."""
    found = or_exit(lambda: connect().tidegate_list_cells())
    for line in _listing(found, all_groups=groups):
        click.echo(line)


@cells.command("add", short_help="Add a cell in a directory of the server's machine.")
@_argument("path", metavar="DIRECTORY")
@click.pass_obj
def add_cell(connect: Connect, path: str) -> None:
    """Add a cell in a directory of the server's machine; the manager moves groups to it.

    A DIRECTORY that does not begin with / lies in the server's --data.
    """
    answer = or_exit(lambda: connect().tidegate_add_cell(Path=path))
    name = answer["CellName"]
    listed = or_exit(lambda: connect().tidegate_list_cells())
    where = {cell["CellName"]: cell["Address"] for cell in listed.get("Cells", [])}.get(name, path)
    click.echo(f"Added {name} at {where}. A start that has --cell-data needs it there, too.")


@cells.command("drain", short_help="Let everything move away from a cell, and wait.")
@_argument("name")
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
    told = ""
    later = f"({name} is drained further once a server is back)"
    while (found := or_exit(lambda: _left_in(connect, name), later))[0] > 0:
        groups, waits = found
        text = "\n  ".join([f"{name} has {groups} group{'s' if groups > 1 else ''} yet.", *waits])
        if text != told:
            click.echo(text)
            told = text
        sleep(_POLL_S)
    click.echo(f"{name} has nothing any more: `tidegate cells remove {name}` parts with it.")


@cells.command("remove", short_help="Part with a cell that is empty, or lost for good.")
@_argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--lose-messages", is_flag=True, help="Also of queues that have no other copy.")
@click.pass_obj
def remove_cell(connect: Connect, name: str, *, yes: bool, lose_messages: bool) -> None:
    """Part with a cell that was drained, or that is lost for good; its directory stays."""
    if not yes:
        for line in _held(or_exit(lambda: _listed_with(connect, name)), name):
            click.echo(line)
        confirm(f"Remove {name} for good?")
    wanted = {"CellName": name, **({"LoseMessages": True} if lose_messages else {})}
    or_exit(lambda: connect().tidegate_remove_cell(**wanted))
    click.echo(f"Removed {name}.")


@cells.command("fail", short_help="Let a cell answer nothing until it is restored: a drill.")
@_argument("name")
@click.pass_obj
def fail_cell(connect: Connect, name: str) -> None:
    """Let an embedded cell answer nothing until it is restored, or the server starts again.

    Its directory is closed: a disk may be taken out. An empty one in its place joins anew.
    """
    or_exit(lambda: connect().tidegate_fail_cell(CellName=name))
    click.echo(f"{name} answers nothing any more.")
    listed = or_exit(lambda: connect().tidegate_list_cells())
    found, groups = listed.get("Cells", []), listed.get("PlacementGroups", [])
    answering = [cell["CellName"] for cell in found if cell["Health"] != "unavailable"]
    left = [other for other in answering if other != name]
    for line in _lacking(groups, left):
        click.echo(line)
    if found and 2 * len(left) <= len(found):
        click.echo(
            f"{len(left)} of {len(found)} cells answer ({', '.join(left)}): no further one may fail"
            f" until `tidegate cells restore {name}`; what they alone have has no other copy."
        )


@cells.command("restore")
@_argument("name")
@click.pass_obj
def restore_cell(connect: Connect, name: str) -> None:
    """Let a cell that was failed or drained take part again."""
    or_exit(lambda: connect().tidegate_restore_cell(CellName=name))
    click.echo(f"{name} is back.")


@cells.command("move-queue", short_help="Move one queue, without its group, and wait.")
@_argument("name")
@click.option(
    "--to", "names", required=True, metavar="CELL,...", help="The cells that it moves to."
)
@click.option("--account", "account_id", show_default="your own", help="The queue's account.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it has moved.")
@click.pass_obj
def move_queue(
    connect: Connect, name: str, names: str, account_id: str | None, *, no_wait: bool
) -> None:
    """Move a queue to other cells, without the others of its placement group.

    It gets a group of its own, which it keeps. Name at most as many cells as it has copies; further
    copies stay where they are. It is served meanwhile. Ctrl-C ends the waiting alone.
    """
    wanted = [one.strip() for one in names.split(",") if one.strip()]
    asked = {"QueueName": name, "CellNames": wanted}
    asked |= {"AccountId": account_id} if account_id else {}
    group = or_exit(lambda: connect().tidegate_move_queue(**asked))["GroupName"]
    if no_wait:
        click.echo(f"{name} is being moved, as {group}.")
        return
    told = ""
    while (text := or_exit(lambda: _still_to_move(connect, name, group))) != "":
        if text != told:
            click.echo(text)
            told = text
        sleep(_POLL_S)
    click.echo(f"{name} has moved.")


def _still_to_move(connect: Connect, name: str, group: str) -> str:
    """Where a queue's own group lies and what it waits for; "" when it is where it should be.

    Raises ValueError if there is no such group any more.
    """
    found = connect().tidegate_list_cells()
    for one in found.get("PlacementGroups", []):
        if one["GroupName"] == group:
            lies_in = {member["CellName"] for member in one["Members"]}
            if _is_whole(one) and lies_in >= set(one.get("ChosenCells", [])):
                return ""
            members = _group_row(one)[-1]
            waits = [wait for wait in found.get("ManagerWaits", []) if wait.startswith(group)]
            return "\n  ".join([f"{name} lies in {members}.", *waits])
    raise ValueError(f"{name} was deleted, or another server has another map: {group} is gone.")


def _left_in(connect: Connect, name: str) -> tuple[int, list[str]]:
    """How many groups a cell has, and why they stay. Raises ValueError if there is no such cell."""
    found = _listed_with(connect, name)
    groups = {cell["CellName"]: int(cell["Groups"]) for cell in found["Cells"]}
    waits = found.get("ManagerWaits", [])
    return groups[name], [wait for wait in waits if wait.startswith(f"{name} ")]


def _listed_with(connect: Connect, name: str) -> Mapping[str, Any]:
    """All cells, and what they have. Raises ValueError if there is no such one."""
    found: Mapping[str, Any] = connect().tidegate_list_cells()
    if all(cell["CellName"] != name for cell in found.get("Cells", [])):
        raise ValueError(f"There is no cell {name}.")
    return found


def _held(found: Mapping[str, Any], name: str) -> Iterator[str]:
    """What a cell has, and what no other one has."""
    groups = found.get("PlacementGroups", [])
    theirs = [cells for cells in map(_full_in, _of_queues(groups)) if name in cells]
    alone = sum(cells == {name} for cells in theirs)
    if theirs:
        yield f"{name} has {_groups(len(theirs))}, of {alone or 'none'} of them the only copy."
    if alone:
        told = {cell["CellName"]: cell for cell in found.get("Cells", [])}.get(name, {})
        is_there = told.get("Health") != "unavailable"
        moved = f": `tidegate cells drain {name}` moves them" if is_there else ""
        yield f"Messages in what it alone has are lost{moved}."


def _lacking(groups: Sequence[Mapping[str, Any]], left: Collection[str]) -> Iterator[str]:
    """What has one copy in the cells that are left: what queues are in has one at least."""
    copies = [
        (len(_full_in(one) & {*left}), int(one["ReplicationFactor"])) for one in _of_queues(groups)
    ]
    if last := sum(count == 1 < factor for count, factor in copies):
        yield f"{_groups(last)} {'has' if last == 1 else 'have'} one copy left."


def _of_queues(groups: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for one in groups if one["GroupName"] != _REGISTRY]


def _full_in(group: Mapping[str, Any]) -> set[str]:
    return {one["CellName"] for one in group["Members"] if one["State"] == "full"}


def _groups(count: int) -> str:
    return f"{count} group{'' if count == 1 else 's'} of queues"


def _listing(found: Mapping[str, Any], *, all_groups: bool) -> Iterator[str]:
    header = ("CELL", "STATE", "HEALTH", "GROUPS", "DECIDES", "LAG", "LATENCY", "USED")
    where = ("INODE", "ADDRESS")
    yield from lines([(*header, *where), *map(_cell_row, found.get("Cells", []))])
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
    state = found.get("ManagerState", "")
    activities = found.get("ManagerActivities", [])
    if state or activities:
        yield ""
        yield f"The cluster manager: {state}".rstrip()
        yield from (f"  waits: {wait}" for wait in found.get("ManagerWaits", []))
        present = sum(activity.startswith(_PRESENT) for activity in activities)
        yield from (f"  {activity}" for activity in activities[: present + _DONE_SHOWN])


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
        str(cell.get("Inode", "")),
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
        f"{group['GroupName']} ({group['QueueName']})"
        if "QueueName" in group
        else group["GroupName"],
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
