"""What a run of the job `bill` is asked for, and what it says in the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from glue_jobs.accounts import Accounts, read_accounts
from glue_jobs.arguments import JobError
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
    prices: str = ""
    close: bool = False
    late_periods: int = 13
    exports: str = ""
    kept_from: str = ""
    """The day before which records may have been removed by their age, "": they are not."""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Options":
        """Options from arguments. Raises JobError that names the wrong one."""
        if given["close"] not in _CLOSE:
            raise JobError(f"close: {given['close']!r} is neither yes nor no")
        if not given["late_periods"].isdecimal():
            raise JobError(f"late_periods: {given['late_periods']!r} is no whole number")
        account = given["account"]
        if account and not ACCOUNT.fullmatch(account):
            raise JobError(f"account: {account!r} is no account id of 12 digits")
        texts = ("usage", "out", "period", "account", "accounts", "prices", "exports", "kept_from")
        return cls(
            **{name: given[name] for name in texts},
            close=_CLOSE[given["close"]],
            late_periods=int(given["late_periods"]),
        )


@dataclass(frozen=True, slots=True)
class Invoiced:
    """What an account is to pay, and where its statement is."""

    account: str
    payable: Decimal
    statement: str


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run came to; `findings` are lines about what a person should look at."""

    run: str
    invoices: Sequence[Invoiced]
    findings: Sequence[str]


def accounts_of(options: Options) -> Accounts:
    """Who may be billed. Raises JobError."""
    path = options.accounts
    if not path:
        return Accounts()
    try:
        return read_accounts(read_url(path), path)
    except OSError as error:
        raise JobError(f"accounts {path}: {error.strerror or 'it is not there'}") from error
