"""The place for bodies that are too big for a cell's items, opened as the settings say."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from data_plane.blobs.opening import open_blobs
from data_plane.blobs.place import BlobsOpenError, place_of
from data_plane.ports import Cell, CellUnavailableError, Clock, Entropy
from data_plane.runtime.event_loop import EventLoopOffload
from data_plane.runtime.guard import Guard
from data_plane.settings import ServerSettings
from data_plane.stored.binding import MissingBlobsError, confirm, read_binding
from data_plane.stored.bodies import BodyStore

DIRECTORY: Final = "blobs"
"""Where in the data directory, unless the settings say otherwise."""

LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedBodies:
    """`where` stands in the greeting; `close` ends the threads that wait for the store."""

    store: BodyStore
    where: str
    close: Callable[[], None]


async def open_bodies(  # noqa: PLR0913, PLR0917 - its ports, and what stands before the store
    settings: ServerSettings, name: str, cell: Cell, clock: Clock, entropy: Entropy, guard: Guard
) -> OpenedBodies:
    """The bodies of the cell of this name, behind the guard; a new cell's place is made.

    Raises BlobsOpenError, CellUnavailableError where the cell does not answer.
    """
    setting = settings.blobs or str(settings.data / DIRECTORY)
    binding = await read_binding(cell, entropy)
    place = place_of(
        setting,
        f"{name}-{binding.id}",
        endpoint=settings.blobs_endpoint or settings.endpoint,
        region=settings.region,
    )
    offload = EventLoopOffload(
        settings.connections, clock, guard, patience_s=settings.cell_deadline_s
    )
    try:
        blobs = open_blobs(place, clock, offload, connections_max=settings.connections)
        await confirm(cell, blobs, binding)
    except CellUnavailableError as error:
        offload.close()
        raise BlobsOpenError(f"cannot read {place}: {error}") from error
    except MissingBlobsError as error:
        offload.close()
        raise BlobsOpenError(
            f"the bodies of the cell {name} are not in {place}: they were laid elsewhere, from"
            " where they can be copied; several servers on one table need --blobs s3://bucket"
        ) from error
    except BaseException:
        offload.close()
        raise
    if isinstance(place, Path) and not settings.blobs:
        LOG.warning(
            "bodies above %d bytes lie in %s: other servers on this table cannot read them, they"
            " need --blobs s3://bucket",
            settings.blob_threshold_bytes,
            place,
        )
    store = BodyStore(blobs, settings.blob_threshold_bytes)
    return OpenedBodies(store, f"big bodies in {place}", offload.close)
