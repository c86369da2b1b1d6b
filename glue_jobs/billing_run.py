"""A run of the job `bill`: the steps of it, in their order."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from glue_jobs import VERSION, billing, invoicing, stored_bytes, stored_sends, usage
from glue_jobs.arguments import JobError
from glue_jobs.billed import Billed
from glue_jobs.billing_options import Options, Summary, accounts_of, invoiced_of
from glue_jobs.closing import check_closing, check_correcting, new_doubts, unknown_writers
from glue_jobs.corrections import MANIFEST
from glue_jobs.exports import Export
from glue_jobs.findings import altered_lines, findings, idle_fair_queues, unmetered
from glue_jobs.focus import KEYS as FOCUS_KEYS
from glue_jobs.focus import focus
from glue_jobs.hours import has_any, listings
from glue_jobs.identities import STORAGE, Gap, Reached, Run, beyond, expired
from glue_jobs.inputs import (
    Inputs,
    look_at,
    manifest_of,
    put_aside,
    read_reached,
    recognised,
    without,
)
from glue_jobs.invoice_terms import Invoice
from glue_jobs.looking_back import (
    LookedBack,
    correctable,
    kept_samples_of,
    look_back,
    priced_of,
)
from glue_jobs.outputs import (
    ALTERED,
    WRITTEN_BY,
    Pointer,
    Written,
    canonical,
    point,
    pointers,
    put_once,
    with_columns_of,
    write_table,
)
from glue_jobs.places import place_of
from glue_jobs.plural import counted
from glue_jobs.progress import Progress
from glue_jobs.register import held_to_register
from glue_jobs.registered import KEPT as REGISTERED
from glue_jobs.registered import Registered, kept_by, read_registered
from glue_jobs.rolled_up import RolledUp
from glue_jobs.sealed import seal_of
from glue_jobs.sealed_hours import cut_back
from glue_jobs.sealing import Places
from glue_jobs.statement_pages import Page, put_statements
from glue_jobs.storage_samples import samples_of
from glue_jobs.stored_bytes import Samples
from glue_jobs.stored_sends import Stored
from glue_jobs.terms import terms_for, terms_said
from glue_jobs.verified import Verified, end, verified
from glue_jobs.writers import accepted_by

_RUN_CHARS: Final = 16


class BillingRun:
    """One run over one period. Raises JobError; then no pointer was put, and nothing counts."""

    def __init__(self, session: SparkSession, options: Options, progress: Progress) -> None:
        self._session = session
        self._options = options
        self._progress = progress
        self._period = invoicing.period_of(options.period)
        self._usage = place_of(options.usage)
        self._out = place_of(options.out)
        self._places = Places(self._usage, self._out)
        self._exports = place_of(options.exports) if options.exports else None
        self._seal = seal_of(place_of(options.chained or options.usage))
        self._terms = terms_for(self._period, options.prices, options.customers)
        self._book = self._terms.book
        self._accounts = accounts_of(options)
        self._files: list[Written] = []
        self._run = ""
        self._invoices: list[Invoice] = []
        self._back = LookedBack()
        self._late_inputs: dict[str, Inputs] = {}
        self._kept = b""
        self._stored = Stored(None, [], None, {})
        self._registered = Registered()
        self._forged: dict[str, list[str]] = {}
        self._verified = Verified()

    def run(self) -> Summary:
        """Do all of it."""
        summary = self._run_it()
        end(self._out, self._period)
        return summary

    def _run_it(self) -> Summary:
        self._progress.step(f"verifying what was written to {self._out.url}")
        self._verified = verified(self._out, self._period)
        before, altered = self._verified.before, self._verified.altered
        own = altered.get(self._period)
        if own is not None and not own[0].closed:
            cut_back(self._out, own[1], ALTERED)
        if before is not None and before.closed:
            self._progress.step(f"{self._period} is closed: run {before.run} stands")
            return self._summary(before)
        if before is not None and own is None and self._is_made_already(before):
            self._progress.step(f"nothing is new in {self._period}: run {before.run} stands")
            return self._summary(before)
        found, lines = self.usage_and_charges()
        self.write_bills(found, lines)
        for inputs in (found.inputs, *self._late_inputs.values()):
            self._files += put_aside(inputs, self._usage, self._out)
        said = self._said(found)
        return self._summary(point(self._out, self._period, said, self._files))

    def _is_made_already(self, before: Pointer) -> bool:
        """Whether the last run was made from just what there is now."""
        inputs = recognised(self._session, self._places, self._period)
        if inputs is None or stored_sends.names_of(self._exports) != before.said.get("exports"):
            return False
        self._look_back()
        self._kept = stored_sends.kept_by(self._out, before)
        self._know(kept_by(self._out, [before]))
        # The same exports have the same register.
        self._forged = before.said.get("forged", {})
        return self._name(inputs, before.said.get("sealed_by", "")) == before.run

    def usage_and_charges(self) -> tuple[RolledUp, DataFrame]:
        """Add up the period's records, and rate them: hourly usage, and lines of invoices."""
        if self._exports is not None:
            self._progress.step(f"looking at exports in {self._exports.url}")
        kept = stored_sends.kept(self._out, pointers(self._out))
        self._stored = stored_sends.read_stored(self._session, self._exports, kept)
        whole, known = self._stored.whole, kept_by(self._out, pointers(self._out))
        self._know(read_registered(self._session, self._exports, whole, known))
        self._look_back(whole)
        self._forged = {}
        inputs = self._derive(self._look())
        self._run = self._name(inputs, self._seal)
        found = self._roll_up(inputs)
        return found, self._rate(found.hourly)

    def _know(self, registered: Registered) -> None:
        self._registered = registered
        self._accounts = self._accounts.with_names(registered.names)

    # Inputs

    def _check_order(self, closed: Sequence[Pointer]) -> None:
        if self._options.close and closed:
            due = invoicing.next_period(closed[-1].period)
            if self._period != due:
                raise JobError(f"period {self._period}: {due} is to be closed before it")

    def _look(self) -> Inputs:
        self._progress.step(f"looking at records of {self._period} in {self._usage.url}")
        inputs = self._looked_at(self._period, self._options.accept)
        self._progress.done(
            f"{counted(inputs.rows, 'record')} in {counted(inputs.files, 'file')};"
            f" {len(inputs.aside)} put aside"
        )
        return inputs

    def _derive(self, inputs: Inputs) -> Inputs:
        """With what is known of sends by what is stored; closed periods are looked at for that."""
        if self._exports is not None:
            self._progress.step("looking for sends without a record")

        def whole(its: Inputs) -> Inputs:
            found = stored_sends.derive(self._session, self._stored, its.recorded, its.window)
            return replace(its, derived=found, storage=self._back.byte_hours(its.period))

        inputs = whole(inputs)
        self._late_inputs = {
            period: whole(self._look_again(period)) for period in sorted(self._back.late)
        }
        its = (inputs, *self._late_inputs.values())
        self._kept = stored_sends.encode(each.derived for each in its)
        if self._exports is not None:
            self._progress.done(f"{counted(len(inputs.derived.sends), 'send')} without a record")
        return inputs

    def _look_again(self, period: str) -> Inputs:
        self._progress.step(f"looking again at {period}, of which more is known now")
        since = [name for said in self._closed_since(period) for name in accepted_by(said)]
        return self._looked_at(period, [*self._options.accept, *since])

    def _looked_at(self, period: str, accepted: Collection[str]) -> Inputs:
        """A period's files, without what cannot be their writers'."""
        inputs = look_at(self._session, self._places, period, accepted)
        told, forged = held_to_register(
            self._session, self._exports, self._stored.whole, inputs, accepted
        )
        if forged:
            self._forged[period] = sorted(forged)
            inputs = without(self._session, self._places, inputs, accepted, forged)
        return replace(inputs, against_register=told)

    def _look_back(self, exports: Sequence[Export] = ()) -> None:
        """Look at periods of before: what is to be corrected, and what cannot be any more."""
        closed = [its for its in pointers(self._out) if its.closed]
        self._check_order(closed)
        late_periods = self._options.late_periods
        its = correctable(closed, self._period, self._verified.altered, late_periods)
        priced = priced_of(self._out, its, self._terms, self._period)
        known = LookedBack(priced=priced, samples=self._sampled(exports, priced))
        self._back = look_back(self._session, self._places, self._period, its, known)

    def _sampled(self, exports: Sequence[Export], priced: Collection[str]) -> Samples:
        """What was stored, by what runs keep and by exports; nothing where it has no price."""
        kept = kept_samples_of(self._out, pointers(self._out), priced)
        if not priced or self._exports is None or not exports:
            return kept
        self._progress.step("looking at how much was stored when")
        its = kept.and_of(samples_of(self._session, self._exports, exports))
        self._progress.done(
            f"{counted(len(its.taken), 'sample')} of {counted(len(its.stored), 'queue')}"
        )
        return its

    def _name(self, inputs: Inputs, seal: str) -> str:
        """A run's name: it differs where anything does that its outputs depend on."""
        made_of = {
            "version": VERSION,
            "written_by": WRITTEN_BY,
            "inputs": inputs.fingerprint(),
            "prices": self._book.sha256,
            "terms": self._terms.said(),
            "accounts": asdict(self._accounts),
            "late": self._covers(inputs),
            "stored": sha256(self._kept + self._back.kept_samples).hexdigest(),
            "registered": sha256(self._registered.encoded()).hexdigest(),
            "gone": {period: asdict(its) for period, its in self._back.gone.items()},
            "before": [its.run for its in self._billed_before()],
            "kept_from": self._options.kept_from_minute(inputs.window),
            "accepted": sorted(self._options.accept),
            "state": self._options.close,
            "sealed_by": seal,
            **({"forged": self._forged} if self._forged else {}),
        }
        return sha256(canonical(made_of)).hexdigest()[:_RUN_CHARS]

    def _covers(self, inputs: Inputs) -> dict[str, str]:
        """The files that were looked at, of this period and of those that it corrects.

        What has come since is in no sum: the next run finds it new.
        """
        looked = {**self._late_inputs, self._period: inputs}
        left = [period for period in self._back.late if period not in looked]
        now = listings(self._session, self._usage, left)
        return {**now, **{period: its.listing for period, its in looked.items()}}

    # Usage

    def _roll_up(self, inputs: Inputs) -> RolledUp:
        self._progress.step("adding up records by the hour")
        hourly, differing = self._hourly(inputs)
        gaps = self._gaps(inputs)
        if self._options.close:
            its = self._options
            accepted, minutes = its.accept, its.gap_minutes
            check_closing(inputs, gaps, differing, accepted=accepted, gap_minutes=minutes)
            for period, late in self._late_inputs.items():
                check_correcting(late, self._closed_since(period), self._period, accepted)
        folder = self._folder("usage_hourly")
        self._files += inputs.parts
        self._files += write_table(hourly, self._out, folder, usage.KEYS)
        self._put(f"{self._folder('inputs')}/{MANIFEST}", manifest_of(inputs))
        self._put(f"{self._folder('inputs')}/{stored_sends.KEPT}", self._kept)
        for name, kept in (
            (stored_bytes.KEPT, self._back.kept_samples),
            (REGISTERED, self._registered.encoded()),
        ):
            if kept:
                self._put(f"{self._folder('inputs')}/{name}", kept)
        self._put(f"{folder}/writers.json", canonical(inputs.reached(self._came_late())) + b"\n")
        read = self._read(folder, hourly)
        used = self._check_accounts(read)
        self._progress.done(counted(used, "account"))
        return RolledUp(inputs, read, gaps, differing)

    def _gaps(self, inputs: Inputs) -> list[Gap]:
        kept_from = self._options.kept_from_minute(inputs.window)
        gaps = expired(inputs.gaps(self._reached_before(), self._came_late()), kept_from)
        if self._terms.storage_skus():
            its, is_over = self._back.samples.of([inputs.window]), self._options.close
            gaps += stored_bytes.uncovered(its, inputs.window, is_over=is_over)
        return gaps

    def _hourly(self, inputs: Inputs) -> tuple[DataFrame, list[tuple[str, int]]]:
        """Hourly usage, and the identities of records that differ."""
        sums = inputs.sums(self._session, self._out)
        return usage.with_date(usage.added(sums)), list(inputs.conflicts)

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

    def _came_late(self) -> list[Run]:
        """What closed periods have by now of writers, behind what runs of them knew."""
        runs = [run for its in self._late_inputs.values() for run in its.runs]
        return beyond(runs, self._reached_before())

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
            elif has_any(self._usage, period):
                break
        return found[::-1]

    # Bills

    def _rate(self, hourly: DataFrame) -> DataFrame:
        late = self._back.late
        self._progress.step(f"rating by price book {self._book.id}")
        rated = self._terms.rated(hourly, self._accounts.fair_queues)
        folder = self._folder("rated")
        self._files += write_table(usage.with_date(rated), self._out, folder, billing.RATED_KEYS)
        own = invoicing.lines_of(self._read(folder, usage.with_date(rated)), self._period)
        for period, pointer in sorted(late.items()):
            own = own.unionByName(self._corrections(period, pointer))
        for name, text in self._terms.texts().items():
            self._put(name, text)
        self._progress.done("rated" + (f"; corrected {', '.join(sorted(late))}" if late else ""))
        return own

    def _corrections(self, period: str, pointer: Pointer) -> DataFrame:
        """What a closed period comes to now, by its own prices, less what was invoiced of it."""
        inputs = self._late_inputs[period]
        self._files += inputs.parts
        self._put(f"{self._folder('inputs')}/of={period}.json", manifest_of(inputs))
        terms = terms_said(self._out, pointer)
        self._terms.check_currencies(terms, period)
        hourly = self._hourly(inputs)[0].cache()
        self._check_accounts(hourly)
        now = invoicing.lines_of(terms.rated(hourly, pointer.said["fair_queues"]), period)
        invoiced = now.limit(0)
        for its in pointers(self._out):
            if its.closed and period <= its.period < self._period:
                folder = f"invoices/period={its.period}/run={its.run}/lines"
                lines = self._read(folder, now)
                invoiced = invoiced.unionByName(
                    lines.where((f.col("of_period") == period) & invoicing.is_charge())
                )
        return invoicing.corrections(now, invoiced)

    def write_bills(self, found: RolledUp, lines: DataFrame) -> list[Page]:
        """Write invoices, FOCUS tables and statements; the statements, by accounts."""
        self._progress.step("writing invoices, FOCUS tables and statements")
        lines = lines.cache()
        before, final = self._closed_before(), self._options.close
        self._invoices = invoicing.invoices(lines, self._period, self._terms, before, final=final)
        invoices = invoicing.table_of(self._session, self._invoices)
        all_lines = lines.unionByName(invoicing.own_lines(self._session, self._invoices))
        folder = self._folder("invoices")
        self._files += write_table(
            all_lines, self._out, f"{folder}/lines", (*invoicing.LINE_KEYS, "price")
        )
        self._files += write_table(invoices, self._out, f"{folder}/invoices", ("account",))
        written = self._read(f"{folder}/lines", all_lines)
        its = (self._accounts.names, self._registered.tags)
        billed = Billed(self._terms, self._invoices, *its)
        table = focus(written, billed, self._period)
        self._files += write_table(table, self._out, self._folder("focus"), FOCUS_KEYS)
        pages = put_statements(
            found.hourly,
            written,
            billed,
            self._out,
            period=self._period,
            run=self._run,
            state=self._state,
            gaps=found.gaps,
            sealed_by=self._seal,
        )
        self._files += [written for page in pages for written in page.files]
        told = counted(len(pages), "statement")
        self._progress.done(f"{counted(len(self._invoices), 'invoice')}, {told}" if final else told)
        return pages

    # Outputs

    def _closed_before(self) -> list[dict[str, Any]]:
        """What pointers of closed months before say."""
        return [its.said for its in self._verified.closed if its.period < self._period]

    def _closed_since(self, period: str) -> list[dict[str, Any]]:
        """What pointers of a closed month, and of those closed after it, say."""
        return [its.said for its in self._verified.closed if period <= its.period < self._period]

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
        return with_columns_of(read, like)

    def _said(self, found: RolledUp) -> dict[str, Any]:
        inputs, is_final = found.inputs, self._options.close
        of_records = [gap for gap in found.gaps if gap.state != STORAGE]
        is_short = any(inputs.is_of_function(gap.writer) for gap in of_records)
        nobody = found.hourly.where("account = ''").agg(f.sum("requests")).first()
        its_late = self._late_inputs.items()
        late = [new_doubts(its, self._closed_since(period)) for period, its in its_late]
        of_late = [its for each in late for its in each.conflicts]
        return {
            "run": self._run,
            "state": self._state,
            "version": VERSION,
            "covers": self._covers(inputs),
            "records": inputs.rows,
            "prices": {"id": self._book.id, "sha256": self._book.sha256},
            "fair_queues": {its: list(names) for its, names in self._accounts.fair_queues.items()},
            **invoicing.said_of(self._invoices, self._terms, self._closed_before(), final=is_final),
            "bound": self._verified.hashes_before(self._period),
            "corrects": sorted(self._back.late),
            "not_corrected": {period: asdict(its) for period, its in self._back.gone.items()},
            "kept_from": self._options.kept_from_minute(inputs.window),
            "sealed_by": self._seal,
            "quarantined": [
                {"name": its.name, "sha256": its.sha256, "reason": its.reason}
                for each in (inputs, *late)
                for its in each.aside
            ],
            "bad_marks": [list(its) for its in inputs.bad_marks],
            "gaps": [asdict(gap) for gap in found.gaps],
            "conflicts": [list(its) for its in (*found.conflicts, *of_late)],
            "accepted": list(self._options.accept),
            "unknown_writers": unknown_writers(inputs),
            "against_register": list(inputs.against_register),
            "forged": self._forged,
            "refused": [
                [its.writer, its.file, its.why] for each in (inputs, *late) for its in each.refused
            ],
            "malformed_lines": inputs.malformed_lines,
            **stored_sends.said_of(self._stored, inputs.derived, is_short=is_short),
            "unmetered": unmetered(
                self._terms.storage_skus(),
                found.hourly,
                is_sampled=bool(self._back.samples.of([inputs.window]).taken),
            ),
            "idle_fair_queues": idle_fair_queues(self._accounts, found.hourly),
            "requests_of_nobody": (nobody[0] if nobody is not None else 0) or 0,
        }

    def _summary(self, pointer: Pointer) -> Summary:
        invoices = invoiced_of(pointer.said, self._out.url)
        altered = self._verified.told.values()
        told = [line for its, names in altered for line in altered_lines(its, names)]
        found = [*findings(pointer), *told]
        return Summary(pointer.run, invoices, found, self._terms.customers.payers())
