"""The service itself, put together: what answers requests over cells, whoever runs it.

The long-lived server and the functions of a deployment open their cells and keys each in its own
way; from there on they are the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from control_plane.accounts import Accounts
from control_plane.auto_creation import AutoCreatingEngine
from control_plane.message_moves import MessageMoves
from control_plane.message_moves_running import MoveRunner
from control_plane.metadata_cache.cached_cell import CachedCell
from control_plane.metadata_cache.entries import Entries
from control_plane.metadata_cache.nodes import CacheNodes
from control_plane.operations.account_catalog import account_operations
from control_plane.operations.administration import Administration, Record
from control_plane.operations.catalog import queue_operations
from control_plane.operations.cell_administration import CellAdministration
from control_plane.operations.cell_catalog import cell_operations
from control_plane.places.report import CellsControl
from control_plane.registry import Placing, Registry
from control_plane.sweep import sweep_dropped
from data_plane.bag.engine import Bag
from data_plane.engine import Engine
from data_plane.frontend.front_end import FrontEnd
from data_plane.frontend.served import Served
from data_plane.frontend.settings import FrontEndSettings
from data_plane.log.engine import Log
from data_plane.operations.catalog import extension_operations, message_operations
from data_plane.ports import Cell, Clock, Entropy, MasterKeys, Waits
from data_plane.stored.bodies import BodyStore, HeldSegments
from data_plane.stored.data_keys import DataKeys

OPERATOR: Final = "000000000000"
"""The account whose root administers the others, where no setting names another."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a service stands on: its stores, its keys, and what runs its coroutines.

    `cells` hold messages, by the names that definitions of queues have; `control` is the
    registry's, as the control plane uses it. `bodies` has what is too big for items of a cell.
    `cache_nodes` are those of the cache that front ends share, if there is one. Where there are
    several cells, `fifo_cells` are those of FIFO queues, `placing` says where new queues go, and
    `cells_control` is for who administers them; `segments` then has, by the names of `bodies`, all
    segments whose bodies lie there.
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
    whose root administers the others. A receive answers `answer_bytes_max` of messages, or one
    message (None: as many as were asked for). The rest is as in data_plane.settings.
    """

    verifies: bool
    operator: str = OPERATOR
    sixty_second_rules: bool = True
    auto_create_queues: bool = False
    answer_bytes_max: int | None = None
    front_end: FrontEndSettings = field(default_factory=FrontEndSettings)


class Service:
    """Registry, accounts, engines and the front end before them.

    `observe` is called once for each answer, `record` for each act of administration.
    """

    def __init__(
        self,
        ground: Ground,
        settings: ServiceSettings,
        observe: Callable[[Served], None],
        record: Record,
    ) -> None:
        self.cells = ground.cells
        self.clock = clock = ground.clock
        entropy, waits, control = ground.entropy, ground.waits, ground.control
        cached = ground.cached_control()
        self.registry = Registry(
            cached or control,
            tuple(ground.cells),
            clock,
            entropy,
            sixty_second_rules=settings.sixty_second_rules,
            secret=ground.registry_secret,
            recent=cached,
            placing=ground.placing,
        )
        data_keys = DataKeys(clock, entropy, waits, control, ground.master_keys)
        ports = (clock, entropy, waits, ground.bodies, self.registry, data_keys)
        room = settings.answer_bytes_max
        self._fifo_cells = ground.fifo_cells or ground.cells
        bag, log = Bag(ground.cells, *ports, room), Log(self._fifo_cells, *ports, room)
        self.engine = Engine(bag, log)
        expected = None
        if settings.auto_create_queues:
            self.engine = creating = AutoCreatingEngine(bag, log, self.registry, clock)
            expected = creating.expected_queue
        moves = MessageMoves(control, clock, entropy)
        self.move_runner = MoveRunner(moves, self.registry, self.engine, clock, entropy, waits)
        secret = ground.registry_secret
        self.accounts = Accounts(cached or control, clock, entropy, secret, cached)
        administration = Administration(self.accounts, settings.operator, settings.verifies, record)
        self.operations = (
            *message_operations(self.engine),
            *extension_operations(self.engine),
            *queue_operations(self.registry, self.engine, moves),
            *account_operations(administration),
            *cell_operations(CellAdministration(administration, ground.cells_control)),
        )
        known_accounts = self.accounts if settings.verifies else None
        self.front_end = FrontEnd(
            self.operations,
            self.registry,
            clock,
            entropy,
            settings.front_end,
            observe,
            expected,
            quotas=known_accounts,
            credentials=known_accounts,
        )

    async def sweep_dropped(self) -> int:
        """Remove some of what deleted queues left behind; how many items, 0 if there are none.

        Raises CellUnavailableError.
        """
        return await sweep_dropped(self.registry, self._fifo_cells, self.clock.now_us())
