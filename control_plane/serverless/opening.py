"""What a sandbox keeps from call to call, opened when it starts: cell, bodies, keys, the service.

Nothing is made here that a deployment makes: a table, bucket or key that is missing, or of which
this function may know nothing, ends the start. The requests that a start needs overlap.
"""

from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from control_plane.core.item_field import UnknownItemFormatError
from control_plane.metadata_cache.nodes import CacheNodes
from control_plane.places.group_bodies import BodiesOfGroups
from control_plane.places.tables import TablesRefusedError, check_told, why_no_registry
from control_plane.registry_secret import UnreadableSecretError, read_or_make
from control_plane.serverless.clock import InvocationClock
from control_plane.serverless.logs import FunctionLog
from control_plane.serverless.settings import PREFIX, CellTable, FunctionSettings, VariableError
from control_plane.serverless.several import SeveralTables
from control_plane.service import RunningService, ServicePorts, ServiceSettings
from control_plane.stored_on_tables import held_on_tables
from data_plane.aws_sessions import new_session
from data_plane.blobs import buckets
from data_plane.blobs.place import BlobsOpenError, S3Place, place_of
from data_plane.blobs.s3 import S3Blobs
from data_plane.core.circuit_breaker import CircuitState
from data_plane.core.limits import MESSAGE_SIZE_BYTES_MAX
from data_plane.dynamodb.cell import DEADLINE_S, DynamoCell
from data_plane.dynamodb.opening import OpenError, connect
from data_plane.frontend.settings import FrontEndSettings
from data_plane.http.observers import Observers
from data_plane.keys import kms
from data_plane.keys.kms import KmsKeys
from data_plane.ports import CellUnavailableError, Entropy, MasterKeysError, Offload
from data_plane.runtime.blocking import BlockingDriver, BlockingWaits
from data_plane.runtime.guard import Guard, GuardedOffload
from data_plane.settings import read_cache_nodes
from data_plane.stored.binding import MissingBlobsError, confirm, read_binding
from data_plane.stored.bodies import BodyStore
from data_plane.stored.bounds import BLOB_THRESHOLD_BYTES
from data_plane.system import SystemEntropy, sleep
from data_plane.usage.place import UsagePlace

T = TypeVar("T")

_THREADS_MAX: Final = 16
"""Requests to stores that one call may have under way: those of a receive from many blocks."""
ANSWER_BYTES_MAX: Final = MESSAGE_SIZE_BYTES_MAX
"""Of messages in one answer. Lambda takes results of 6 MB, in which a character that XML or JSON
escapes becomes up to six; so the greatest message passes, and no more of them."""

_KMS_CONNECTIONS: Final = 4
_WHOLE_ARN: Final = "arn:"
_ALIAS: Final = ":alias/"


