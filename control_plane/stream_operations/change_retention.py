"""IncreaseStreamRetentionPeriod and DecreaseStreamRetentionPeriod."""

from dataclasses import replace
from typing import Final

from control_plane.core.stream_definition import StreamDefinition, with_retention_lowered
from control_plane.stream_operations.named import begun_update, counts, on_stream, stream_named
from control_plane.streams import StreamRegistry
from data_plane.core.errors import INVALID_ARGUMENT, RefusedError
from data_plane.core.limits import STREAM_RETENTION_HOURS_MAX, STREAM_RETENTION_HOURS_MIN
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.stream_shapes import (
    DECREASE_RETENTION_INPUT,
    INCREASE_RETENTION_INPUT,
    NOTHING,
)

_HOURS: Final = "RetentionPeriodHours"


def increase_stream_retention_period(registry: StreamRegistry) -> Operation:
    """The operation on this registry. What is stored is kept for longer, if need be, by upkeep."""

    async def perform(call: Call) -> Params:
        hours = call.params[_HOURS]
        kept_hours = call.params.get("TidegateRetentionHoursMax", 0)
        _check(hours)

        def raised(definition: StreamDefinition) -> StreamDefinition:
            definition = begun_update(registry, definition, call.now_us)
            if hours < definition.retention_hours:
                raise _refused(definition, hours, "shorter", "DecreaseRetentionPeriod")
            longer = max(definition.hours_kept, hours, kept_hours)
            is_raised = longer > definition.hours_kept
            expired_us = definition.expired_us
            if hours > definition.retention_hours:
                # What is still stored of what has expired would be read again.
                expired_us = registry.horizon_us(definition)
            return replace(
                definition,
                expired_us=expired_us,
                retention_hours=hours,
                kept_hours=longer,
                raised_ms=call.now_us // 1_000 if is_raised else definition.raised_ms,
            )

        await registry.change(await stream_named(registry, call), raised)
        return {}

    name = "IncreaseStreamRetentionPeriod"
    return on_stream(name, INCREASE_RETENTION_INPUT, NOTHING, perform, counts(_HOURS))


def decrease_stream_retention_period(registry: StreamRegistry) -> Operation:
    """The operation on this registry; what is older is hidden at once, and goes by upkeep."""

    async def perform(call: Call) -> Params:
        hours = call.params[_HOURS]
        _check(hours)

        def lowered(definition: StreamDefinition) -> StreamDefinition:
            definition = begun_update(registry, definition, call.now_us)
            if hours > definition.retention_hours:
                raise _refused(definition, hours, "longer", "IncreaseRetentionPeriod")
            return with_retention_lowered(definition, hours, call.now_us // 1_000)

        await registry.change(await stream_named(registry, call), lowered)
        return {}

    name = "DecreaseStreamRetentionPeriod"
    return on_stream(name, DECREASE_RETENTION_INPUT, NOTHING, perform, counts(_HOURS))


def _check(hours: int) -> None:
    if hours < STREAM_RETENTION_HOURS_MIN:
        raise RefusedError(
            INVALID_ARGUMENT,
            f"Minimum allowed retention period is {STREAM_RETENTION_HOURS_MIN} hours. Requested"
            f" retention period ({hours} hours) is too short.",
        )
    if hours > STREAM_RETENTION_HOURS_MAX:
        raise RefusedError(
            INVALID_ARGUMENT,
            f"Maximum allowed retention period is {STREAM_RETENTION_HOURS_MAX} hours. Requested"
            f" retention period ({hours} hours) is too long.",
        )


def _refused(definition: StreamDefinition, hours: int, than: str, other: str) -> RefusedError:
    return RefusedError(
        INVALID_ARGUMENT,
        f"Requested retention period ({hours} hours) for stream {definition.name} can not be"
        f" {than} than existing retention period ({definition.retention_hours} hours). Use {other}"
        " API.",
    )
