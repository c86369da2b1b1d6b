"""Prometheus' text format: families of samples, their labels and numbers."""

from collections.abc import Iterable, Mapping
from math import inf, isfinite
from typing import Final, NamedTuple

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
SUMMARY: Final = "summary"


class Family(NamedTuple):
    """Samples of one name, a line each."""

    name: str
    kind: str
    says: str
    lines: Iterable[str]


def labelled(name: str, says: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> Family:
    """A counter where the name ends in `_total`, else a gauge."""
    kind = COUNTER if name.endswith("_total") else GAUGE
    lines = (f"{name}{labels_text(labels)} {number_text(value)}\n" for labels, value in samples)
    return Family(name, kind, says, lines)


def labels_text(labels: Mapping[str, str]) -> str:
    """Labels as they stand behind a name."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{escaped(text)}"' for name, text in labels.items()) + "}"


def escaped(text: str) -> str:
    """A label's value."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def number_text(value: float) -> str:
    """A sample's value."""
    number = float(value)
    if isfinite(number):
        return repr(number)
    return {inf: "+Inf", -inf: "-Inf"}.get(number, "NaN")
