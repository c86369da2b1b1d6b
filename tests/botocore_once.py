"""What botocore works out for each client anew, though it is always the same: here it is done once.

That is a third of what a client costs, and most tests make some. Nothing that a client sends, or
does with an answer, depends on it.
"""

import inspect
from typing import Any, Final

import botocore.endpoint_provider
import botocore.hooks
from botocore.endpoint_provider import RuleSet
from botocore.hooks import EventAliaser

_HOOKS: Final[Any] = botocore.hooks
_ALIASER: Final[Any] = EventAliaser


def work_out_once() -> None:
    """Share rules of endpoints, and names of events, between all clients of this process."""
    right_name, right_look = _ALIASER._alias_event_name, _HOOKS.accepts_kwargs
    rules: dict[tuple[int, int], tuple[object, RuleSet]] = {}
    names: dict[str, str] = {}

    def rule_set(**data: Any) -> RuleSet:
        key = id(data["rules"]), id(data["partitions"])
        if key not in rules:  # With what it is made from, so that ids stay its own.
            rules[key] = data, RuleSet(**data)
        return rules[key][1]

    def new_name(aliaser: EventAliaser, name: str) -> str:
        if name not in names:
            names[name] = right_name(aliaser, name)
        return names[name]

    def accepts_kwargs(function: Any) -> Any:
        code = getattr(function, "__code__", None)
        return right_look(function) if code is None else code.co_flags & inspect.CO_VARKEYWORDS

    botocore.endpoint_provider.RuleSet = rule_set  # type: ignore[assignment,misc]
    _ALIASER._alias_event_name = new_name
    _HOOKS.accepts_kwargs = accepts_kwargs
