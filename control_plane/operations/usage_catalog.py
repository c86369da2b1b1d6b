"""The operations on usage and budgets that a front end serves."""

from control_plane.operations.get_usage import get_usage
from control_plane.operations.set_budgets import set_budgets
from control_plane.operations.usage_access import UsageAccess
from control_plane.registry import Registry
from control_plane.streams import StreamRegistry
from data_plane.protocol.operation import Operation


def usage_operations(
    access: UsageAccess, registry: Registry, streams: StreamRegistry
) -> tuple[Operation, ...]:
    """All operations on usage."""
    return get_usage(access, registry, streams), set_budgets(access)
