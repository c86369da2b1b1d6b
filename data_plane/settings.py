"""Settings of a server: parsed once, checked, then only read."""

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, NamedTuple

from data_plane.core import addresses
from data_plane.core.identifiers import is_account, is_region
from data_plane.core.limits import (
    CALLS_MAX_DEFAULT,
    DROP_ITEMS_PER_S_MAX,
    LONG_POLLS_MAX_DEFAULT,
    REPLICATION_FACTOR_MAX,
)
from data_plane.core.root_key import RootKey
from data_plane.stored.bounds import BLOB_THRESHOLD_BYTES

LOG_LEVELS: Final = ("error", "warning", "info")
LOG_FORMATS: Final = ("auto", "json", "text")
CELLS: Final = ("embedded", "dynamodb")
SHARDED: Final = "sharded"
WHOLE_COPY: Final = "whole-copy"
CACHE_LAYOUTS: Final = (SHARDED, WHOLE_COPY)
CACHE_TLS_OFF: Final = "off"
CACHE_TLS_ON: Final = "on"
_PORT_MAX: Final = 65535
_SECONDS_MAX: Final = 86_400
STRICT_STREAMS_S_MAX: Final = 3_600
_CACHE_PORT: Final = 11211
_CACHE_NODES_MAX: Final = 32
_ORIGIN: Final = "http(s)://host[:port]"
_CONNECTIONS_MAX: Final = 1024
_BLOB_THRESHOLD_BYTES_MAX: Final = 384 * 1024
"""DynamoDB takes items of 400 KB; a segment has up to 2.5 KB beside its body."""

_OF_TABLES: Final = {
    **{name: name.replace("_", "-") for name in ("table", "cell_name", "connections")},
    "endpoint": "cell-endpoint",
    "cell_deadline_s": "cell-deadline",
    "blob_threshold_bytes": "blob-threshold",
    "drop_items_per_s": "drop-pace",
}
_PLACE: Final = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*'()-]+)*/?")
_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_NAMES: Final = "3 to 255 of a-z A-Z 0-9 _ . -"
_FURTHER: Final = re.compile(
    rf"(?P<name>{_TABLE.pattern})=(?:(?P<region>[^/:]+)/)?(?:(?P<endpoint>https?://[^/]+)/)?"
    rf"(?P<table>{_TABLE.pattern})"
)
_KMS_KEY: Final = re.compile(r"[A-Za-z0-9:/_-]{1,2048}")
KEY_FILE: Final = "master.keys"
"""In the data directory, unless a setting names another file."""
CREDENTIALS_FILE: Final = "credentials"
"""In the data directory: access key of the root account, for SDKs and the command line."""

