"""What closed months mean for a run: which of them it corrects, and what is known of storage."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from glue_jobs import invoicing, stored_bytes
from glue_jobs.corrections import Gone, changed, gone_of
from glue_jobs.inputs import window_of
from glue_jobs.outputs import Pointer, pointers
from glue_jobs.places import Place
from glue_jobs.sealing import Places
from glue_jobs.stored_bytes import Samples, StoredHour
from glue_jobs.terms import Terms, terms_said


@dataclass(frozen=True, slots=True)
class LookedBack:
    """Closed periods that are corrected (`late`) or cannot be any more (`gone`).

    `priced` are the periods in which storage has a price, this one among them; `samples` what is
    known of it, and `kept_samples` what of that a run keeps.
    """

    late: Mapping[str, Pointer] = field(default_factory=dict)
    gone: Mapping[str, Gone] = field(default_factory=dict)
    priced: frozenset[str] = frozenset()
    samples: Samples = field(default_factory=Samples)
    kept_samples: bytes = b""

    def byte_hours(self, period: str) -> list[StoredHour]:
        """What was stored in a period, if it has a price."""
        if period not in self.priced:
            return []
        return stored_bytes.byte_hours(self.samples, window_of(period))


def correctable(
    closed: Sequence[Pointer], period: str, altered: Collection[str], late_periods: int
) -> list[Pointer]:
    """Closed periods of which this one has corrections, if there are any.

    None while one of them is not as it was written (`altered`): they say what was invoiced.
    """
    if any(its.period in altered for its in closed):
        return []
    if not closed or period != invoicing.next_period(closed[-1].period):
        return []
    oldest = invoicing.next_period(period, -late_periods)
    return [its for its in closed if its.period >= oldest]


def priced_of(out: Place, its: Sequence[Pointer], terms: Terms, period: str) -> frozenset[str]:
    """Which of these periods, and of the present one, have a price for storage."""
    before = {one.period for one in its if terms_said(out, one).storage_skus()}
    return frozenset(before | ({period} if terms.storage_skus() else set()))


def kept_samples_of(out: Place, runs: Sequence[Pointer], priced: Collection[str]) -> Samples:
    """What these runs keep of samples; nothing where storage has no price."""
    if not priced:
        return Samples()
    # The hour before a period is kept with the period before it.
    since = invoicing.next_period(min(priced), -1)
    return stored_bytes.kept(out, [its for its in runs if its.period >= since])


def look_back(
    session: SparkSession,
    places: Places,
    period: str,
    of: Sequence[Pointer],
    known: LookedBack,
) -> LookedBack:
    """What has changed of closed periods `of`; `known` says what storage has come to."""
    closed = [its for its in pointers(places.out) if its.closed]
    invoiced = kept_samples_of(places.out, closed, known.priced)
    other_files = changed(session, places.usage, of, closed)

    def has_changed(its: Pointer) -> bool:
        """By its files, or by what others say of what it stored."""
        if its.period in other_files:
            return True
        of_samples = stored_bytes.byte_hours(invoiced, window_of(its.period))
        return its.period in known.priced and known.byte_hours(its.period) != of_samples

    found = {its.period: its for its in of if has_changed(its)}
    gone = {
        name: its_gone
        for name, its in found.items()
        if (its_gone := gone_of(session, places, its, closed)).files
    }
    late = {its: found[its] for its in found if its not in gone}
    kept_of = known.priced & {period, *late}
    kept = stored_bytes.encode(known.samples.of(map(window_of, sorted(kept_of))))
    return LookedBack(late, gone, known.priced, known.samples, kept)
