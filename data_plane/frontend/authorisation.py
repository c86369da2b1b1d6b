"""The stage that lets policies decide who may do what: identity policies and the queue's own.

It stands before anything tells whether the queue exists. So who may not use a queue gets the same
answer where there is none. Refusals have the words of AWS; GetQueueUrl alone says of other
accounts' queues that they do not exist (recorded from AWS).
"""

from collections.abc import Awaitable, Sequence

from data_plane.core.caller import Caller
from data_plane.core.errors import (
    ACCESS_DENIED,
    QUEUE_DOES_NOT_EXIST,
    RefusedError,
)
from data_plane.core.identifiers import is_account, is_queue_name, is_region
from data_plane.core.partitions import partition_of
from data_plane.core.queue import Queue
from data_plane.frontend.condition_keys import ConditionKeys
from data_plane.frontend.exchange import Exchange, Stage
from data_plane.policy.evaluate import Decision, Request, decide
from data_plane.policy.language import Kind, Policy, compile_policy
from data_plane.ports import Queues
from data_plane.protocol.operation import Permission


def name_resource(exchange: Exchange) -> Awaitable[None] | None:
    """Note which resource of a service without queues the request is about, for logs and usage."""
    if exchange.served_by.has_queues or exchange.chosen.permissions is None:
        return None
    return _name_resource(exchange)


async def _name_resource(exchange: Exchange) -> None:
    exchange.permissions = await _elsewhere(exchange)
    for permission in exchange.permissions[:1]:
        exchange.queue_account = permission.account
        exchange.queue_name = permission.name.rpartition("/")[2]


def authorise(queues: Queues) -> Stage:
    """Raise RefusedError (AccessDenied) unless policies allow the call."""

    async def stage(exchange: Exchange) -> None:
        caller = exchange.caller
        if caller is None:
            raise TypeError("no stage has found the caller yet")
        operation = exchange.chosen
        if operation.on_queue:
            _check(exchange, caller, _on_queue(exchange), exchange.queue)
        else:
            for permission in exchange.permissions or await _elsewhere(exchange):
                if exchange.served_by.has_queues:
                    _check(exchange, caller, permission, await _find(queues, permission))
                else:
                    _check(
                        exchange, caller, permission, None, await _policy_of(exchange, permission)
                    )
        exchange.authorised = True

    return stage


def _on_queue(exchange: Exchange) -> Permission:
    operation = exchange.chosen
    return Permission(
        operation.action or operation.name,
        exchange.queue_account,
        exchange.region,
        exchange.queue_name,
        exchange.served_by.name,
    )


async def _elsewhere(exchange: Exchange) -> Sequence[Permission]:
    """What an operation needs that names its resources otherwise, or none."""
    operation = exchange.chosen
    if operation.permissions is not None:
        return await operation.permissions(exchange.account, exchange.region, exchange.params)
    action = operation.action or operation.name
    service = exchange.served_by.name
    return (Permission(action, exchange.account, exchange.region, "", service),)


async def _find(queues: Queues, permission: Permission) -> Queue | None:
    account, region, name = permission.account, permission.region, permission.name
    if not (is_account(account) and is_region(region) and is_queue_name(name)):
        return None
    return await queues.find(account, region, name)


async def _policy_of(exchange: Exchange, permission: Permission) -> str:
    policy_of = exchange.served_by.policy_of
    return await policy_of(permission) if policy_of is not None else ""


def _check(
    exchange: Exchange,
    caller: Caller,
    permission: Permission,
    queue: Queue | None,
    document: str = "",
) -> None:
    """Raise RefusedError unless it is allowed; `document` is the policy of what is no queue."""
    if queue is not None:
        document = queue.attributes.get("Policy") or ""
    decision = _decide(exchange, caller, permission, queue, document)
    if decision.allowed and queue is not None and not queue.is_stored:
        permission = permission._replace(action="CreateQueue")
        decision = _decide(exchange, caller, permission, None, "")
    if decision.allowed:
        return
    if exchange.chosen.hides and permission.account != caller.account:
        raise RefusedError(
            QUEUE_DOES_NOT_EXIST,
            "The specified queue does not exist or you do not have access to it.",
        )
    raise _denied(caller, permission, decision)


def _decide(
    exchange: Exchange,
    caller: Caller,
    permission: Permission,
    queue: Queue | None,
    document: str,
) -> Decision:
    request = Request(
        caller,
        permission.action_name,
        permission.arn,
        permission.account,
        ConditionKeys(exchange, caller, permission.account, queue),
    )
    identity: Sequence[Policy] = [compile_policy(text, Kind.IDENTITY) for text in caller.policies]
    resource = compile_policy(document, Kind.RESOURCE) if document else None
    return decide(request, identity, resource)


def _denied(caller: Caller, permission: Permission, decision: Decision) -> RefusedError:
    action = permission.shown_action
    if decision.explicit:
        article = "an" if decision.kind is Kind.IDENTITY else "a"
        why = f"with an explicit deny in {article} {decision.kind.value} policy"
    else:
        why = f"because no {decision.kind.value} policy allows the {action} action"
    return RefusedError(
        ACCESS_DENIED,
        f"User: {caller.arn_in(partition_of(permission.region))} is not authorized to perform: "
        f"{action} "
        f"on resource: {permission.arn} {why}",
    )
