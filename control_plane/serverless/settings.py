"""Settings of the functions: read from their environment once a sandbox, checked, then only read.

They have the names, and the checks, of the server's settings wherever it has the same one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from data_plane.blobs.place import S3Place, place_of
from data_plane.core.addresses import is_base_url
from data_plane.core.limits import DROP_ITEMS_PER_S_MAX, RECEIVE_WAIT_S_MAX
from data_plane.settings import STRICT_STREAMS_S_MAX, ServerSettings, SettingError

PREFIX: Final = "TIDEGATE_"
OF_SERVICE: Final = ("TABLE", "BLOBS", "KMS_KEY")
"""Without these no function can open the service."""

GRACE_S: Final = 600
"""60 s that a map may be kept, 5 minutes that DynamoDB takes a signed request, and for clocks."""

_GRACE_S_MAX: Final = 86_400
_OF_SERVER: Final = ServerSettings()
_S3: Final = "s3://"
_HOW: Final = "AWS_LAMBDA_INITIALIZATION_TYPE"
_FROM_A_SNAPSHOT: Final = "snap-start"


class VariableError(ValueError):
    """A variable is missing or has a wrong value; the message is one line that names it."""

    def __init__(self, variable: str, reason: str) -> None:
        super().__init__(f"{variable}: {reason}")
        self.variable = variable


class CellTable(NamedTuple):
    """A further cell: its name, and the table that it is."""

    name: str
    region: str
    table: str


@dataclass(frozen=True, slots=True)
class FunctionSettings:
    """What a deployment decides about its functions, as strings of their environment say it.

    `table`, `blobs` and `kms_key` are where messages and keys are, in `region`; `endpoint` is where
    an emulator serves all three ("": AWS's own). The cell in `table` is called `cell_name` ("": as
    the table), where that was restored under another name. `account` is the operator's. `base_url`
    stands before account and name in queue URLs ("": what the caller used). A receive waits for
    `long_poll_s_max` seconds at most. `cells` are further tables, in this region or others, which
    have copies; a member that joins a group is copied to after `grace_s`. `usage` is the place of
    usage records: `s3://bucket/prefix`.
    `drop_items_per_s` of what was purged are deleted from a table (0: they are left to TTL).
    `metadata_cache` names nodes as the server's option does ("": there are none), and
    `metadata_cache_tls` says how they are trusted. `strict_streams_s` is the server's, too: in test
    beds streams are as strict as AWS's (None: they are not).
    """

    table: str
    region: str
    blobs: str
    kms_key: str
    endpoint: str = ""
    account: str = _OF_SERVER.account
    base_url: str = ""
    long_poll_s_max: int = RECEIVE_WAIT_S_MAX
    usage: str = ""
    cells: tuple[CellTable, ...] = ()
    grace_s: int = GRACE_S
    metadata_cache: str = ""
    metadata_cache_layout: str = _OF_SERVER.metadata_cache_layout
    metadata_cache_tls: str = _OF_SERVER.metadata_cache_tls
    log_level: str = _OF_SERVER.log_level
    drop_items_per_s: int = _OF_SERVER.drop_items_per_s
    cell_name: str = ""
    strict_streams_s: float | None = None

    @property
    def own_cell(self) -> str:
        """The name of the cell in `table`, as definitions of queues have it."""
        return self.cell_name or self.table

    @property
    def usage_place(self) -> S3Place:
        """The place that `usage` names."""
        place = place_of(self.usage, "", endpoint=self.endpoint, region=self.region)
        assert isinstance(place, S3Place)  # noqa: S101 - `read_settings` takes no other
        return place


def read_settings(
    environ: Mapping[str, str], required: tuple[str, ...] = OF_SERVICE
) -> FunctionSettings:
    """The settings in an environment; an empty variable is one that is not there.

    `required` are those that this function cannot do without. Raises VariableError.
    """

    def read(name: str, otherwise: str = "") -> str:
        return environ.get(PREFIX + name) or otherwise

    if environ.get(_HOW) == _FROM_A_SNAPSHOT:
        raise VariableError(
            _HOW,
            "without SnapStart, please: sandboxes that are copies have the same names, and"
            " take the leases of others for their own",
        )
    for name in required:
        if not read(name):
            raise VariableError(PREFIX + name, "it is missing, and this function needs it")
    region = read("REGION", environ.get("AWS_REGION", ""))
    if not region:
        raise VariableError(PREFIX + "REGION", "it is missing, and there is no AWS_REGION either")
    settings = FunctionSettings(
        table=read("TABLE"),
        region=region,
        blobs=read("BLOBS"),
        kms_key=read("KMS_KEY"),
        endpoint=read("ENDPOINT"),
        account=read("ACCOUNT", _OF_SERVER.account),
        base_url=read("BASE_URL").rstrip("/"),
        long_poll_s_max=_number_of(
            "LONG_POLL_S_MAX", read("LONG_POLL_S_MAX", str(RECEIVE_WAIT_S_MAX)), RECEIVE_WAIT_S_MAX
        ),
        usage=read("USAGE"),
        cells=tuple(_cell_table(text, region) for text in read("CELLS").split(",") if text),
        grace_s=_number_of("GRACE_S", read("GRACE_S", str(GRACE_S)), _GRACE_S_MAX),
        metadata_cache=read("METADATA_CACHE"),
        metadata_cache_layout=read("METADATA_CACHE_LAYOUT", _OF_SERVER.metadata_cache_layout),
        metadata_cache_tls=read("METADATA_CACHE_TLS", _OF_SERVER.metadata_cache_tls),
        log_level=read("LOG_LEVEL", _OF_SERVER.log_level),
        drop_items_per_s=_number_of("DROP_PACE", read("DROP_PACE", "0"), DROP_ITEMS_PER_S_MAX),
        cell_name=read("CELL_NAME"),
        strict_streams_s=_seconds_of(
            "STRICT_STREAMS", read("STRICT_STREAMS"), STRICT_STREAMS_S_MAX
        ),
    )
    _check(settings)
    return settings


def _number_of(name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > most:
        raise VariableError(PREFIX + name, f"{text!r} is no number within 0 and {most}")
    return int(text)


def _seconds_of(name: str, text: str, most: int) -> float | None:
    """A number of seconds as the server takes it, or None where there is none."""
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= most:
        raise VariableError(PREFIX + name, f"{text!r} is no number within 0 and {most}")
    return seconds


def _cell_table(text: str, region: str) -> CellTable:
    """The cell of `table`, in the function's region, or of `name=region/table`."""
    name, equals, place = text.partition("=")
    if not equals:
        return CellTable(name, region, name)
    elsewhere, slash, table = place.partition("/")
    if not slash:
        raise VariableError(PREFIX + "CELLS", f"{text!r} is neither a table nor name=region/table")
    return CellTable(name, elsewhere, table)