@dataclass(frozen=True, slots=True)
class Opened:
    """A service over DynamoDB, S3 and KMS, and what runs its coroutines: one call at a time.

    `usage` is where marks of usage go, if the settings say so.
    """

    settings: FunctionSettings
    ground: ServicePorts
    service: RunningService
    clock: InvocationClock
    driver: BlockingDriver
    log: FunctionLog
    several: SeveralTables | None = None
    usage: UsagePlace | None = None

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, with all that it starts; what it returns or raises."""
        return self.driver.run(call)


class _Drivers:
    """The driver and its offloads, one for each use of each dependency, each behind a guard.

    Clients of the one botocore `session` read its files once.
    """

    def __init__(self, clock: InvocationClock, log: FunctionLog) -> None:
        self.clock = clock
        self.driver = BlockingDriver(clock, sleep, threads_max=_THREADS_MAX)
        self.waits = BlockingWaits(self.driver)
        self.session = new_session()
        self._log = log
        self._s3: Any = None

    def offload(self, name: str) -> Offload:
        return self.guarded(Guard(name, self.clock, self.tell))

    def guarded(self, guard: Guard) -> Offload:
        return GuardedOffload(self.driver.offload, guard)

    def s3(self, place: S3Place) -> Any:
        """The client of all places in S3: they have one region. Raises BlobsOpenError."""
        if self._s3 is None:
            self._s3 = buckets.connect(place, connections_max=_THREADS_MAX, session=self.session)
        return self._s3

    def tell(self, name: str, state: CircuitState) -> None:
        level = "warning" if state is CircuitState.OPEN else "info"
        self._log.event(level, "circuit breaker", of=name, state=state.name.lower())


def open_service(
    settings: FunctionSettings,
    clock: InvocationClock,
    log: FunctionLog,
    observers: Observers,
) -> Opened:
    """Open what the settings name; `observers` hear of each answer and act.

    Raises VariableError, which names the variable to look at.
    """
    drivers = _Drivers(clock, log)
    entropy = SystemEntropy()
    own = CellTable(settings.own_cell, settings.region, settings.table)
    cell = _cell(settings, own, drivers)
    control = cell.through(drivers.offload(f"{settings.table}/definitions"))

    several = _several(settings, cell, control, drivers, entropy) if settings.cells else None

    async def ground() -> ServicePorts:
        bodies, (keys, secret), _ = await _all(
            drivers.waits,
            _open_bodies(settings, control, drivers, entropy),
            _open_keys(settings, control, drivers, entropy),
            _check_tables(settings, control, drivers, entropy),
        )
        made = ServicePorts(
            cells={own.name: cell},
            control=control,
            bodies={own.name: bodies},
            clock=clock,
            entropy=entropy,
            waits=drivers.waits,
            registry_secret=secret,
            master_keys=keys,
            cache_nodes=_cache_nodes(settings, drivers, entropy),
            drop_items_per_s=settings.drop_items_per_s,
        )
        return made if several is None else await _on_several(made, several, own.name)

    opened = held_on_tables(drivers.driver.run(ground()), lambda: service)
    told = (observers.served, observers.record, observers.failed)
    service = RunningService(opened, _service_settings(settings), *told)
    usage = _usage_place(settings, drivers) if settings.usage else None
    return Opened(settings, opened, service, clock, drivers.driver, log, several, usage)


def _service_settings(settings: FunctionSettings) -> ServiceSettings:
    return ServiceSettings(
        verifies=True,
        operator=settings.account,
        answer_bytes_max=ANSWER_BYTES_MAX,
        read_bytes_max=ANSWER_BYTES_MAX,
        strict_streams_s=settings.strict_streams_s,
        front_end=FrontEndSettings(
            default_account=settings.account,
            default_region=settings.region,
            base_url=settings.base_url,
            long_poll_s_max=settings.long_poll_s_max,
        ),
    )


async def _all(waits: BlockingWaits, *calls: Awaitable[Any]) -> Any:
    """What all answer, side by side; raises what the first that failed raised."""
    outcomes = await waits.all_of(calls)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return outcomes


async def _check_tables(
    settings: FunctionSettings, control: DynamoCell, drivers: _Drivers, entropy: Entropy
) -> None:
    """Raise VariableError where the table has no registry, or others that are not named queues."""
    told = settings.own_cell, *(one.name for one in settings.cells)
    try:
        if reason := await why_no_registry(control, settings.table):
            raise VariableError(PREFIX + "TABLE", reason)
        await check_told(control, told, drivers.clock, entropy)
    except CellUnavailableError as error:
        raise _wrong("TABLE", error) from error
    except (TablesRefusedError, UnknownItemFormatError) as error:
        raise _wrong("CELLS", error) from error


def _several(
    settings: FunctionSettings,
    cell: DynamoCell,
    control: DynamoCell,
    drivers: _Drivers,
    entropy: Entropy,
) -> SeveralTables:
    own = CellTable(settings.own_cell, settings.region, settings.table)
    cells = {
        own.name: cell,
        **{one.name: _cell(settings, one, drivers) for one in settings.cells},
    }
    addresses = {
        one.name: {"endpoint": settings.endpoint, "region": one.region, "table": one.table}
        for one in (own, *settings.cells)
    }
    ports = (drivers.clock, entropy, drivers.waits)
    return SeveralTables(own.name, cells, addresses, control, *ports)


async def _on_several(one: ServicePorts, several: SeveralTables, own: str) -> ServicePorts:
    """The ground of a service whose queues lie in groups; cells that do not answer do later.

    From its first answer on a cell knows its store's time. Raises VariableError where one is
    another service's, or not as it was.
    """
    try:
        await several.judge()
    except CellUnavailableError as error:
        raise _wrong("TABLE", error) from error
    except (TablesRefusedError, UnknownItemFormatError) as error:
        raise _wrong("CELLS", error) from error
    bodies = one.bodies[own]
    return replace(
        one,
        cells=several.standard,
        fifo_cells=several.fifo,
        placing=several.placing,
        bodies=BodiesOfGroups(own, bodies),
        segments={own: several.segments(several.cells[own])},
    )


def _cell(settings: FunctionSettings, one: CellTable, drivers: _Drivers) -> DynamoCell:
    try:
        client = connect(
            settings.endpoint,
            one.region,
            connections_max=_THREADS_MAX,
            session=drivers.session,
        )
    except OpenError as error:
        raise _wrong("TABLE", error) from error
    return DynamoCell(
        client,
        one.table,
        drivers.clock,
        drivers.offload(f"{one.name}/messages"),
        deadline_s=DEADLINE_S,
        # Not a clock that may have stood still while the sandbox was frozen.
        monotonic_us=drivers.clock.now_us,
    )


def _cache_nodes(
    settings: FunctionSettings, drivers: _Drivers, entropy: Entropy
) -> CacheNodes | None:
    """The nodes of the cache that front ends share; None where there is none.

    Raises VariableError.
    """
    addresses = read_cache_nodes(settings.metadata_cache)
    if not addresses:
        return None
    # A start that needs no client of memcached does not wait until one is imported.
    from control_plane.metadata_cache import opening  # noqa: PLC0415
    from control_plane.metadata_cache.memcached import CacheTlsError, tls_context  # noqa: PLC0415

    ports = opening.CachePorts(drivers.clock, entropy, drivers.waits, drivers.tell)
    try:
        tls = tls_context(settings.metadata_cache_tls)
    except CacheTlsError as error:
        raise _wrong("METADATA_CACHE_TLS", error) from error
    cache = opening.CacheSettings(addresses, settings.metadata_cache_layout, tls)
    return opening.open_cache(cache, ports, drivers.guarded).nodes


async def _open_bodies(
    settings: FunctionSettings, cell: DynamoCell, drivers: _Drivers, entropy: Entropy
) -> BodyStore:
    """The place of the cell's bodies. Raises VariableError."""
    try:
        binding = await read_binding(cell, entropy)
    except CellUnavailableError as error:
        raise _wrong("TABLE", error) from error
    place = place_of(
        settings.blobs,
        f"{settings.own_cell}-{binding.id}",
        endpoint=settings.endpoint,
        region=settings.region,
    )
    if not isinstance(place, S3Place):
        raise VariableError(PREFIX + "BLOBS", f"{place} is no place in S3")
    try:
        client = drivers.s3(place)
        offload = drivers.offload(f"{settings.table}/bodies")
        blobs = S3Blobs(client, place.bucket, place.prefix, drivers.clock, offload)
        await confirm(cell, blobs, binding)
    except (BlobsOpenError, CellUnavailableError) as error:
        raise _wrong("BLOBS", error) from error
    except MissingBlobsError as error:
        raise VariableError(
            PREFIX + "BLOBS", f"the bodies of the table {settings.table} are not in {place}"
        ) from error
    return BodyStore(blobs, BLOB_THRESHOLD_BYTES)