_CACHE_NODE: Final = re.compile(
    r"(?:\[(?P<address>[0-9A-Fa-f:.]{2,45})\]|(?P<host>[A-Za-z0-9._-]{1,253}))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
METRICS_ON: Final = "on"
METRICS_OFF: Final = "off"
_ADDRESS_AND_PORT: Final = re.compile(
    r"(?:\[(?P<address>[0-9A-Fa-f:.]{2,45})\]|(?P<host>[A-Za-z0-9._-]{1,253})):(?P<port>[0-9]{1,5})"
)

USAGE_OFF: Final = "off"
"""Of the setting `usage`: nothing is counted."""

_HOST: Final = re.compile(r"[A-Za-z0-9.:_-]{1,253}")


class FurtherTable(NamedTuple):
    """A cell on DynamoDB: its name, region, endpoint ("": AWS's own in the region), and table."""

    name: str
    region: str
    endpoint: str
    table: str


class SettingError(ValueError):
    """A setting has a wrong value; the message is one line that names the setting."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: {reason}")
        self.setting = setting


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What an operator decides about a server. Raises SettingError for a wrong value.

    `account` and `region` are for callers whose credentials name none. `base_url` replaces scheme
    and host in queue URLs ("": those that the caller used). Without `sixty_second_rules` a queue
    may be purged again, and made again after its deletion, at once. With `auto_create_queues` the
    first message makes a queue that is missing; those of `queues_file` are made at the start.
    A request has `request_deadline_s` to be answered, and the time for which it waits for messages.

    At most `requests_max` requests are worked on at a time; beside them `long_polls_max` may wait.
    A request that has waited `lag_s_max` before anything looks at it is refused.

    `data` is for an embedded cell. With `cells` above 1 there are so many, which hold copies for
    each other: in the directories `cell_data`, with commas between them ("": in `data`).

    For one on DynamoDB there are `table`, `endpoint` ("": AWS's own in `region`), `connections` at
    most, and `cell_deadline_s` for a call with all its repetitions. With `cells_dynamodb`,
    `name=[region/][endpoint/]table` with commas between them, there are further cells, and all hold
    copies for each other; without a region they are in `region`, without an endpoint AWS's own. The
    registry stays in `table`. That is the cell `cell_name` ("": called as the table), which differs
    where the table was restored under another name than definitions have.
    Its packed bodies of more than `blob_threshold_bytes` go to `blobs`: `s3://bucket[/prefix]` at
    `blobs_endpoint` ("": the cell's), or a directory ("": `blobs` in `data`).

    What is stored is sealed under the keys of the file `master_keys` (None: `master.keys` in
    `data`), or under the KMS key `kms_key` ("": none) at `kms_endpoint` ("": AWS's in `region`);
    a key file beside it then opens what was sealed before.

    `metadata_cache` names nodes that speak memcached's protocol ("": none), as host[:port] with
    commas between them, `metadata_cache_layout` which of them has what. With `metadata_cache_tls`
    they speak TLS, with certificates of an authority that this machine trusts ("on"), or of one in
    a file in PEM form, which it names.

    With `begin_anew` an embedded store that is missing is made anew, although what lies beside it
    says that there was one. A service of several cells starts without those in `give_up`, with
    commas between them, which are lost, and parts with them.

    What was served is counted in `usage` ("off": it is not): `s3://bucket[/prefix]` at
    `usage_endpoint` ("": the cell's), or a directory ("": `usage` in `data`). The file `billing`
    says what it costs.

    `root_key` is an access key of the root account that the operator chose; without it the first
    start makes one, and with `new_root_key` any start.

    With `tls_certificate` and `tls_key`, files in PEM form, it serves HTTPS alone.

    Without authentication it serves under the names of this machine, and under `allowed_hosts`,
    with commas between them; `*.` before one stands for all names below it. With authentication
    pages of `allow_origin` may call, with commas as well.

    The log is for programs (`log_format` is "json"), for people ("text"), or for people where it
    goes to a terminal ("auto").

    Metrics are shown at the server's own address (`metrics` is "on"), at one of their own
    (host:port), or not ("off"); with a `metrics_key`, a file, to who has what is in it.
    `wake_ups` are host:port with commas between them: where this server hears of sends through
    others on the same table, and then theirs. With `strict_streams_s` streams are as AWS has them.
    """

    host: str = "127.0.0.1"
    port: int = 9324
    cell: str = "embedded"
    data: Path = Path("data")
    cells: int = 1
    cell_data: str = ""
    cells_dynamodb: str = ""
    endpoint: str = ""
    table: str = "tidegate"
    cell_name: str = ""
    connections: int = 32
    cell_deadline_s: float = 5.0
    blobs: str = ""
    blobs_endpoint: str = ""
    blob_threshold_bytes: int = BLOB_THRESHOLD_BYTES
    master_keys: Path | None = None
    kms_key: str = ""
    kms_endpoint: str = ""
    usage: str = ""
    usage_endpoint: str = ""
    billing: Path | None = None
    begin_anew: bool = False
    give_up: str = ""
    auth: str = "on"
    new_root_key: bool = False
    root_key: RootKey | None = None
    account: str = "000000000000"
    region: str = "us-east-1"
    base_url: str = ""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    allowed_hosts: str = ""
    allow_origin: str = ""
    metrics: str = METRICS_ON
    metrics_key: Path | None = None
    wake_ups: str = ""
    log_level: str = "info"
    log_format: str = "auto"
    metadata_cache: str = ""
    metadata_cache_layout: str = SHARDED
    metadata_cache_tls: str = CACHE_TLS_OFF
    sixty_second_rules: bool = True
    auto_create_queues: bool = False
    strict_streams_s: float | None = None
    queues_file: Path | None = None
    grace_s: float = 10.0
    requests_max: int = CALLS_MAX_DEFAULT
    long_polls_max: int = LONG_POLLS_MAX_DEFAULT
    lag_s_max: float = 1.0
    request_deadline_s: float = 15.0
    drop_items_per_s: int = 0

    def __post_init__(self) -> None:
        if _HOST.fullmatch(self.host) is None:
            raise SettingError("host", f"{self.host!r} is no host name or address")
        self._check_auth()
        if not is_account(self.account):
            raise SettingError("account", f"{self.account!r} is not an account id of 12 digits")
        if not is_region(self.region):
            raise SettingError("region", f"{self.region!r} is no region's name")
        for setting, word, known in (
            ("cell", self.cell, CELLS),
            ("metadata-cache-layout", self.metadata_cache_layout, CACHE_LAYOUTS),
            ("log-level", self.log_level, LOG_LEVELS),
            ("log-format", self.log_format, LOG_FORMATS),
        ):
            if word not in known:
                raise SettingError(setting, f"{word!r} is none of {', '.join(known)}")
        if self.base_url and not addresses.is_base_url(self.base_url):
            raise SettingError("base-url", f"{self.base_url!r} is not of the form {_ORIGIN}[/path]")
        for origin in self.origins:
            _check_origin("allow-origin", origin)
        if self.origins and not self.verifies:
            raise SettingError("allow-origin", "without authentication no page may call")
        self._check_tls()
        self._check_metrics()
        self._check_load()
        self._check_metadata_cache()
        self._check_cell()
        self._check_keys()
        self._check_usage()

    @property
    def verifies(self) -> bool:
        """Whether requests must be signed."""
        return self.auth == "on"

    @property
    def credentials_file(self) -> Path:
        """Where the first start with authentication writes the root account's access key."""
        return self.data / CREDENTIALS_FILE

    def _check_auth(self) -> None:
        if self.auth not in ("on", "off"):
            raise SettingError("auth", f"{self.auth!r} is neither 'on' nor 'off'")
        if not self.verifies and not addresses.is_loopback(self.host):
            raise SettingError(
                "host", f"without authentication only loopback addresses serve, not {self.host}"
            )
        if not self.verifies and self.new_root_key:
            raise SettingError("new-root-key", "without authentication there is none to make")
        if self.root_key is not None and self.new_root_key:
            raise SettingError("new-root-key", "the root key is given: nothing is to be made")

    @property
    def key_file(self) -> Path:
        """The file of master keys, where no KMS key is named."""
        return self.master_keys or self.data / KEY_FILE

    @property
    def url(self) -> str:
        """Where the server listens."""
        scheme = "https" if self.tls_certificate is not None else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"

    def _check_tls(self) -> None:
        if self.tls_certificate is not None and self.tls_key is None:
            raise SettingError("tls-key", "--tls-certificate needs one")
        if self.tls_key is not None and self.tls_certificate is None:
            raise SettingError("tls-certificate", "--tls-key needs one")

    @property
    def origins(self) -> tuple[str, ...]:
        """Origins whose pages may call."""
        return addresses.listed(self.allow_origin)

    @property
    def further_hosts(self) -> tuple[str, ...]:
        """Names under which a server without authentication serves. Raises SettingError."""
        names = addresses.listed(self.allowed_hosts)
        if wrong := [name for name in names if not addresses.is_host_pattern(name)]:
            raise SettingError(
                "allowed-hosts", f"{wrong[0]!r} is neither a host's name nor *. and a name; no port"
            )
        return names

    @property
    def metrics_at(self) -> tuple[str, int] | None:
        """Host and port of metrics that have an address of their own. Raises SettingError."""
        if self.metrics in (METRICS_ON, METRICS_OFF):
            return None
        found = _ADDRESS_AND_PORT.fullmatch(self.metrics)
        port = int(found["port"]) if found is not None else 0
        if found is None or not 1 <= port <= _PORT_MAX:
            raise SettingError("metrics", f"{self.metrics!r} is none of on, off, host:port")
        return found["address"] or found["host"], port

    @property
    def wake_up_addresses(self) -> tuple[tuple[str, int], ...]:
        """Host and port of this server, then of the others (none: off). Raises SettingError."""
        addresses = []
        for named in self.wake_ups.split(",") if self.wake_ups else ():
            found = _ADDRESS_AND_PORT.fullmatch(named)
            port = int(found["port"]) if found is not None else 0
            if found is None or not 1 <= port <= _PORT_MAX:
                raise SettingError("wake-ups", f"{named!r} is not host:port")
            addresses.append((found["address"] or found["host"], port))
        if len(addresses) == 1:
            raise SettingError("wake-ups", "it names this server, and no other one")
        if addresses and self.cell == "embedded":
            raise SettingError("wake-ups", "no other server works on an embedded cell")
        return tuple(addresses)

    def _check_metrics(self) -> None:
        _ = self.wake_up_addresses
        if self.metrics_at == (self.host, self.port):
            raise SettingError("metrics", f"{self.metrics} is where queues are served")
        if self.metrics == METRICS_OFF and self.metrics_key is not None:
            raise SettingError("metrics-key", "there are no metrics to show: --metrics is off")
        _ = self.further_hosts

    @property
    def cache_nodes(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each node of the metadata cache. Raises SettingError."""
        return read_cache_nodes(self.metadata_cache)

    def _check_metadata_cache(self) -> None:
        nodes = self.cache_nodes
        if len(nodes) > _CACHE_NODES_MAX:
            raise SettingError(
                "metadata-cache", f"{len(nodes)} nodes are more than {_CACHE_NODES_MAX}"
            )
        twice = [f"{host}:{port}" for host, port in nodes if nodes.count((host, port)) > 1]
        if twice:
            raise SettingError("metadata-cache", f"{twice[0]} is there more than once")
        for setting, is_given in (
            ("metadata-cache-layout", self.metadata_cache_layout != SHARDED),
            ("metadata-cache-tls", self.metadata_cache_tls != CACHE_TLS_OFF),
        ):
            if is_given and not nodes:
                raise SettingError(setting, "it is for a cache's nodes: --metadata-cache host:port")

    def _check_load(self) -> None:
        for setting, value in (
            ("request-deadline", self.request_deadline_s),
            ("lag", self.lag_s_max),
            ("cell-deadline", self.cell_deadline_s),
        ):
            if not 0 < value <= _SECONDS_MAX:
                raise SettingError(setting, f"{value} is not above 0 and up to {_SECONDS_MAX}")
        for setting, value in ("requests", self.requests_max), ("long-polls", self.long_polls_max):
            if not value > 0:
                raise SettingError(setting, f"{value} is not above 0")
        for setting, value, most in (
            ("port", self.port, _PORT_MAX),
            ("grace", self.grace_s, _SECONDS_MAX),
            ("drop-pace", self.drop_items_per_s, DROP_ITEMS_PER_S_MAX),
            ("strict-streams", self.strict_streams_s or 0, STRICT_STREAMS_S_MAX),
            ("blob-threshold", self.blob_threshold_bytes, _BLOB_THRESHOLD_BYTES_MAX),
        ):
            if not 0 <= value <= most:
                raise SettingError(setting, f"{value} is not within 0 and {most}")

    def _check_keys(self) -> None:
        if self.kms_key and _KMS_KEY.fullmatch(self.kms_key) is None:
            raise SettingError("kms-key", f"{self.kms_key!r} is no id, alias or ARN of a KMS key")
        if self.kms_endpoint and not self.kms_key:
            raise SettingError("kms-endpoint", "it is for keys of KMS: --kms-key")
        _check_origin("kms-endpoint", self.kms_endpoint)

    def _check_usage(self) -> None:
        if "://" in self.usage and _PLACE.fullmatch(self.usage) is None:
            raise SettingError(
                "usage", f"{self.usage!r} is none of s3://bucket[/prefix], a directory, 'off'"
            )
        _check_origin("usage-endpoint", self.usage_endpoint)
        if self.usage_endpoint and "://" not in self.usage:
            raise SettingError("usage-endpoint", "it is for usage in S3: --usage s3://bucket")

    def _check_cell(self) -> None:
        for field in fields(self) if self.cell != "dynamodb" else ():
            name = _OF_TABLES.get(field.name)
            if name and getattr(self, field.name) != field.default:
                raise SettingError(name, "it is for tables: --cell dynamodb")
        _check_origin("cell-endpoint", self.endpoint)
        named = (("table", "table", self.table), ("cell-name", "cell", self.own_cell))
        for name, kind, value in named:
            if _TABLE.fullmatch(value) is None:
                raise SettingError(name, f"{value!r} is no {kind}'s name: {_NAMES}")
        if not 1 <= self.connections <= _CONNECTIONS_MAX:
            raise SettingError(
                "connections", f"{self.connections} is not within 1 and {_CONNECTIONS_MAX}"
            )
        self._check_several()
        self._check_blobs()

    @property
    def cell_folders(self) -> tuple[Path, ...]:
        """Directories of several embedded cells, where a setting names them."""
        return tuple(Path(text.strip()) for text in self.cell_data.split(",") if text.strip())

    @property
    def own_cell(self) -> str:
        """The name of the cell in `table`, as definitions of queues have it."""
        return self.cell_name or self.table

    @property
    def cells_given_up(self) -> frozenset[str]:
        """Names of cells that are lost for good."""
        return frozenset(text.strip() for text in self.give_up.split(",") if text.strip())

    @property
    def further_tables(self) -> tuple[FurtherTable, ...]:
        """Cells on DynamoDB beside the first. Raises SettingError."""
        texts = self.cells_dynamodb.split(",") if self.cells_dynamodb else []
        return tuple(_further_table(text.strip(), self.region) for text in texts)

    @property
    def has_several(self) -> bool:
        """Whether there are several cells."""
        return self.cells > 1 or bool(self.cells_dynamodb)

    def _check_several(self) -> None:
        tables = self.further_tables
        if tables and self.cell != "dynamodb":
            raise SettingError("cells-dynamodb", "they are for --cell dynamodb")
        names = [self.own_cell, *(one.name for one in tables)]
        if len(set(names)) != len(names) or len(names) > REPLICATION_FACTOR_MAX:
            raise SettingError(
                "cells-dynamodb",
                f"{', '.join(names)} are not up to {REPLICATION_FACTOR_MAX} different names",
            )
        places = [(self.region, self.endpoint, self.table), *(one[1:] for one in tables)]
        if len(set(places)) != len(places):
            raise SettingError("cells-dynamodb", "a table is there under more than one name")
        if self.cells_given_up and not self.has_several:
            raise SettingError("give-up", "it is for services of several cells: --cells")
        if not 1 <= self.cells <= REPLICATION_FACTOR_MAX:
            raise SettingError(
                "cells", f"{self.cells} is not within 1 and {REPLICATION_FACTOR_MAX}"
            )
        if self.cells > 1 and self.cell != "embedded":
            raise SettingError("cells", f"of the kind {self.cell!r} there is one")
        if not self.cell_data:
            return
        folders = self.cell_folders
        if len(folders) != self.cells:
            raise SettingError(
                "cell-data",
                f"{len(folders)} directories are not one for each of {self.cells} cells",
            )
        if self.cells == 1:
            raise SettingError("cell-data", "the directory of one cell is --data")
        if len({folder.absolute() for folder in folders}) != len(folders):
            raise SettingError("cell-data", "a directory is there more than once")

    def _check_blobs(self) -> None:
        if self.blobs and self.cell == "embedded":
            raise SettingError("blobs", "the embedded cell keeps bodies of every size itself")
        if "://" in self.blobs and _PLACE.fullmatch(self.blobs) is None:
            raise SettingError(
                "blobs", f"{self.blobs!r} is neither s3://bucket[/prefix] nor a directory"
            )
        _check_origin("blobs-endpoint", self.blobs_endpoint)
        if self.blobs_endpoint and "://" not in self.blobs:
            raise SettingError("blobs-endpoint", "it is for blobs in S3: --blobs s3://bucket")


def read_cache_nodes(text: str) -> tuple[tuple[str, int], ...]:
    """Host and port of each node in a list with commas; "" names none. Raises SettingError."""
    return tuple(_cache_node(part) for part in text.split(",")) if text else ()


def _check_origin(setting: str, url: str) -> None:
    if url and not addresses.is_origin(url):
        raise SettingError(setting, f"{url!r} is not of the form {_ORIGIN}")


def _further_table(text: str, region: str) -> FurtherTable:
    """The cell of name=[region/][endpoint/]table; `region` where none is named."""
    found = _FURTHER.fullmatch(text)
    if found is None or (found["endpoint"] and not addresses.is_origin(found["endpoint"])):
        form = f"name=[region/][endpoint/]table, names of {_NAMES}"
        raise SettingError("cells-dynamodb", f"{text!r} is not of the form {form}")
    if found["region"] and not is_region(found["region"]):
        raise SettingError("cells-dynamodb", f"{found['region']!r} is no region's name")
    return FurtherTable(
        found["name"], found["region"] or region, found["endpoint"] or "", found["table"]
    )


def _cache_node(text: str) -> tuple[str, int]:
    """Host and port of host[:port]; brackets are around an address of IP version 6."""
    found = _CACHE_NODE.fullmatch(text.strip())
    port = int(found["port"] or _CACHE_PORT) if found is not None else 0
    if found is None or not 1 <= port <= _PORT_MAX:
        raise SettingError("metadata-cache", f"{text!r} is not of the form host[:port]")
    return found["address"] or found["host"], port
