"""The service itself, put together: what answers requests over cells, whoever runs it.

The long-lived server and the functions of a deployment open their cells and keys each in its own
way; from there on they are the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from control_plane.accounts import Accounts
from control_plane.auto_creation import AutoCreatingEngine
from control_plane.budgets import Budgets
from control_plane.consumer_groups.groups import consumer_groups
from control_plane.core.month_usage import TenantUsage
from control_plane.drop_turn import DropTurn
from control_plane.kinesis_queues import KinesisQueues
from control_plane.message_moves import MessageMoves, nobody_waits
from control_plane.message_moves_running import MoveRunner
from control_plane.metadata_cache.cached_cell import CachedCell
from control_plane.metadata_cache.entries import Entries
from control_plane.metadata_cache.nodes import CacheNodes
from control_plane.operations.account_catalog import account_operations
from control_plane.operations.administration import Administration, Record
from control_plane.operations.catalog import queue_operations
from control_plane.operations.cell_administration import CellAdministration
from control_plane.operations.cell_catalog import cell_operations
from control_plane.operations.usage_access import UsageAccess
from control_plane.operations.usage_catalog import usage_operations
from control_plane.places.report import CellsControl
from control_plane.registry import Placing, Registry, RoomForDefinitions
from control_plane.root_credentials import RootCredentials
from control_plane.stream_operations import paging
from control_plane.stream_operations.catalog import stream_operations
from control_plane.stream_operations.group_catalog import group_operations
from control_plane.stream_operations.stream_queue_catalog import stream_queue_operations
from control_plane.stream_upkeep import StreamUpkeep
from control_plane.streams import StreamRegistry
from control_plane.sweep import SWEPT_AFTER_US, Paid, Sweep
from data_plane.bag.engine import Bag
from data_plane.core.root_key import RootKey
from data_plane.engine import Engine
from data_plane.frontend.front_end import FrontEnd
from data_plane.frontend.making import Making
from data_plane.frontend.served import Served, Unobserved, raise_unobserved
from data_plane.frontend.settings import FrontEndSettings
from data_plane.frontend.storing import StorageUse, hold_streams_to_storage
from data_plane.log.engine import Log
from data_plane.operations.catalog import (
    extension_operations,
    message_operations,
    queue_record_operations,
    record_operations,
)
from data_plane.operations.shard_iterator import PURPOSE
from data_plane.operations.strict_streams import StrictStreams
from data_plane.ports import (
    AccountQuotas,
    Cell,
    Clock,
    Credentials,
    Entropy,
    MasterKeys,
    Waits,
)
from data_plane.protocol.kinesis import kinesis
from data_plane.protocol.operation import Operation, Permission
from data_plane.protocol.service import Service
from data_plane.protocol.sqs import sqs
from data_plane.stored.bodies import BodyStore, HeldSegments
from data_plane.stored.data_keys import DataKeys
from data_plane.streams.bounds import READ_BYTES_MAX
from data_plane.streams.engine import Streams

OPERATOR: Final = "000000000000"
"""The account whose root administers the others, where no setting names another."""


@dataclass(frozen=True, slots=True)
class ServicePorts:
    """What a service stands on: its stores, its keys, and what runs its coroutines.

    `cells` hold messages, by the names that definitions of queues have; `control` is the
    registry's, as the control plane uses it. `bodies` has what is too big for items of a cell.
    `cache_nodes` are those of the cache that front ends share, if there is one. Where there are
    several cells, `fifo_cells` are those of FIFO queues, `placing` says where new queues go, and
    `cells_control` is for who administers them; `segments` then has, by the names of `bodies`, all
    segments whose bodies lie there. After a queue was deleted or purged front ends may write to it
    for `written_after_us`. `drop_items_per_s` is how fast such items are dropped where that costs
    requests (None: it costs none; 0: what is purged is left to its time to live). `stored` knows
    what messages take, and `room_by` has accounts define what their quotas say. `machine` is the
    machine's clock, where `clock` is another one. `tenant_usage` knows what accounts use, and
    budgets may name `webhooks`, beginnings of URLs.
    """

    cells: Mapping[str, Cell]
    control: Cell
    bodies: Mapping[str, BodyStore]
    clock: Clock
    entropy: Entropy
    waits: Waits
    registry_secret: bytes = field(repr=False)
    master_keys: MasterKeys | None
    cache_nodes: CacheNodes | None = None
    fifo_cells: Mapping[str, Cell] | None = None
    placing: Placing | None = None
    cells_control: CellsControl | None = None
    segments: Mapping[str, HeldSegments] | None = None
    written_after_us: int = SWEPT_AFTER_US
    drop_items_per_s: int | None = None
    stored: StorageUse | None = None
    room_by: Callable[[AccountQuotas], RoomForDefinitions] | None = None
    machine: Clock | None = None
    tenant_usage: TenantUsage | None = None
    webhooks: Sequence[str] = ()

    def segments_of(self, name: str) -> HeldSegments:
        """Where the segments lie that have bodies under this name of `bodies`."""
        return self.cells[name] if self.segments is None else self.segments[name]

    def cached_control(self) -> CachedCell | None:
        """The registry's cell behind the shared cache; None where there is none."""
        if self.cache_nodes is None:
            return None
        entries = Entries(self.registry_secret)
        return CachedCell(self.control, self.cache_nodes, entries, self.clock, self.entropy)


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What an operator decides about a service, whoever runs it.

    With `verifies`, signatures count, policies decide and quotas hold; `operator` is the account
    whose root administers the others, with `root_key` if that is given. A receive answers
    `answer_bytes_max` of messages, or one message (None: as many as were asked for), a read of
    records `read_bytes_max`, or one record. Streams are as strict as AWS's where `strict_streams_s`
    says for how long one is CREATING or UPDATING. The rest is as in data_plane.settings.
    """

    verifies: bool
    operator: str = OPERATOR
    sixty_second_rules: bool = True
    auto_create_queues: bool = False
    answer_bytes_max: int | None = None
    read_bytes_max: int = READ_BYTES_MAX
    front_end: FrontEndSettings = field(default_factory=FrontEndSettings)
    root_key: RootKey | None = None
    strict_streams_s: float | None = None


class _Streams:
    """The streams of a service: their registry and engine, and the service that clients reach."""

    def __init__(  # noqa: PLR0913, PLR0917 - what is put together
        self,
        ground: ServicePorts,
        cached: CachedCell | None,
        cells: Mapping[str, Cell],
        data_keys: DataKeys,
        quotas: AccountQuotas | None,
        strict: StrictStreams | None,
        queues: Registry,
        read_bytes_max: int,
    ) -> None:
        clock, entropy, waits = ground.clock, ground.entropy, ground.waits
        self.engine = Streams(
            cells, clock, entropy, waits, ground.bodies, data_keys, read_bytes_max
        )
        self.registry = registry = StreamRegistry(
            cached or ground.control,
            tuple(ground.cells),
            clock,
            entropy,
            self.engine,
            secret=ground.registry_secret,
            recent=cached,
            placing=ground.placing,
            room=_definition_room(ground, quotas),
            settling_us=strict.settling_us if strict is not None else 0,
        )
        self.sources = self.engine.sources(registry)
        seal = registry.token_seal(PURPOSE)
        check_room = None
        if quotas is not None and ground.stored is not None:
            check_room = hold_streams_to_storage(quotas, ground.stored)
        records = record_operations(self.engine, registry, seal, waits, check_room, strict)
        self.groups = groups = consumer_groups(
            ground.control, registry, self.engine, clock, entropy, waits, quotas
        )
        self.upkeep = StreamUpkeep(registry, self.engine, groups.forgetting, clock)
        self.queues = KinesisQueues(cached or ground.control, queues, clock, entropy)
        self._lists = registry.token_seal(paging.PURPOSE)
        self._operations = (
            *stream_operations(registry, quotas, self.queues),
            *records,
            *group_operations(groups, self._lists),
        )
        self._waits = waits

    def serve(self, engine: Engine) -> Service:
        """What clients reach; the engine is that of queues, which read streams, too."""
        queues, registry = self.queues, self.registry
        operations = (
            *self._operations,
            *stream_queue_operations(queues, registry, engine, self._lists),
            *queue_record_operations(engine, queues, self._waits.in_turns),
        )

        async def policy_of(permission: Permission) -> str:
            kind = permission.name.partition("/")[0]
            asked = queues.policy_of if kind == "queue" else registry.policy_of
            return await asked(permission)

        self.service = kinesis(operations, policy_of)
        return self.service


class RunningService:
    """Registry, accounts, engines and the front end before them.

    `observe` is called once for each answer, `record` for each act of administration. `unobserved`
    is told where the former could not be. `moves_begun` is called when a message move task was
    started here, which nobody has to wait for.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what is put together, and who is told
        self,
        ground: ServicePorts,
        settings: ServiceSettings,
        observe: Callable[[Served], None],
        record: Record,
        unobserved: Unobserved = raise_unobserved,
        moves_begun: Callable[[], None] = nobody_waits,
    ) -> None:
        self.cells = ground.cells
        self.clock = clock = ground.clock
        entropy, waits, control = ground.entropy, ground.waits, ground.control
        cached = ground.cached_control()
        self.accounts = Accounts(cached or control, clock, entropy, ground.registry_secret, cached)
        known_accounts = self.accounts if settings.verifies else None
        self.registry = Registry(
            cached or control,
            tuple(ground.cells),
            clock,
            entropy,
            sixty_second_rules=settings.sixty_second_rules,
            secret=ground.registry_secret,
            recent=cached,
            placing=ground.placing,
            room=_definition_room(ground, known_accounts),
        )
        data_keys = DataKeys(clock, entropy, waits, control, ground.master_keys)
        ports = (clock, entropy, waits, ground.bodies, self.registry, data_keys)
        answer_bytes_max, strict = settings.answer_bytes_max, _strict_streams(settings, clock)
        fifo_cells = ground.fifo_cells or ground.cells
        bag = Bag(ground.cells, *ports, answer_bytes_max)
        self.streams = _Streams(
            *(ground, cached, fifo_cells, data_keys, known_accounts),
            *(strict, self.registry, settings.read_bytes_max),
        )
        log = Log(fifo_cells, *ports, answer_bytes_max, self.streams.sources, bag.store_copy)
        self.engine = Engine(bag, log)
        self.sweep = _sweep(ground, self.registry, self.engine)
        expected = None
        if settings.auto_create_queues:
            self.engine = creating = AutoCreatingEngine(bag, log, self.registry, clock)
            expected = creating.expected_queue
        moves = MessageMoves(control, clock, entropy, moves_begun)
        self.move_runner = MoveRunner(moves, self.registry, self.engine, clock, entropy, waits)
        administration = Administration(self.accounts, settings.operator, settings.verifies, record)
        self.budgets = Budgets(control, clock, entropy, ground.webhooks)
        self.operations = (
            *message_operations(self.engine, waits.in_turns),
            *extension_operations(self.engine),
            *queue_operations(self.registry, self.engine, moves, self.streams.registry),
            *_extensions(
                ground, administration, self.registry, self.streams.registry, self.budgets
            ),
        )
        self.front_end = FrontEnd(
            (sqs(self.operations), self.streams.serve(self.engine)),
            self.registry,
            clock,
            entropy,
            settings.front_end,
            observe,
            expected,
            quotas=known_accounts,
            credentials=_credentials(known_accounts, clock, settings),
            stored=ground.stored,
            unobserved=unobserved,
            in_turns=waits.in_turns,
            machine=ground.machine,
            making=Making(clock, waits),
        )


