"""SetQueueAttributes: all of the given attributes, or none."""

from dataclasses import replace
from functools import partial

from control_plane.core import queue_attributes
from control_plane.core.definition import Definition
from control_plane.core.fifo_generations import generations_after
from control_plane.core.stream_queue import check_own
from control_plane.operations.addressing import queue_of
from control_plane.operations.dead_letter_target import check_dead_letter_target
from control_plane.operations.queue_messages import QueueMessages
from control_plane.places.groups import check_guarantee
from control_plane.queue_shapes import NOTHING, SET_QUEUE_ATTRIBUTES_INPUT
from control_plane.registry import Registry
from data_plane.core.errors import missing_parameter
from data_plane.core.queue import Queue
from data_plane.protocol.operation import Call, Operation, Params


class _LoweredMeanwhileError(Exception):
    """The retention is raised above what is stored, though not above what was known here."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition


def set_queue_attributes(registry: Registry, messages: QueueMessages) -> Operation:
    """The operation on this registry and these messages."""

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        given = call.params.get("Attributes") or {}
        if not given:
            raise missing_parameter("Attribute.Name")
        parsed = queue_attributes.parse(given, fifo=queue.fifo)
        queue_attributes.check_changeable(queue.attributes, parsed)
        if queue.reads_stream:
            check_own(parsed)
        await check_dead_letter_target(registry, queue, given, parsed)

        retention_s = int(parsed.get("MessageRetentionPeriod") or 0)

        def edit(definition: Definition, *, is_kept: bool) -> Definition:
            if not is_kept and retention_s > registry.queue(definition).retention_s:
                raise _LoweredMeanwhileError(definition)
            attributes = queue_attributes.apply(definition.attributes, parsed)
            check_guarantee(definition.cell, attributes)
            now_s = call.now_us // 1_000_000
            changed = replace(definition, attributes=attributes, modified_s=now_s)
            if not queue.fifo:
                return changed
            generations = generations_after(definition.generations, attributes, now_s)
            return replace(changed, generations=generations)

        async def keep(known: Queue) -> None:
            await messages.restamp(replace(known, retention_s=retention_s))
            await registry.restamp_later(known)

        is_kept = retention_s > queue.retention_s
        if is_kept:
            await keep(queue)
        try:
            changed = await registry.change(queue, partial(edit, is_kept=is_kept))
        except _LoweredMeanwhileError as lowered:
            await keep(registry.queue(lowered.definition))
            changed = await registry.change(queue, partial(edit, is_kept=True))
        messages.changed(registry.queue(changed))
        return {}

    return Operation("SetQueueAttributes", SET_QUEUE_ATTRIBUTES_INPUT, NOTHING, perform)
