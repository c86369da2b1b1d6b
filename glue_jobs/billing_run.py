"""A run of the job `bill`: the steps of it, in their order."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from glue_jobs import VERSION, billing, invoicing, stored_bytes, stored_sends, usage
from glue_jobs.arguments import JobError
from glue_jobs.billing_options import Invoiced, Options, Summary, accounts_of
from glue_jobs.exports import Export
from glue_jobs.findings import findings, idle_fair_queues, unmetered
from glue_jobs.focus import KEYS as FOCUS_KEYS
from glue_jobs.focus import focus
from glue_jobs.identities import STORAGE, Gap, Reached, expired
from glue_jobs.inputs import (
    Inputs,
    counted_in,
    files_of,
    listing_of,
    look_at,
    manifest_of,
    put_aside,
    read_reached,
    recognised,
    window_of,
)
from glue_jobs.outputs import (
    Pointer,
    Written,
    canonical,
    point,
    pointer_of,
    pointers,
    put_once,
    write_table,
)
from glue_jobs.places import place_of
from glue_jobs.price_book import PriceBook, book_for, read_book
from glue_jobs.progress import Progress
from glue_jobs.statement_pages import Page, put_statements
from glue_jobs.storage_samples import samples_of
from glue_jobs.stored_bytes import Samples, StoredHour
from glue_jobs.stored_sends import Stored

_RUN_CHARS: Final = 16
_MANIFEST: Final = "files.json"


@dataclass(frozen=True, slots=True)
class Gone:
    """How many files that a closed period was invoiced from are gone, and how many came since."""

    files: int
    new: int


@dataclass(frozen=True, slots=True)
class RolledUp:
    """Hourly usage, what is missing of it, and identities (writer, number) of which two differ."""

    inputs: Inputs
    hourly: DataFrame
    gaps: Sequence[Gap]
    conflicts: Sequence[tuple[str, int]]


class BillingRun:
    """One run over one period. Raises JobError; then no pointer was put, and nothing counts."""

    def __init__(self, session: SparkSession, options: Options, progress: Progress) -> None:
        self._session = session
        self._options = options
        self._progress = progress
        self._period = invoicing.period_of(options.period)
        self._usage = place_of(options.usage)
        self._out = place_of(options.out)
        self._exports = place_of(options.exports) if options.exports else None
        self._book = book_for(self._period, options.prices)
        self._accounts = accounts_of(options)
        self._files: list[Written] = []
        self._run = ""
        self._late: dict[str, Pointer] = {}
        self._late_inputs: dict[str, Inputs] = {}
        self._kept = b""
        self._stored = Stored(None, [], None, {})
        self._samples = Samples()
        self._priced: set[str] = set()
        self._kept_samples = b""
        self._gone: dict[str, Gone] = {}

    def run(self) -> Summary:
        """Do all of it."""
        before = pointer_of(self._out, self._period)
        if before is not None and before.closed:
            self._progress.step(f"{self._period} is closed: run {before.run} stands")
            return self._summary(before)
        if before is not None and self._is_made_already(before):
            self._progress.step(f"nothing is new in {self._period}: run {before.run} stands")
            return self._summary(before)
        found, lines = self.usage_and_charges()
        pages = self.write_bills(found, lines)
        self._files += put_aside(found.inputs, self._usage, self._out)
        said = self._said(found, pages)
        return self._summary(point(self._out, self._period, said, self._files))

    def _is_made_already(self, before: Pointer) -> bool:
        """Whether the last run was made from just what there is now, and its files are there."""
        manifest = f"inputs/period={self._period}/run={before.run}/{_MANIFEST}"
        try:
            inputs = recognised(self._usage, self._period, self._out.read(manifest))
        except FileNotFoundError:
            return False
        if inputs is None or stored_sends.names_of(self._exports) != before.said.get("exports"):
            return False
        self._look_back()
        self._kept = stored_sends.kept_by(self._out, before)
        there = {found.name: found.bytes for found in self._out.list("")}
        is_whole = all(there.get(its["name"]) == its["bytes"] for its in before.said["files"])
        return is_whole and self._name(inputs) == before.run

    def usage_and_charges(self) -> tuple[RolledUp, DataFrame]:
        """Add up the period's records, and rate them: hourly usage, and lines of invoices."""
        if self._exports is not None:
            self._progress.step(f"looking at exports in {self._exports.url}")
        kept = stored_sends.kept(self._out, pointers(self._out))
        self._stored = stored_sends.read_stored(self._session, self._exports, kept)
        self._look_back(self._stored.whole)
        inputs = self._derive(self._look())
        self._run = self._name(inputs)
        found = self._roll_up(inputs)
        return found, self._rate(found.hourly)

    # Inputs

    def _check_order(self, closed: Sequence[Pointer]) -> None:
        if self._options.close and closed:
            due = invoicing.next_period(closed[-1].period)
            if self._period != due:
                raise JobError(f"period {self._period}: {due} is to be closed before it")

    def _look(self) -> Inputs:
        self._progress.step(f"looking at records of {self._period} in {self._usage.url}")
        inputs = look_at(self._session, self._usage, self._period)
        self._progress.done(
            f"{inputs.rows:,} records in {len(inputs.good)} files; {len(inputs.aside)} put aside"
        )
        return inputs

    def _derive(self, inputs: Inputs) -> Inputs:
        """With what is known of sends by what is stored; closed periods are looked at for that."""
        if self._exports is not None:
            self._progress.step("looking for sends without a record")

        def whole(its: Inputs) -> Inputs:
            found = stored_sends.derive(self._session, self._stored, its.recorded, its.window)
            return replace(its, derived=found, storage=self._byte_hours(its.period))

        inputs = whole(inputs)
        self._late_inputs = {
            period: whole(self._look_again(period)) for period in sorted(self._late)
        }
        its = (inputs, *self._late_inputs.values())
        self._kept = stored_sends.encode(each.derived for each in its)
        if self._exports is not None:
            self._progress.done(f"{len(inputs.derived.sends):,} sends have no record")
        return inputs

    def _look_again(self, period: str) -> Inputs:
        self._progress.step(f"looking again at {period}, of which more is known now")
        return look_at(self._session, self._usage, period)

    def _look_back(self, exports: Sequence[Export] = ()) -> None:
        """Look at periods of before: what is to be corrected, and what cannot be any more."""
        closed = [its for its in pointers(self._out) if its.closed]
        self._check_order(closed)
        open_to = self._correctable(closed)
        self._priced = {its.period for its in open_to if self._book_of(its).storage_skus()}
        self._priced |= {self._period} if self._book.storage_skus() else set()
        self._samples = self._sampled(exports)
        invoiced = self._kept_by(closed)
        changed = {its.period: its for its in open_to if self._has_changed(its, closed, invoiced)}
        self._gone = {
            period: gone
            for period, its in changed.items()
            if (gone := self._gone_of(its, closed)).files
        }
        self._late = {its: changed[its] for its in changed if its not in self._gone}
        kept_of = self._priced & {self._period, *self._late}
        self._kept_samples = stored_bytes.encode(self._samples.of(map(window_of, kept_of)))

    def _correctable(self, closed: Sequence[Pointer]) -> list[Pointer]:
        """Closed periods of which this one has corrections, if there are any."""
        if not closed or self._period != invoicing.next_period(closed[-1].period):
            return []
        oldest = invoicing.next_period(self._period, -self._options.late_periods)
        return [its for its in closed if its.period >= oldest]

    def _has_changed(self, its: Pointer, closed: Sequence[Pointer], invoiced: Samples) -> bool:
        """Whether a closed period has other files, by their names, or others say what it stored."""
        known = [each.said["covers"].get(its.period) for each in closed]
        if listing_of(files_of(self._usage, its.period)) != [each for each in known if each][-1]:
            return True
        of_samples = stored_bytes.byte_hours(invoiced, window_of(its.period))
        return its.period in self._priced and self._byte_hours(its.period) != of_samples

    def _kept_by(self, runs: Sequence[Pointer]) -> Samples:
        """What these runs keep of samples; nothing where storage has no price."""
        if not self._priced:
            return Samples()
        # The hour before a period is kept with the period before it.
        since = invoicing.next_period(min(self._priced), -1)
        return stored_bytes.kept(self._out, [its for its in runs if its.period >= since])

    def _sampled(self, exports: Sequence[Export]) -> Samples:
        """What was stored, by what runs keep and by exports; nothing where it has no price."""
        kept = self._kept_by(pointers(self._out))
        if not self._priced or self._exports is None or not exports:
            return kept
        self._progress.step("looking at how much was stored when")
        its = kept.and_of(samples_of(self._session, self._exports, exports))
        self._progress.done(f"{len(its.taken):,} samples of {len(its.stored):,} queues")
        return its

    def _byte_hours(self, period: str) -> list[StoredHour]:
        if period not in self._priced:
            return []
        return stored_bytes.byte_hours(self._samples, window_of(period))

    def _gone_of(self, of: Pointer, closed: Sequence[Pointer]) -> "Gone":
        """Which files a closed period was invoiced from that are gone, and how many are new.

        Without all of them nobody can say what of the new ones was invoiced.
        """
        known: set[str] = set()
        for its in closed:
            name = _MANIFEST if its.period == of.period else f"of={of.period}.json"
            try:
                manifest = self._out.read(f"inputs/period={its.period}/run={its.run}/{name}")
            except FileNotFoundError:
                continue  # It did not correct this period.
            known |= counted_in(manifest)
        there = {its.name for its in files_of(self._usage, of.period)}
        return Gone(len(known - there), len(there - known))

    def _name(self, inputs: Inputs) -> str:
        """A run's name: it differs where anything does that its outputs depend on."""
        made_of = {
            "version": VERSION,
            "inputs": inputs.fingerprint(),
            "prices": self._book.sha256,
            "accounts": asdict(self._accounts),
            "late": self._covers(),
            "stored": sha256(self._kept + self._kept_samples).hexdigest(),
            "gone": {period: asdict(its) for period, its in self._gone.items()},
            "before": [its.run for its in self._billed_before()],
            "kept_from": self._kept_from(inputs),
            "state": self._options.close,
        }
        return sha256(canonical(made_of)).hexdigest()[:_RUN_CHARS]

    def _covers(self) -> dict[str, str]:
        """The files of this period, and of those that it corrects."""
        return {
            period: listing_of(files_of(self._usage, period))
            for period in (*self._late, self._period)
        }

    # Usage

    def _roll_up(self, inputs: Inputs) -> RolledUp:
        self._progress.step("adding up records by the hour")
        hourly, differing = self._hourly(inputs)
        folder = self._folder("usage_hourly")
        self._files += write_table(hourly, self._out, folder, usage.KEYS)
        self._put(f"{self._folder('inputs')}/{_MANIFEST}", manifest_of(inputs))
        self._put(f"{self._folder('inputs')}/{stored_sends.KEPT}", self._kept)
        if self._kept_samples:
            self._put(f"{self._folder('inputs')}/{stored_bytes.KEPT}", self._kept_samples)
        self._put(f"{folder}/writers.json", canonical(inputs.reached()) + b"\n")
        read = self._read(folder, hourly)
        used = self._check_accounts(read)
        self._progress.done(f"{used} accounts; {len(inputs.redundant)} files were copies")
        gaps = expired(inputs.gaps(self._reached_before()), self._kept_from(inputs))
        if self._book.storage_skus():
            its, is_over = self._samples.of([inputs.window]), self._options.close
            gaps += stored_bytes.uncovered(its, inputs.window, is_over=is_over)
        return RolledUp(inputs, read, gaps, differing)

    def _hourly(self, inputs: Inputs) -> tuple[DataFrame, list[tuple[str, int]]]:
        """Hourly usage, and the identities of records that differ."""
        sums, copies = inputs.sums(self._session, self._usage), inputs.copies
        if inputs.derived.sends:
            sums = sums.unionByName(usage.hourly(inputs.derived.records(self._session)))
        if inputs.storage:
            sums = sums.unionByName(stored_bytes.hourly(self._session, inputs.storage))
        if not copies:
            return with_date(usage.added(sums)), []
        records = inputs.records(self._session, self._usage)
        its = usage.doubtful(records, copies).cache()
        differing = [(row.writer, row.number) for row in usage.conflicts(its).collect()]
        rest = usage.hourly(usage.once(records, copies, its))
        return with_date(usage.added(sums.unionByName(rest))), differing

    def _check_accounts(self, hourly: DataFrame) -> int:
        """How many accounts there are. Raises JobError where one is unknown."""
        rows = hourly.where("account != ''").select("account").distinct().collect()
        self._accounts.check(row.account for row in rows)
        return len(rows)

    def _reached_before(self) -> dict[str, Reached]:
        """How far writers had come before the period, by runs of earlier ones."""
        known: dict[str, Reached] = {}
        for its in self._billed_before():
            folder = f"usage_hourly/period={its.period}/run={its.run}"
            known |= read_reached(self._out.read(f"{folder}/writers.json"))
        return known

    def _billed_before(self) -> list[Pointer]:
        """The runs of earlier periods, as far as none is left out that has records.

        Behind one that was never billed nobody knows how far writers had come.
        """
        billed = {its.period: its for its in pointers(self._out) if its.period < self._period}
        found: list[Pointer] = []
        period = self._period
        while billed and period > min(billed):
            period = invoicing.next_period(period, -1)
            if period in billed:
                found.append(billed[period])
            elif files_of(self._usage, period):
                break
        return found[::-1]

    def _kept_from(self, inputs: Inputs) -> int:
        """The minute of the period before which records may have been removed; 0: no such."""
        day = self._options.kept_from or "1970-01-01"
        minute = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) // 60
        return min(minute, inputs.window.end) if minute > inputs.window.start else 0

    # Bills

    def _rate(self, hourly: DataFrame) -> DataFrame:
        late = self._late
        self._progress.step(f"rating by price book {self._book.id}")
        rated = self._rated(hourly, self._book, self._accounts.fair_queues)
        folder = self._folder("rated")
        self._files += write_table(with_date(rated), self._out, folder, billing.RATED_KEYS)
        own = invoicing.lines_of(self._read(folder, with_date(rated)), self._period)
        for period, pointer in sorted(late.items()):
            own = own.unionByName(self._corrections(period, pointer))
        self._put(f"price_books/{self._book.sha256}.json", self._book.text)
        self._progress.done("rated" + (f"; corrected {', '.join(sorted(late))}" if late else ""))
        return own

    def _rated(
        self, hourly: DataFrame, book: PriceBook, fair: Mapping[str, Sequence[str]]
    ) -> DataFrame:
        return billing.rate(billing.with_queue_type(billing.billed(hourly, book), fair), book)

    def _book_of(self, pointer: Pointer) -> PriceBook:
        """The book that a period was billed by."""
        text = self._out.read(f"price_books/{pointer.said['prices']['sha256']}.json")
        return read_book(text, pointer.said["prices"]["id"])

    def _corrections(self, period: str, pointer: Pointer) -> DataFrame:
        """What a closed period comes to now, by its own prices, less what was invoiced of it."""
        inputs = self._late_inputs[period]
        self._put(f"{self._folder('inputs')}/of={period}.json", manifest_of(inputs))
        book = self._book_of(pointer)
        hourly = self._hourly(inputs)[0].cache()
        self._check_accounts(hourly)
        now = invoicing.lines_of(self._rated(hourly, book, pointer.said["fair_queues"]), period)
        invoiced = now.limit(0)
        for its in pointers(self._out):
            if its.closed and period <= its.period < self._period:
                folder = f"invoices/period={its.period}/run={its.run}/lines"
                lines = self._read(folder, now)
                invoiced = invoiced.unionByName(
                    lines.where((f.col("of_period") == period) & (f.col("kind") != "rounding"))
                )
        return invoicing.corrections(now, invoiced)

    def write_bills(self, found: RolledUp, lines: DataFrame) -> list[Page]:
        """Write invoices, FOCUS tables and statements; the statements, by accounts."""
        self._progress.step("writing invoices, FOCUS tables and statements")
        lines = lines.cache()
        invoices = invoicing.invoices(lines, self._period).cache()
        all_lines = lines.unionByName(invoicing.rounding_lines(invoices))
        folder = self._folder("invoices")
        self._files += write_table(
            all_lines, self._out, f"{folder}/lines", (*invoicing.LINE_KEYS, "price")
        )
        self._files += write_table(invoices, self._out, f"{folder}/invoices", ("account",))
        written = self._read(f"{folder}/lines", all_lines)
        table = focus(written, self._accounts.names, self._period, self._book)
        self._files += write_table(table, self._out, self._folder("focus"), FOCUS_KEYS)
        pages = put_statements(
            found.hourly,
            written,
            invoices,
            self._out,
            names=self._accounts.names,
            period=self._period,
            state=self._state,
            book=self._book,
            gaps=found.gaps,
        )
        self._files += [written for page in pages for written in page.files]
        self._progress.done(f"{len(pages)} invoices")
        return pages

    # Outputs

    @property
    def _state(self) -> str:
        return "closed" if self._options.close else "open"

    def _folder(self, table: str) -> str:
        return f"{table}/period={self._period}/run={self._run}"

    def _put(self, name: str, content: bytes) -> None:
        self._files.append(put_once(self._out, name, content))

    def _read(self, folder: str, like: DataFrame) -> DataFrame:
        """A table that was written, with the columns of the one that it was written from."""
        urls = [f"{self._out.url}/{its.name}" for its in self._out.list(f"{folder}/date=")]
        if not urls:
            return like.limit(0)
        read = self._session.read.option("basePath", f"{self._out.url}/{folder}").parquet(*urls)
        return read.select(*like.columns)

    def _said(self, found: RolledUp, pages: Sequence[Page]) -> dict[str, Any]:
        inputs = found.inputs
        of_records = [gap for gap in found.gaps if gap.state != STORAGE]
        is_short = any(inputs.is_of_function(gap.writer) for gap in of_records)
        nobody = found.hourly.where("account = ''").agg(f.sum("requests")).first()
        return {
            "run": self._run,
            "state": self._state,
            "version": VERSION,
            "covers": self._covers(),
            "records": inputs.rows,
            "prices": {"id": self._book.id, "sha256": self._book.sha256},
            "fair_queues": {its: list(names) for its, names in self._accounts.fair_queues.items()},
            "invoices": {page.account: str(page.payable) for page in pages},
            "corrects": sorted(self._late),
            "not_corrected": {period: asdict(its) for period, its in self._gone.items()},
            "kept_from": self._kept_from(found.inputs),
            "quarantined": [
                {"name": its.name, "sha256": its.sha256, "reason": its.reason}
                for its in inputs.aside
            ],
            "bad_marks": [list(its) for its in inputs.bad_marks],
            "gaps": [asdict(gap) for gap in found.gaps],
            "conflicts": [list(its) for its in found.conflicts],
            "malformed_lines": inputs.malformed_lines,
            **stored_sends.said_of(self._stored, inputs.derived, is_short=is_short),
            "unmetered": unmetered(
                self._book,
                found.hourly,
                is_sampled=bool(self._samples.of([inputs.window]).taken),
            ),
            "idle_fair_queues": idle_fair_queues(self._accounts, found.hourly),
            "requests_of_nobody": (nobody[0] if nobody is not None else 0) or 0,
        }

    def _summary(self, pointer: Pointer) -> Summary:
        invoices = [
            Invoiced(
                account,
                Decimal(payable),
                f"{self._out.url}/statements/{account}/{pointer.period}.html",
            )
            for account, payable in sorted(pointer.said["invoices"].items())
        ]
        return Summary(pointer.run, invoices, findings(pointer.said))


def with_date(table: DataFrame) -> DataFrame:
    """A table with the day of its `hour`, by which it is filed."""
    day = f.date_format(f.timestamp_seconds(f.col("hour") * 3600), "yyyy-MM-dd")
    return table.withColumn("date", day)
