"""Which service a directory belongs to, by what lies in it: directories may have any name."""

from collections.abc import Iterable
from pathlib import Path, PurePath

from control_plane.core.item_field import UnknownItemFormatError
from control_plane.places.own import OWN, KnownService, Own, decode_manifest, decode_own
from control_plane.places.starting import MANIFEST
from data_plane.embedded.peeking import peek
from data_plane.embedded.store import DATA_FILE
from data_plane.settings import KEY_FILE


def own_in(folder: Path) -> Own | None:
    """Which cell of several lies there; None: none, or one that cannot be read.

    Raises CellInUseError.
    """
    item = peek(folder, OWN)
    try:
        return None if item is None else decode_own(item)
    except UnknownItemFormatError:
        return None


def several_in(data: Path) -> KnownService | None:
    """The service whose cells lie in this directory, as they know it; None: there is none.

    Raises CellInUseError.
    """
    owns = {path.parent: own_in(path.parent) for path in data.glob(f"*/{DATA_FILE}")}
    found = [
        own.known
        for folder, own in owns.items()
        if own is not None and _data_by_path(folder, own) == data.resolve()
    ]
    return max(found, key=lambda known: known.knowledge.order, default=None)


def told_of(folder: Path, own: Own) -> str:
    """Whose cell lies there, and what is to be served instead, in words."""
    cells = len(own.known.paths)
    data = _data_by_manifest(folder, own) or _data_by_path(folder, own)
    named = data or f"the directory with its {MANIFEST}"
    return (
        f"{folder} is {own.cell} of a service of {cells} cells: serve that, by --data {named}"
        f" --cells {cells}"
    )


def service_above(data: Path) -> Path | None:
    """The nearest directory around this one that is a service's; of a cell's that of its service.

    None: there is none.
    """
    around = data.resolve().parents
    by_manifest = (folder for folder in around if manifest_in(folder) is not None)
    by_data = (folder for folder in around if _has_data(folder))
    return next(by_manifest, None) or next(by_data, None)


def why_no_cell(folder: Path, data: Path, cells: Iterable[Path]) -> str:
    """Why a directory is to be no new cell of the service in `data`, in words; "": it may be.

    No cell is in another one, or has another one, `data` or somebody else's directory around it.
    """
    folder, data = folder.resolve(), data.resolve()
    if folder == data:
        return "it is the data directory"
    if folder in data.parents:
        return f"the data directory {data} is in it"
    for cell in (each.resolve() for each in cells):
        if folder in cell.parents or cell in folder.parents:
            return f"{cell} is a cell, and one of the two is in the other"
    return _why_somebody_elses(folder, data)


def _why_somebody_elses(folder: Path, data: Path) -> str:
    for above in (folder, *folder.parents):
        if above == data:
            break
        if (above / MANIFEST).is_file():
            return f"{above} has a {MANIFEST}: it is a backup, or another service's"
        if above != folder and (above / DATA_FILE).is_file():
            return f"it is in {above}, which is a cell"
    return ""


def _data_by_manifest(folder: Path, own: Own) -> Path | None:
    for above in folder.resolve().parents:
        known = manifest_in(above)
        if known is not None and known.service == own.known.service:
            return above
    return None


def _data_by_path(folder: Path, own: Own) -> Path | None:
    """Where the service's data are by what the cell knows: unless it lies elsewhere."""
    path = PurePath(own.known.paths.get(own.cell, "/"))
    if path.is_absolute() or not path.parts:
        return None
    return folder.resolve().parents[len(path.parts) - 1]


def manifest_in(folder: Path) -> KnownService | None:
    """What a service's manifest says; None: there is none, or not one that can be read."""
    try:
        return decode_manifest((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, UnknownItemFormatError):
        return None


def _has_data(folder: Path) -> bool:
    """Whether one cell lies there, or several beside their keys, whose manifest is lost."""
    try:
        if (folder / DATA_FILE).stat().st_size > 0:
            return True
    except OSError:
        pass  # there is none
    return (folder / KEY_FILE).is_file() and any(folder.glob(f"*/{DATA_FILE}"))
