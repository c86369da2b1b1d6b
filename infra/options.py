"""What an operator decides about a stage, a whole deployment of its own: checked, then only read.

stage_file.py reads it from a TOML file; `stages/` has some to start from.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from infra.monitoring_options import MonitoringOptions
from infra.option_checks import ACCOUNT, QUEUE, OptionError, match, once, one_of, within

RUNTIMES: Final = {"python3.11": (3, 11), "python3.12": (3, 12), "python3.13": (3, 13)}
ARCHITECTURES: Final = ("arm64", "x86_64")
LOG_LEVELS: Final = ("error", "warning", "info")
CACHE_LAYOUTS: Final = ("sharded", "whole-copy")
LOG_DAYS: Final = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 3653)
"""For how long CloudWatch can keep logs."""

_STAGE: Final = re.compile(r"[a-z][a-z0-9-]{0,19}")
_REGION: Final = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]")
_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_KEY: Final = re.compile(r"arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+")
_NODE: Final = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
_DAYS_OF_MONTH_MAX: Final = 31
_ORIGIN: Final = re.compile(r"https?://[A-Za-z0-9._-]{1,253}(:[0-9]{1,5})?")
_BASE_URL: Final = re.compile(_ORIGIN.pattern + r"(/[A-Za-z0-9_~.-]+)*")
_LABEL: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_HOST: Final = re.compile(rf"(?=.{{4,253}}\Z){_LABEL}(\.{_LABEL})+")
_CERTIFICATE: Final = re.compile(r"arn:[a-z-]+:acm:[a-z0-9-]+:[0-9]{12}:certificate/[A-Za-z0-9-]+")
_OBJECT: Final = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
_ZONE: Final = re.compile(r"Z[A-Z0-9]{3,31}")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_CALLER: Final = re.compile(rf"{ACCOUNT.pattern}(/({QUEUE.pattern}))?")
FAILOVERS: Final = ("primary", "secondary")
CHECK_REGIONS_MIN: Final = 3
CELLS_MAX: Final = 9


@dataclass(frozen=True, slots=True)
class StateOptions:
    """What is kept: messages, definitions, keys, usage records.

    `table` is the cell's name; definitions of queues name it, so it is never to be changed. `cells`
    are further tables, with which it has copies of queues; others may be added behind them. With
    `keeps`, nothing that holds data goes with its stack, and stacks and tables refuse to be
    deleted. Usage records are removed after `usage_days`.

    Where the cell's table was lost, and restored under another name, that is `restored_table`, and
    `restored_stream` the ARN of its stream: the stage uses it, and does not make or change it.

    DynamoDB throttles what is beyond `read_units_per_s_max` and `write_units_per_s_max` of a table
    (0: nothing is), which bounds what a table can cost.
    """

    table: str = "tidegate"
    cells: tuple[str, ...] = ()
    keeps: bool = True
    usage_days: int = 430
    read_units_per_s_max: int = 8000
    write_units_per_s_max: int = 4000
    restored_table: str = ""
    restored_stream: str = ""

    def __post_init__(self) -> None:
        match("table", self.table, _TABLE, "no table's name: 3 to 255 of a-z A-Z 0-9 _ . -")
        for name in self.cells:
            match("cells", name, _TABLE, "no table's name: 3 to 255 of a-z A-Z 0-9 _ . -")
        if self.restored_table or self.restored_stream:
            match("restored_table", self.restored_table, _TABLE, "no table's name")
            if f":table/{self.restored_table}/stream/" not in self.restored_stream:
                raise OptionError("restored_stream", "it is the ARN of the restored_table's stream")
        once("cells", [self.own_table, *self.cells])
        if len(self.cells) >= CELLS_MAX:
            raise OptionError("cells", f"{len(self.cells) + 1} cells are more than {CELLS_MAX}")
        within("usage_days", self.usage_days, 1, 3653)
        within("read_units_per_s_max", self.read_units_per_s_max, 0, 10_000_000)
        within("write_units_per_s_max", self.write_units_per_s_max, 0, 10_000_000)

    @property
    def own_table(self) -> str:
        """The table that the cell lies in."""
        return self.restored_table or self.table


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The doors, and the functions behind them.

    There is a `rest_api` (API Gateway), a `function_url`, or both. All functions have the same
    `runtime` and `architecture`; `memory_mb` (CPU comes with it), `timeout_s` and
    `reserved_concurrency` (0: what the account has) are those of each door. API Gateway refuses
    what is beyond `requests_per_s`, after a burst of `requests_burst`.

    `operator` is the account whose root administers the others; `base_url` stands before account
    and name in queue URLs ("": what the caller used); long polls end after `long_poll_s_max`
    seconds at the latest. `queue_keys` are ARNs of the KMS keys that queues may name. `endpoint` is
    where an emulator serves AWS's APIs ("": AWS). With `gateway_account_role` the stack gives API
    Gateway the right to write logs, a setting of the account in the region, which may have it.
    With `tracing` functions and the REST API send traces to X-Ray, which bills them.
    `metadata_cache` names nodes that speak memcached's protocol, which functions reach as they are;
    with `metadata_cache_tls` over TLS, with certificates of public authorities, as ElastiCache's.
    In a test bed streams are as strict as AWS's, and CREATING or UPDATING for `strict_streams_s`
    (-1: they are not strict).
    """

    rest_api: bool = True
    function_url: bool = False
    runtime: str = "python3.13"
    architecture: str = "arm64"
    memory_mb: int = 1769
    timeout_s: int = 29
    reserved_concurrency: int = 100
    requests_per_s: int = 1000
    requests_burst: int = 2000
    operator: str = "000000000000"
    base_url: str = ""
    long_poll_s_max: int = 20
    log_level: str = "warning"
    log_days: int = 30
    queue_keys: tuple[str, ...] = ()
    endpoint: str = ""
    gateway_account_role: bool = True
    tracing: bool = False
    metadata_cache: tuple[str, ...] = ()
    metadata_cache_layout: str = "sharded"
    metadata_cache_tls: bool = False
    strict_streams_s: int = -1

    def __post_init__(self) -> None:
        for node in self.metadata_cache:
            match("metadata_cache", node, _NODE, "not of the form host[:port]")
        once("metadata_cache", list(self.metadata_cache))
        one_of("metadata_cache_layout", self.metadata_cache_layout, CACHE_LAYOUTS)
        if self.metadata_cache_tls and not self.metadata_cache:
            raise OptionError("metadata_cache_tls", "it is for nodes in metadata_cache")
        if not self.rest_api and not self.function_url:
            raise OptionError("rest_api", "without it there must be a function_url")
        one_of("runtime", self.runtime, tuple(RUNTIMES))
        one_of("architecture", self.architecture, ARCHITECTURES)
        within("memory_mb", self.memory_mb, 128, 10_240)
        # API Gateway waits for 29 s.
        within("timeout_s", self.timeout_s, 1, 29 if self.rest_api else 900)
        within("reserved_concurrency", self.reserved_concurrency, 0, 100_000)
        within("requests_per_s", self.requests_per_s, 1, 1_000_000)
        within("requests_burst", self.requests_burst, 1, 1_000_000)
        match("operator", self.operator, ACCOUNT, "no account id of 12 digits")
        within("long_poll_s_max", self.long_poll_s_max, 0, 20)
        within("strict_streams_s", self.strict_streams_s, -1, 3_600)
        one_of("log_level", self.log_level, LOG_LEVELS)
        one_of("log_days", self.log_days, LOG_DAYS)
        for key in self.queue_keys:
            match("queue_keys", key, _KEY, "no ARN of a KMS key")
        if self.base_url:
            match("base_url", self.base_url, _BASE_URL, "not of the form https://host[/path]")
        if self.endpoint:
            match("endpoint", self.endpoint, _ORIGIN, "not of the form http(s)://host[:port]")


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster manager's state machines, and the function that does their tasks.

    Every `period_minutes` one looks whether cells, where there are several, message move tasks or
    what deleted queues left want anything, and starts the other if so; every `sweep_hours` bodies
    are looked for that nothing names any more. A cell that joins a group gets its copies after
    `grace_s`, when no request by an older map is on its way: less is for emulators. `drop_pace`
    items a second are deleted from a table after a purge; 0 leaves them to TTL, which costs less
    (docs/cost.md).
    """

    grace_s: int = 600
    drop_pace: int = 0
    period_minutes: int = 1
    sweep_hours: int = 6
    memory_mb: int = 512
    timeout_s: int = 900

    def __post_init__(self) -> None:
        within("grace_s", self.grace_s, 0, 86_400)
        within("drop_pace", self.drop_pace, 0, 1_000)
        within("period_minutes", self.period_minutes, 1, 60)
        within("sweep_hours", self.sweep_hours, 1, 168)
        within("memory_mb", self.memory_mb, 128, 10_240)
        within("timeout_s", self.timeout_s, 10, 900)


@dataclass(frozen=True, slots=True)
class NameOptions:
    """A host name of the REST API, meant for some of its callers.

    `certificate` (the ARN of one of ACM in the stage's region) covers `host`. With a `zone` (the id
    of a hosted zone of Route 53) the name gets a record there. Where stages in several regions have
    the same host, each has its part of the answers, while it is well: by `weight`, or as `failover`
    "primary" or "secondary". The `callers` are accounts, and queues as "account/queue"; a name
    without any is for all others. Nothing holds a caller to it: all names of a stage lead to the
    same service, until the record of one leads to another.
    """

    host: str
    certificate: str
    zone: str = ""
    weight: int | None = None
    failover: str = ""
    callers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        match("host", self.host, _HOST, "no host name of at least two parts, in lower case")
        match("certificate", self.certificate, _CERTIFICATE, "no ARN of a certificate of ACM")
        if self.zone:
            match("zone", self.zone, _ZONE, "no id of a hosted zone")
        if self.weight is not None:
            within("weight", self.weight, 0, 255)
        if self.failover:
            one_of("failover", self.failover, FAILOVERS)
        if self.failover and self.weight is not None:
            raise OptionError("failover", "a name has this or a weight")
        if self.is_one_of_several and not self.zone:
            raise OptionError("zone", "without it there is no record to take part in")
        for caller in self.callers:
            match("callers", caller, _CALLER, "neither an account id nor account/queue")

    @property
    def is_one_of_several(self) -> bool:
        """Whether other stages have records of the same name."""
        return self.weight is not None or bool(self.failover)

    @property
    def region(self) -> str:
        """That of the certificate, where the name has to be."""
        return self.certificate.split(":")[3]


@dataclass(frozen=True, slots=True)
class NamesOptions:
    """The names of a stage, and how Route 53 checks whether it is well.

    It asks `check_path` of the REST API every `check_every_s` (10 or 30) from each of
    `check_regions`, and takes the stage for ill after `check_failures` in a row.
    """

    hosts: tuple[NameOptions, ...] = ()
    check_path: str = "/health"
    check_every_s: int = 30
    check_failures: int = 3
    check_regions: tuple[str, ...] = ("us-east-1", "us-west-2", "eu-west-1")

    def __post_init__(self) -> None:
        match("check_path", self.check_path, re.compile(r"/[a-z0-9/_-]*"), "no path")
        one_of("check_every_s", self.check_every_s, (10, 30))
        within("check_failures", self.check_failures, 1, 10)
        if len(set(self.check_regions)) < CHECK_REGIONS_MIN:
            raise OptionError("check_regions", f"Route 53 wants {CHECK_REGIONS_MIN} at least")
        for region in self.check_regions:
            match("check_regions", region, _REGION, "no region's name")
        once("hosts", [name.host for name in self.hosts])
        once("hosts", [caller for name in self.hosts for caller in name.callers or ("",)])
        if len({name.region for name in self.hosts}) > 1:
            raise OptionError("hosts", "their certificates are in several regions")


@dataclass(frozen=True, slots=True)
class AnchorOptions:
    """Where heads of digests are kept that nobody of the stage's account can change.

    That is a `bucket` ("": nowhere). Where `account` is given the app has a stack for it, to be
    deployed with that account's credentials: object lock keeps each head for `days`, against its
    own root too. Otherwise the operator has made the bucket.
    """

    bucket: str = ""
    account: str = ""
    region: str = ""
    days: int = 3653

    def __post_init__(self) -> None:
        if self.bucket:
            match("bucket", self.bucket, _BUCKET, "no bucket's name")
        elif self.account:
            raise OptionError("bucket", "the account needs a name for it")
        if self.account:
            match("account", self.account, ACCOUNT, "no account id of 12 digits")
            match("region", self.region, _REGION, "no region's name")
        within("days", self.days, 1, 36_500)


@dataclass(frozen=True, slots=True)
class AnalyticsOptions:
    """Bills and audits, made by Spark jobs that Glue runs, if there are to be `bills`, or `audits`.

    Every `every_hours` hours the present month is billed with `workers` (G.1X), and each day the
    month before, which becomes final from the `close_day` of the month on, once nothing of it is in
    doubt. What comes later is corrected for `late_periods` months. `accounts`, `customers` and
    `prices` are names of objects below `bills/` in the bucket of usage ("": every account, each
    pays for itself, Tidegate's own prices). A closed month is corrected as long as all records are
    there that it was invoiced from: so for less, where `usage_days` are fewer.

    With `audits` tables are exported every hour and audited each day, and all in the bucket of
    usage is chained by a signed digest every hour, of which the `anchor` keeps the head.
    """

    bills: bool = False
    audits: bool = False
    every_hours: int = 1
    workers: int = 2
    timeout_minutes: int = 120
    close_day: int = 4
    late_periods: int = 13
    accounts: str = ""
    customers: str = ""
    prices: str = ""
    anchor: AnchorOptions = field(default_factory=AnchorOptions)

    def __post_init__(self) -> None:
        within("every_hours", self.every_hours, 1, 23)
        within("workers", self.workers, 2, 299)
        within("timeout_minutes", self.timeout_minutes, 1, 2880)
        within("close_day", self.close_day, 2, 28)
        within("late_periods", self.late_periods, 0, 120)
        for option in ("accounts", "customers", "prices"):
            if value := getattr(self, option):
                match(option, value, _OBJECT, "no name of an object")


@dataclass(frozen=True, slots=True)
class StageOptions:
    """A stage. Raises OptionError for a wrong value.

    `account` and `region` say where it is ("": where the credentials of the command line are). An
    `emulator` is given what it can do, and no more.
    """

    name: str
    account: str = ""
    region: str = ""
    emulator: bool = False
    state: StateOptions = field(default_factory=StateOptions)
    service: ServiceOptions = field(default_factory=ServiceOptions)
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    monitoring: MonitoringOptions = field(default_factory=MonitoringOptions)
    names: NamesOptions = field(default_factory=NamesOptions)
    analytics: AnalyticsOptions = field(default_factory=AnalyticsOptions)

    def __post_init__(self) -> None:
        match("name", self.name, _STAGE, "not 1 to 20 of a-z 0-9 -, beginning with a letter")
        if self.account:
            match("account", self.account, ACCOUNT, "no account id of 12 digits")
        if self.region:
            match("region", self.region, _REGION, "no region's name")
        if self.service.endpoint and not self.emulator:
            raise OptionError("service.endpoint", "it is for an emulator")
        kept, needed = self.state.usage_days, _DAYS_OF_MONTH_MAX + self.analytics.close_day
        if self.analytics.bills and kept < needed:
            told = f"{kept}, fewer than the {needed} after which a month is closed"
            raise OptionError("state.usage_days", told)
        if self.analytics.anchor.account:
            self._check_anchor()
        if self.names.hosts:
            self._check_names()

    def _check_anchor(self) -> None:
        if not self.account:
            raise OptionError("account", "the anchor's account has to know that of the stage")
        if self.analytics.anchor.account == self.account:
            told = "it is the stage's own, of which editors could change the anchor"
            raise OptionError("analytics.anchor.account", told)

    def _check_names(self) -> None:
        if not self.service.rest_api:
            raise OptionError("names", "they lead to the rest_api; function URLs have none")
        if self.service.base_url:
            raise OptionError("service.base_url", "queue URLs have the name that the caller used")
        if self.region and self.names.hosts[0].region != self.region:
            raise OptionError("names", f"their certificates are not in {self.region}")