def _definition_room(
    ground: ServicePorts, quotas: AccountQuotas | None
) -> RoomForDefinitions | None:
    return ground.room_by(quotas) if quotas is not None and ground.room_by is not None else None


def _strict_streams(settings: ServiceSettings, clock: Clock) -> StrictStreams | None:
    settling_s = settings.strict_streams_s
    return None if settling_s is None else StrictStreams(clock, round(settling_s * 1_000_000))


def _credentials(
    accounts: Accounts | None, clock: Clock, settings: ServiceSettings
) -> Credentials | None:
    """Who may call: with the access keys of accounts, and with a root key that is given."""
    if accounts is None or settings.root_key is None:
        return accounts
    return RootCredentials(accounts, clock, settings.operator, settings.root_key)


def _extensions(
    ground: ServicePorts,
    administration: Administration,
    registry: Registry,
    streams: StreamRegistry,
    budgets: Budgets,
) -> tuple[Operation, ...]:
    usage = UsageAccess(administration, ground.tenant_usage, budgets)
    return (
        *account_operations(administration),
        *cell_operations(CellAdministration(administration, ground.cells_control), registry),
        *usage_operations(usage, registry, streams),
    )


def _sweep(ground: ServicePorts, registry: Registry, engine: Engine) -> Sweep:
    paid, pace = None, ground.drop_items_per_s
    if pace is not None:
        paid = Paid(pace, DropTurn(ground.control, ground.clock, ground.entropy))
    return Sweep(
        registry,
        ground.cells,
        ground.fifo_cells or ground.cells,
        ground.clock,
        ground.waits,
        after_us=ground.written_after_us,
        paid=paid,
        restamp=engine.restamp,
    )