def _check(settings: FunctionSettings) -> None:
    for name, place in (("BLOBS", settings.blobs), ("USAGE", settings.usage)):
        if place and not place.startswith(_S3):
            raise VariableError(PREFIX + name, f"{place!r} is not of the form s3://bucket[/prefix]")
        _check_as_server(name, blobs=place)
    if settings.base_url and not is_base_url(settings.base_url):
        raise VariableError(
            PREFIX + "BASE_URL", f"{settings.base_url!r} is not of the form https://host[/path]"
        )
    if settings.table:
        _check_as_server("TABLE", table=settings.table)
    _check_as_server("CELL_NAME", cell_name=settings.cell_name)
    names = [settings.own_cell, *(cell.name for cell in settings.cells)]
    for cell in settings.cells:
        _check_as_server("CELLS", table=cell.name)
        _check_as_server("CELLS", table=cell.table)
        _check_as_server("CELLS", region=cell.region)
        if names.count(cell.name) > 1:
            raise VariableError(PREFIX + "CELLS", f"{cell.name!r} is there twice")
    places = [(settings.region, settings.table), *(cell[1:] for cell in settings.cells)]
    if len(set(places)) != len(places):
        raise VariableError(PREFIX + "CELLS", "a table is there under more than one name")
    _check_as_server("REGION", region=settings.region)
    _check_as_server("KMS_KEY", kms_key=settings.kms_key)
    _check_as_server("ENDPOINT", endpoint=settings.endpoint)
    _check_as_server("ACCOUNT", account=settings.account)
    _check_as_server("METADATA_CACHE", metadata_cache=settings.metadata_cache)
    _check_as_server(
        "METADATA_CACHE_LAYOUT",
        metadata_cache=settings.metadata_cache,
        metadata_cache_layout=settings.metadata_cache_layout,
    )
    _check_as_server(
        "METADATA_CACHE_TLS",
        metadata_cache=settings.metadata_cache,
        metadata_cache_tls=settings.metadata_cache_tls,
    )
    _check_as_server("LOG_LEVEL", log_level=settings.log_level)


def _check_as_server(name: str, **setting: str) -> None:
    """Check one setting by the server's rule for it."""
    try:
        ServerSettings(cell="dynamodb", **setting)  # type: ignore[arg-type]
    except SettingError as error:
        reason = str(error).partition(": ")[2]
        raise VariableError(PREFIX + name, reason) from None
