"""Actions that policies may name: one that does not exist allows nothing, which nobody means."""

import difflib
from collections.abc import Iterator
from typing import Final

from control_plane.core.access_policy import ACTIONS, names_any
from data_plane.core.json_documents import json_object
from data_plane.policy.language import statements_of, texts_of

KNOWN: Final = {name.lower(): name for name in ACTIONS}
"""AWS lets policies of identities name batches, too, though the permission for one is that of the
single message."""

_SERVICE: Final = "sqs"


def unknown_action(policy: str) -> str | None:
    """What is wrong with the first action of a policy that is none of SQS's; None: nothing.

    Actions of other services are let be: a policy may be for several.
    """
    for text in _actions(policy):
        service, _, name = text.partition(":")
        if service.lower() != _SERVICE or names_any(name, KNOWN):
            continue
        near = difflib.get_close_matches(name.lower(), KNOWN, n=1)
        hint = f" (it may be {_SERVICE}:{KNOWN[near[0]]})" if near else ""
        return f"there is no action {text}{hint}"
    return None


def _actions(policy: str) -> Iterator[str]:
    for member in statements_of(json_object(policy) or {}):
        if isinstance(member, dict):
            yield from texts_of(member.get("Action", member.get("NotAction")))
