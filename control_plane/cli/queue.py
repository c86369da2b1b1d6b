"""`tidegate queue`: queues of a server, and their messages."""

import click

from control_plane.cli.browse import browse
from control_plane.cli.confirming import confirm
from control_plane.cli.connection import Connect, ConnectedGroup, connecting
from control_plane.cli.queue_messages import (
    attributes,
    purge,
    read_attributes,
    receive,
    redrive,
    send,
)
from control_plane.cli.refusals import or_exit
from control_plane.cli.tables import json_option, tell

_COLUMNS = ("NAME", "VISIBLE", "IN FLIGHT", "DELAYED")
_COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


@click.group(cls=ConnectedGroup)
@connecting
def queue() -> None:
    """List, create, change and delete queues; send, receive, browse and move messages.

    A NAME may be a queue's URL, too, as `create` prints it.
    """


for _command in (browse, send, receive, redrive, purge, attributes):
    queue.add_command(_command)


@queue.command("list")
@click.option("--prefix", default="", show_default="all", help="Only names that begin so.")
@json_option
@click.pass_obj
def list_queues(connect: Connect, prefix: str, *, as_json: bool) -> None:
    """List queues with their approximate numbers of messages."""

    def rows() -> list[tuple[str | int, ...]]:
        client = connect()
        pages = client.get_paginator("list_queues").paginate(
            QueueNamePrefix=prefix, PaginationConfig={"PageSize": 1000}
        )
        found: list[tuple[str | int, ...]] = []
        for page in pages:
            for url in page.get("QueueUrls", []):
                answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=list(_COUNTS))
                counts = answer["Attributes"]
                found.append((_name(url), *(int(counts[count]) for count in _COUNTS)))
        return found

    tell(_COLUMNS, or_exit(rows), as_json=as_json, numbers=True)


@queue.command("create")
@click.argument("name")
@click.option(
    "--attribute",
    "given_texts",
    metavar="NAME=VALUE",
    multiple=True,
    show_default=False,
    help="An attribute of the queue, as SQS spells it; may be repeated.",
)
@click.pass_obj
def create_queue(connect: Connect, name: str, given_texts: tuple[str, ...]) -> None:
    """Create a queue and print its URL."""
    given = read_attributes(given_texts)
    answer = or_exit(lambda: connect().create_queue(QueueName=name, Attributes=given))
    click.echo(answer["QueueUrl"])


@queue.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete_queue(connect: Connect, name: str, *, yes: bool) -> None:
    """Delete a queue and all messages in it."""
    if not yes:
        or_exit(lambda: connect().get_queue_attributes(QueueUrl=name))
        confirm(f"Delete queue {name} and all messages in it?")
    or_exit(lambda: connect().delete_queue(QueueUrl=name))
    click.echo(f"Deleted {name}.")


def _name(url: str) -> str:
    return url.rpartition("/")[2]
