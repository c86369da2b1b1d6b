"""Tables that were restored under other names, made the cells that they were.

A cell keeps its name, which definitions of queues and placements have; where it lies stands in the
registry. Tables are restored to one second, not to one moment: copies of a queue in two of them may
disagree about what was under way. So of each group one copy stays, and the cluster manager makes
the others anew. Nobody may use the tables meanwhile.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from control_plane.cells import StartError, log_circuit
from control_plane.places.items import (
    CELLS,
    PLACEMENTS,
    CellRecord,
    cell_key,
    decode_cell,
    decode_placement,
    encode_cell,
    encode_placement,
    placement_key,
    with_own,
)
from control_plane.places.watching import PROBE
from control_plane.registry_secret import sealed_under
from data_plane.blobs.place import BlobsOpenError, S3Place, place_of
from data_plane.blobs.versions import bring_back
from data_plane.dynamodb.cell import DynamoCell
from data_plane.dynamodb.opening import OpenError, connect, enable_time_to_live
from data_plane.ports import Attributes, Cell, CellUnavailableError, Clock, Entropy, Key
from data_plane.replication.placement import Placement
from data_plane.runtime.event_loop import EventLoopOffload
from data_plane.runtime.guard import Guard
from data_plane.settings import ServerSettings
from data_plane.stored.binding import read_binding
from data_plane.usage.sent import PARTITION as SENT

_CONNECTIONS: Final = 4
_PLACES_MAX: Final = 2000
"""Far more than there are groups, or cells."""

_NONCE_BYTES: Final = 8

_EPOCHS_BETWEEN: Final = 1000
"""More than a group had in the second to which its tables were restored: what a table has of a
later epoch than the registry knows nobody could change, or who joins would find what is not his."""


class RestoredTables(NamedTuple):
    """What was done: addresses written, groups that keep one copy, bodies that are back.

    `tables` are the new ones by the names of those that they were restored from.
    """

    cells: int
    groups: int
    bodies: int
    tables: Mapping[str, str]


async def restore_tables(
    settings: ServerSettings,
    tables: Mapping[str, str],
    since_us: int | None,
    clock: Clock,
    entropy: Entropy,
) -> RestoredTables:
    """Let the registry in `settings.table` have its cells in these tables, by names of cells.

    Bodies that were removed after `since_us` come back; None: none does. Raises StartError.
    """
    try:
        client = connect(settings.endpoint, settings.region, connections_max=_CONNECTIONS)
        enable_time_to_live(client, settings.table)
    except OpenError as error:
        raise StartError(str(error)) from error
    patience_s = settings.cell_deadline_s
    guard = Guard(settings.table, clock, log_circuit)
    offload = EventLoopOffload(_CONNECTIONS, clock, guard, patience_s=patience_s)
    cell = DynamoCell(client, settings.table, clock, offload, deadline_s=patience_s)
    try:
        await cell.get(PROBE)
        if not await sealed_under(cell):
            raise StartError(f"tables: {settings.table} has no registry: name the first cell first")
        known = await _cells_in(cell, tables)
        cells = {
            cell_key(name): encode_cell(_moved(known[name], table))
            for name, table in (tables.items() if known else ())
        }
        groups = await _with_one_copy(cell, tables, clock, entropy) if known else {}
        for key, item in {**cells, **groups}.items():
            await cell.put(key, item)
        await _forget_sent(cell)
        bodies = await _bring_back(settings, cell, since_us, entropy)
    except BlobsOpenError as error:
        raise StartError(str(error)) from error
    except CellUnavailableError as error:
        raise StartError(f"table: cannot use {settings.table!r}: {error}") from error
    finally:
        offload.close()
        client.close()
    return RestoredTables(len(cells), len(groups), bodies, _by_names_before(known, tables))


async def _cells_in(registry: Cell, tables: Mapping[str, str]) -> Mapping[str, CellRecord]:
    """Those that the registry has, none where there is one alone. Raises StartError."""
    items = await registry.query(CELLS, limit=_PLACES_MAX)
    names = [item.key.sort.decode() for item in items]
    known = {
        name: decode_cell(name, item.attributes) for name, item in zip(names, items, strict=True)
    }
    if not known and len(tables) > 1:
        raise StartError("tables: the registry has one cell, and no others")
    if known and (unknown := sorted(tables.keys() - known.keys())):
        raise StartError(f"tables: the registry has no cell {unknown[0]}")
    return known


def _by_names_before(
    known: Mapping[str, CellRecord], tables: Mapping[str, str]
) -> Mapping[str, str]:
    """Names of tables; a cell that lies in its new one already was in one of its own name."""
    before = {name: str(record.address.get("table", name)) for name, record in known.items()}
    return {
        name if before.get(name, name) == table else before.get(name, name): table
        for name, table in tables.items()
    }


def _moved(record: CellRecord, table: str) -> CellRecord:
    return replace(record, address={**record.address, "table": table})


async def _with_one_copy(
    registry: Cell, tables: Mapping[str, str], clock: Clock, entropy: Entropy
) -> Mapping[Key, Attributes]:
    """Placements with the first whole copy in these tables alone, under an epoch of their own.

    Raises StartError.
    """
    changed: dict[Key, Attributes] = {}
    found = {
        (group := item.key.sort.decode()): decode_placement(group, item.attributes)
        for item in await registry.query(PLACEMENTS, limit=_PLACES_MAX)
    }
    for held in with_own(found).values():
        before = held.placement
        kept = next((one for one in before.members if one.full and one.cell in tables), None)
        if kept is None:
            names = ", ".join(member.cell for member in before.members)
            raise StartError(f"tables: {before.group} lies in {names}: restore one of these, too")
        epoch = before.epoch + _EPOCHS_BETWEEN
        after = Placement(before.group, epoch, (kept,), clock.now_us())
        nonce = entropy.random_bytes(_NONCE_BYTES)
        stored = replace(held, placement=after, nonce=nonce, chosen=())
        changed[placement_key(after.group)] = encode_placement(stored)
    return changed


async def _forget_sent(registry: Cell) -> None:
    """Let go of what servers noted of their sends, for others to make records of.

    They have made some of later sends, too: two of one identity count for nothing.
    """
    while noted := await registry.query(SENT, limit=_PLACES_MAX):
        for item in noted:
            await registry.delete(item.key)


async def _bring_back(
    settings: ServerSettings, cell: Cell, since_us: int | None, entropy: Entropy
) -> int:
    """Bring back bodies that segments of before may name. Raises StartError."""
    if since_us is None:
        return 0
    binding = await read_binding(cell, entropy)
    endpoint = settings.blobs_endpoint or settings.endpoint
    folder = f"{settings.own_cell}-{binding.id}"
    place = place_of(settings.blobs, folder, endpoint=endpoint, region=settings.region)
    if not isinstance(place, S3Place):
        raise StartError("blobs: of a directory nothing comes back: restore it from a copy")
    return bring_back(place, since_us // 1_000_000)