def _usage_place(settings: FunctionSettings, drivers: _Drivers) -> UsagePlace:
    """The place of usage, which nobody looks at yet: an answer does not depend on it."""
    place = settings.usage_place
    offload = drivers.offload("usage")
    blobs = S3Blobs(drivers.s3(place), place.bucket, place.prefix, drivers.clock, offload)
    return UsagePlace(blobs, offload)


async def _open_keys(
    settings: FunctionSettings, cell: DynamoCell, drivers: _Drivers, entropy: Entropy
) -> tuple[KmsKeys, bytes]:
    """The master keys, and the registry's secret, which is made if there is none.

    Raises VariableError.
    """
    try:
        client = kms.connect(
            settings.endpoint,
            settings.region,
            connections_max=_KMS_CONNECTIONS,
            session=drivers.session,
        )
        keys = await _kms_keys(client, settings.kms_key, drivers.offload("kms"))
    except (MasterKeysError, CellUnavailableError) as error:
        raise _wrong("KMS_KEY", error) from error
    try:
        secret = await read_or_make(cell, keys, drivers.clock, entropy)
    except MasterKeysError as error:
        raise _wrong("KMS_KEY", error) from error
    except (CellUnavailableError, UnreadableSecretError) as error:
        raise _wrong("TABLE", error) from error
    return keys, secret


async def _kms_keys(client: Any, key: str, offload: Offload) -> KmsKeys:
    """The keys of KMS; the ARN of a key needs no look-up, which other names of it do."""
    if key.startswith(_WHOLE_ARN) and _ALIAS not in key:
        return KmsKeys(client, key, offload)
    return await kms.open_kms(client, key, offload)


def _wrong(name: str, error: Exception) -> VariableError:
    """What a start fails of, in one line."""
    return VariableError(PREFIX + name, " ".join(str(error).split()))
