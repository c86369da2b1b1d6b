"""One seed's universe as that of its queues is, with KMS keys that are disabled at times."""

from dataclasses import replace

from tests.simulation.fifo import universe as fifo
from tests.simulation.fifo.plan import make_fifo_plan
from tests.simulation.keys import oracle
from tests.simulation.keys.world import KeysWorld
from tests.simulation.plan import make_plan
from tests.simulation.universe import Outcome, live, story


def run(seed: int) -> Outcome:
    """Let the universe of a seed be, with standard queues, and judge it."""
    return live(make_plan(seed), story, oracle.check, KeysWorld)


def run_fifo(seed: int) -> Outcome:
    """Likewise with FIFO queues, of which front ends look behind all that does not open."""
    plan = make_fifo_plan(seed)
    bounds = {name: most for name, most in plan.bounds.items() if name != "SCAN_MESSAGES_MAX"}
    return fifo.let_be(replace(plan, bounds=bounds), oracle.check_fifo, KeysWorld)
