"""A stage's options from a TOML file: its tables and keys are the dataclasses of options.py."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from infra.option_checks import OptionError
from infra.options import StageOptions

STAGES: Final = Path(__file__).parent / "stages"

_NOT_OFFERED: Final = {
    "further_regions": "not offered: definitions, big bodies and keys would stay in one region"
    " (docs/adr/0023-a-stage-has-one-region.md); what is there has to be drained and removed first",
    "monitoring.further_topics": "not offered: a stage has one region",
}
"""What stage files could say once, and why they cannot any more."""


def read_stage(stage: str, *, topic: str = "", email: str = "") -> StageOptions:
    """The options of a stage: a name in `stages/`, or the path of a TOML file.

    `topic` and `email` ("": as the file says) stand for those of its table `monitoring`. A stage
    that keeps its messages needs one of them: an alarm that nobody hears is none. Raises
    OptionError.
    """
    path = Path(stage) if stage.endswith(".toml") else STAGES / f"{stage}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        known = ", ".join(sorted(path.stem for path in STAGES.glob("*.toml")))
        raise OptionError(
            "stage", f"cannot read {path}: {error.strerror}; there are {known}, or a path"
        ) from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OptionError("stage", f"{path} is no TOML: {error}") from error
    for option, value in (("topic", topic), ("email", email)):
        if value:
            document.setdefault("monitoring", {})[option] = value
    options = parse_stage(document)
    if options.state.keeps and not options.monitoring.tells:
        told = "name a topic or an email: this stage keeps messages, so somebody has to hear alarms"
        raise OptionError("monitoring.topic", told)
    return options


def parse_stage(document: Mapping[str, Any]) -> StageOptions:
    """The options that a document says. Raises OptionError for what it does not know, too."""
    parsed: StageOptions = _parse_table(StageOptions, document, "")
    return parsed


def _parse_table(kind: Any, document: Mapping[str, Any], place: str) -> Any:
    hints = get_type_hints(kind)
    for name in document:
        if place + name in _NOT_OFFERED:
            raise OptionError(place + name, _NOT_OFFERED[place + name])
        if name not in hints:
            raise OptionError(place + name, f"unknown; there are {', '.join(hints)}")
    for option in fields(kind):
        required = option.default is MISSING and option.default_factory is MISSING
        if required and option.name not in document:
            raise OptionError(place + option.name, "missing")
    values = {name: _parse(hints[name], value, place + name) for name, value in document.items()}
    try:
        return kind(**values)
    except OptionError as error:
        raise OptionError(place + error.option, error.reason) from None


def _parse(kind: Any, value: Any, place: str) -> Any:
    if is_dataclass(kind):
        if not isinstance(value, dict):
            raise OptionError(place, f"{value!r} is no table of options")
        return _parse_table(kind, value, f"{place}.")
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise OptionError(place, f"{value!r} is no list")
        inner = get_args(kind)[0]
        return tuple(_parse(inner, one, f"{place}[{at}]") for at, one in enumerate(value))
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    # A bool is an int to isinstance().
    if type(value) not in kinds:
        names = " or ".join(one.__name__ for one in kinds if one is not NoneType)
        raise OptionError(place, f"{value!r} is not of type {names}")
    return value
