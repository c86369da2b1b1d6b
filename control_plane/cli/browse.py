"""`tidegate queue browse`: the messages of a queue, without receiving them."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import click

from control_plane.cli.refusals import or_exit
from control_plane.cli.tables import printable

_PAGE_MAX: Final = 100
_BODY_CHARS: Final = 60
_ROW: Final = "{:<8}  {:<20}  {:>8}  {:<20}  {:<36}  {}"


@click.command("browse")
@click.argument("name")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100,
    metavar="COUNT",
    help="How many messages to show at most.",
)
@click.option("--json", "as_json", is_flag=True, help="Whole messages, one JSON object a line.")
@click.pass_obj
def browse(connect: Callable[[], Any], name: str, limit: int, *, as_json: bool) -> None:
    """Show the messages of a queue without receiving them.

    Waiting, delayed and in flight: no receive is counted, nothing becomes invisible. UNTIL says
    when a message that is delayed or in flight becomes visible.
    """
    found = _messages(connect(), name, limit + 1)
    first = or_exit(lambda: next(found, None))
    if not as_json:
        click.echo(_ROW.format("STATE", "UNTIL", "RECEIVED", "SENT", "ID", "BODY"))
    message, shown = first, 0
    while message is not None and shown < limit:
        click.echo(_as_json(message) if as_json else _as_row(message))
        message, shown = or_exit(lambda: next(found, None)), shown + 1
    if message is not None:
        click.echo(f"tidegate: there are more than {limit}; --limit shows more", err=True)


def _messages(client: Any, name: str, limit: int) -> Iterator[Mapping[str, Any]]:
    paginator = client.get_paginator("tidegate_browse_messages")
    page_size = min(limit, _PAGE_MAX)
    pages = paginator.paginate(QueueUrl=name, PaginationConfig={"PageSize": page_size})
    for page in pages:
        yield from page.get("Messages", [])


def _as_row(message: Mapping[str, Any]) -> str:
    attributes = message["Attributes"]
    return _ROW.format(
        message["State"],
        _time(message.get("VisibleTimestamp")),
        attributes["ApproximateReceiveCount"],
        _time(attributes["SentTimestamp"]),
        message["MessageId"],
        printable(message["Body"], _BODY_CHARS),
    )


def _time(time_ms: str | None) -> str:
    if time_ms is None:
        return ""
    return f"{datetime.fromtimestamp(int(time_ms) // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _as_json(message: Mapping[str, Any]) -> str:
    return json.dumps(message, default=_as_text)


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"no JSON for {type(value).__name__}")
