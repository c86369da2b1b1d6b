"""The check of a RedrivePolicy that needs to know the other queues."""

from collections.abc import Mapping
from typing import Protocol

from control_plane.core.attribute_documents import (
    allows_source,
    invalid_redrive_policy,
    redrive_policy,
)
from control_plane.core.definition import Definition
from data_plane.core.queue import Queue


class Definitions(Protocol):
    """Where queues are looked up; the registry is one such place."""

    async def read(self, account: str, region: str, name: str) -> Definition | None:
        """The definition, or None where there is no such queue."""
        ...


async def check_dead_letter_target(
    registry: Definitions, source: Queue, given: Mapping[str, str], parsed: Mapping[str, str]
) -> None:
    """Raise RefusedError (InvalidParameterValue) unless `source` may name its dead-letter queue.

    `given` holds the attributes as the caller wrote them, `parsed` their canonical form.
    """
    if not parsed.get("RedrivePolicy"):
        return
    text = given["RedrivePolicy"]
    policy = redrive_policy(parsed["RedrivePolicy"])
    if policy.dead_letter_queue.endswith(".fifo") != source.fifo:
        raise invalid_redrive_policy(
            text, "Dead-letter queue must be same type of queue as the source.."
        )
    if policy.region != source.region:
        raise invalid_redrive_policy(
            text, "Dead-letter target must be in same region as the source."
        )
    if policy.account != source.account:
        raise invalid_redrive_policy(text, "Dead-letter target owner should be same as the source.")
    target = await registry.read(policy.account, policy.region, policy.dead_letter_queue)
    if target is None:
        raise invalid_redrive_policy(text, "Dead letter target does not exist.")
    if target.stream_uid:
        raise invalid_redrive_policy(text, "Dead letter target reads a stream.")
    allowed = target.attributes.get("RedriveAllowPolicy", "")
    if policy.dead_letter_queue == source.name:
        allowed = parsed.get("RedriveAllowPolicy", allowed)
    if not allows_source(allowed, source.arn):
        raise invalid_redrive_policy(
            text, "The redrive allow policy of the dead letter target does not allow this source."
        )
