"""What a seed means for a universe of a consumer group."""

from dataclasses import dataclass
from random import Random

from tests.simulation.plan import Surroundings
from tests.simulation.weather import choose_climate


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan(Surroundings):
    """A group of `members` over a stream of `shards`, which is split or merged so many times.

    `zombies` is how often a member stands still between what it read and its commit, and how
    often it goes on by what it knew.
    """

    members: int
    shards: int
    reshardings: int
    records: int
    session_s: int
    rebalance_s: int
    assignor: str
    zombies: float
    lasts_s: int

    @property
    def name(self) -> str:
        """What all randomness of the universe derives from."""
        return f"groups {self.seed}"


def make_group_plan(seed: int) -> GroupPlan:
    """The plan of a seed."""
    random = Random(f"{seed}/groups plan")
    climate = choose_climate(random)
    skew_us_max = random.choice((0, 50_000, 2_000_000))
    # Sessions that are no longer than clocks differ by would end all the time.
    sessions_s = (2, 5, 10) if skew_us_max < 1_000_000 else (10,)
    return GroupPlan(
        seed=seed,
        front_ends=random.choice((1, 2, 3)),
        cells=0,
        climate=climate,
        skew_us_max=skew_us_max,
        live_present=True,
        stamps=random.random() < 0.6,
        blob_threshold_bytes=None,
        bounds={},
        sequential=False,
        members=random.choice((1, 2, 3, 5, 8)),
        shards=random.choice((1, 2, 3, 5)),
        reshardings=random.choice((0, 1, 3)),
        records=random.choice((20, 60, 200)),
        session_s=random.choice(sessions_s),
        rebalance_s=random.choice((3, 10, 30)),
        assignor=random.choice(("sticky", "range")),
        zombies=random.choice((0.0, 0.1, 0.3)),
        lasts_s=random.choice((40, 80)),
    )
