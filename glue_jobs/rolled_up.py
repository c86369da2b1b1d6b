"""What adding up the records of a period comes to."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from glue_jobs.identities import Gap
from glue_jobs.inputs import Inputs


@dataclass(frozen=True, slots=True)
class RolledUp:
    """Hourly usage, what is missing of it, and identities (writer, number) of which two differ."""

    inputs: Inputs
    hourly: DataFrame
    gaps: Sequence[Gap]
    conflicts: Sequence[tuple[str, int]]
