"""TidegateGetUsage: what an account has used in a month, and what that costs so far."""

import re
from typing import Final

from control_plane.core.month_usage import (
    Amounts,
    Lines,
    MonthUsage,
    NoPriceError,
    PageToken,
    cost_text,
    grouped,
    period_before,
    read_token,
    total_of,
)
from control_plane.core.stream_definition import StreamDefinition
from control_plane.operations.usage_access import UsageAccess, present_period, rendered_budget
from control_plane.registry import Registry
from control_plane.streams import StreamRegistry
from control_plane.usage_shapes import GET_USAGE_INPUT, GET_USAGE_OUTPUT
from data_plane.core.errors import INVALID_PARAMETER_VALUE, UNSUPPORTED_OPERATION, RefusedError
from data_plane.core.limits import USAGE_ROWS_MAX, USAGE_TAGGED_QUEUES_MAX
from data_plane.core.queue import Queue
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.queue_shapes import QUEUE_SHAPES

NAME: Final = "TidegateGetUsage"

_MONTHS_BACK_MAX: Final = 13
_OF_STREAMS: Final = "kinesis:"
_STREAM: Final = "stream/"
_QUEUE_OF_KINESIS: Final = "queue/"
_ON_QUEUES_OF_KINESIS: Final = frozenset(f"{_OF_STREAMS}{name}" for name in QUEUE_SHAPES)
_TAG: Final = "Tag"
_GROUPS: Final = {
    "Day": ("day",),
    "Region": ("region",),
    "Queue": ("region", "queue"),
    "Operation": ("operation",),
    _TAG: ("tag",),
}
_MEMBERS: Final = {
    "day": "Day",
    "region": "Region",
    "queue": "QueueName",
    "operation": "Operation",
    "tag": "TagValue",
}
_is_period: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])").fullmatch


def get_usage(access: UsageAccess, registry: Registry, streams: StreamRegistry) -> Operation:
    """For each account its own; for the operator any."""

    async def perform(call: Call) -> Params:
        account = access.account_of(call, NAME)
        usage = access.counted()
        period = _period(call)
        by = _grouping(call)
        size = _page_size(call)
        after = _after(call, len(by))
        try:
            month = await usage.month(account, period)
        except NoPriceError as error:
            raise RefusedError(UNSUPPORTED_OPERATION, f"{error}.") from error
        lines = _told_apart(month.lines)
        tag: str = call.params.get("TagKey") or ""
        tags = await _tags(tag, registry, streams, account, lines)
        rows = grouped(lines, by, tags)
        left = [row for row in rows if after is None or row[0] > after.key]
        output = _rendered(account, month)
        if left:
            output["Usage"] = [_rendered_row(by, *row) for row in left[:size]]
        if len(left) > size:
            output["NextToken"] = PageToken(left[size - 1][0]).text()
        if after is None:
            held = await access.budgets.of(account)
            if held.budgets:
                output["Budgets"] = [rendered_budget(one, period) for one in held.budgets]
        return output

    return Operation(NAME, GET_USAGE_INPUT, GET_USAGE_OUTPUT, perform, on_queue=False)


def _period(call: Call) -> str:
    present = present_period(call)
    period: str = call.params.get("Period") or present
    oldest = period_before(present, _MONTHS_BACK_MAX)
    if not _is_period(period) or not oldest <= period <= present:
        raise _invalid(f"Period must be a month, YYYY-MM, from {oldest} to {present}.")
    return period


def _grouping(call: Call) -> tuple[str, ...]:
    wanted: list[str] = call.params.get("GroupBy") or ["Queue"]
    for name in wanted:
        if name not in _GROUPS:
            raise _invalid(f"GroupBy takes {', '.join(_GROUPS)}.")
    if (_TAG in wanted) != bool(call.params.get("TagKey")):
        raise _invalid("GroupBy Tag and TagKey belong together.")
    members = (member for name in wanted for member in _GROUPS[name])
    return tuple(dict.fromkeys(members))


def _page_size(call: Call) -> int:
    size: int = call.params.get("MaxResults", USAGE_ROWS_MAX)
    if not 1 <= size <= USAGE_ROWS_MAX:
        raise _invalid(f"MaxResults must be between 1 and {USAGE_ROWS_MAX}.")
    return size


def _after(call: Call, width: int) -> PageToken | None:
    token: str = call.params.get("NextToken") or ""
    if not token:
        return None
    try:
        return read_token(token, width)
    except (ValueError, RecursionError) as error:
        raise _invalid("Invalid NextToken value.") from error


def _told_apart(lines: Lines) -> Lines:
    """The lines, in which what Kinesis has gets names that no queue of SQS can have."""
    return {
        key._replace(queue=_kind(key.operation) + key.queue) if key.queue else key: amounts
        for key, amounts in lines.items()
    }


def _kind(operation: str) -> str:
    """What stands before the name of what an operation is on."""
    if operation in _ON_QUEUES_OF_KINESIS:
        return _QUEUE_OF_KINESIS
    return _STREAM if operation.startswith(_OF_STREAMS) else ""


async def _tags(
    tag: str, registry: Registry, streams: StreamRegistry, account: str, lines: Lines
) -> dict[tuple[str, str], str]:
    """Values of the tag that queues and streams have now, by region and name ("": of none).

    Raises RefusedError.
    """
    names = sorted({(its.region, its.queue) for its in lines if its.queue}) if tag else []
    if len(names) > USAGE_TAGGED_QUEUES_MAX:
        raise _invalid(f"Tags are looked up for {USAGE_TAGGED_QUEUES_MAX} queues at most.")
    found = {}
    for region, name in names:
        tagged: Queue | StreamDefinition | None
        if name.startswith(_STREAM):
            tagged = await streams.read(account, region, name.removeprefix(_STREAM))
        else:
            tagged = await registry.find(account, region, name)
        if tagged is not None and tag in tagged.tags:
            found[region, name] = tagged.tags[tag]
    return found


def _rendered(account: str, month: MonthUsage) -> dict[str, object]:
    return {
        "AccountId": account,
        "Period": month.period,
        "Currency": month.currency,
        "PriceBook": month.book,
        "AsOfTimestamp": month.as_of_us // 1_000_000,
        "Total": _rendered_amounts(total_of(month.lines.values())),
    }


def _rendered_row(by: tuple[str, ...], key: tuple[str, ...], amounts: Amounts) -> Params:
    named = {_MEMBERS[name]: value for name, value in zip(by, key, strict=True)}
    return {**named, **_rendered_amounts(amounts)}


def _rendered_amounts(amounts: Amounts) -> dict[str, object]:
    return {
        "Requests": amounts.requests,
        "Units": amounts.units,
        "Messages": amounts.messages,
        "Bytes": amounts.bytes,
        "Cost": cost_text(amounts.cost),
    }


def _invalid(message: str) -> RefusedError:
    return RefusedError(INVALID_PARAMETER_VALUE, message)
