"""What a run of the job `bill` is asked for, and what it says in the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final
from urllib.parse import unquote

from glue_jobs.accounts import Accounts, read_accounts
from glue_jobs.arguments import JobError
from glue_jobs.identities import Window
from glue_jobs.places import read_url
from glue_jobs.records import ACCOUNT

_CLOSE: Final = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is asked for."""

    usage: str
    out: str
    period: str
    account: str = ""
    accounts: str = ""
    customers: str = ""
    prices: str = ""
    close: bool = False
    late_periods: int = 13
    exports: str = ""
    kept_from: str = ""
    """The day before which records may have been removed by their age, "": they are not."""
    chained: str = ""
    """The place whose chain of digests has the usage, "": that of usage."""
    accept: tuple[str, ...] = ()
    """Names of what is in doubt and closed all the same: files, writers, cells."""
    gap_minutes: int = 2
    """A gap of so many minutes of which no record is known to be missing keeps no month open."""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Options":
        """Options from arguments. Raises JobError that names the wrong one."""
        if given["close"] not in _CLOSE:
            raise JobError(f"close: {given['close']!r} is neither yes nor no")
        for name in ("late_periods", "gap_minutes"):
            if not given[name].isdecimal():
                raise JobError(f"{name}: {given[name]!r} is no whole number")
        if given["accept"] and not _CLOSE[given["close"]]:
            raise JobError("accept: nothing is refused, and so to be accepted, without close")
        account = given["account"]
        if account and not ACCOUNT.fullmatch(account):
            raise JobError(f"account: {account!r} is no account id of 12 digits")
        texts = ["usage", "out", "period", "account", "accounts", "customers", "prices"]
        texts += ["exports", "kept_from", "chained"]
        return cls(
            **{name: given[name] for name in texts},
            close=_CLOSE[given["close"]],
            late_periods=int(given["late_periods"]),
            accept=tuple(unquote(name) for name in given["accept"].split(",") if name),
            gap_minutes=int(given["gap_minutes"]),
        )

    def kept_from_minute(self, window: Window) -> int:
        """The minute of a period before which records may have been removed; 0: no such."""
        day = self.kept_from or "1970-01-01"
        minute = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) // 60
        return min(minute, window.end) if minute > window.start else 0


@dataclass(frozen=True, slots=True)
class Invoiced:
    """What a payer is to pay, and where its statement is; `number` is "" while it is open."""

    account: str
    payable: Decimal
    statement: str
    currency: str = "USD"
    number: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run came to; `findings` are lines about what a person should look at."""

    run: str
    invoices: Sequence[Invoiced]
    findings: Sequence[str]
    payers: Mapping[str, str] = field(default_factory=dict)
    """Who pays for an account, where that is not itself."""


def invoiced_of(said: Mapping[str, Any], url: str) -> list[Invoiced]:
    """The invoices of a run, by what its pointer says; `url` is that of the place of bills."""
    currencies = said.get("currencies", {})
    numbers = said.get("numbering", {}).get("numbers", {})
    return [
        Invoiced(
            payer,
            Decimal(payable),
            f"{url}/{page_of(payer, said)}",
            currencies.get(payer, "USD"),
            numbers.get(payer, ""),
        )
        for payer, payable in sorted(said["invoices"].items())
    ]


def page_of(holder: str, said: Mapping[str, Any]) -> str:
    """What the page of a payer or an account is called, by what the pointer to a run says."""
    names = [str(its["name"]) for its in said["files"]]
    (name,) = (
        its for its in names if its.startswith(f"statements/{holder}/") and its.endswith(".html")
    )
    return name


def accounts_of(options: Options) -> Accounts:
    """Who may be billed. Raises JobError."""
    path = options.accounts
    if not path:
        return Accounts()
    try:
        return read_accounts(read_url(path), path)
    except OSError as error:
        raise JobError(f"accounts {path}: {error.strerror or 'it is not there'}") from error
