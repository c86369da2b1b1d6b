"""Actions that policies may name: one that does not exist allows nothing, which nobody means."""

import difflib
from collections.abc import Iterator
from typing import Final

from control_plane.core.access_policy import GRANTABLE_ACTIONS
from data_plane.core.json_documents import json_object
from data_plane.core.limits import OPERATION_BODY_BYTES_MAX
from data_plane.policy.evaluate import OWNER_ONLY_ACTIONS
from data_plane.policy.language import statements_of, texts_of
from data_plane.policy.patterns import read_parts, text_test

KNOWN: Final = {
    name.lower(): name
    for name in (*GRANTABLE_ACTIONS - {"*"}, *OWNER_ONLY_ACTIONS, *OPERATION_BODY_BYTES_MAX)
}
"""All operations, ours and batches among them: the permission for a batch is that of the single
message, but AWS lets policies name it."""

_SERVICE: Final = "sqs"


def unknown_action(policy: str) -> str | None:
    """What is wrong with the first action of a policy that is none of SQS's; None: nothing.

    Actions of other services are let be: a policy may be for several.
    """
    for text in _actions(policy):
        service, _, name = text.partition(":")
        if service.lower() != _SERVICE or _is_known(name.lower()):
            continue
        near = difflib.get_close_matches(name.lower(), KNOWN, n=1)
        hint = f" (it may be {_SERVICE}:{KNOWN[near[0]]})" if near else ""
        return f"there is no action {text}{hint}"
    return None


def _actions(policy: str) -> Iterator[str]:
    for member in statements_of(json_object(policy) or {}):
        if isinstance(member, dict):
            yield from texts_of(member.get("Action", member.get("NotAction")))


def _is_known(name: str) -> bool:
    matches = text_test(read_parts(name, wildcards=True, variables=False))
    return any(matches(known, {}) for known in KNOWN)
