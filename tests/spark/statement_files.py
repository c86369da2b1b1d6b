"""Where statements are."""

from pathlib import Path

from glue_jobs.billing_options import page_of
from glue_jobs.outputs import pointer_of
from glue_jobs.places import place_of


def statement_at(out: Path, account: str, period: str) -> Path:
    """An account's page, by the run that counts; its table lies beside it."""
    pointer = pointer_of(place_of(str(out)), period)
    assert pointer is not None
    return out / page_of(account, pointer.said)
