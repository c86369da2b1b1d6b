"""`tidegate queue send / receive / redrive / purge / attributes`."""

import json
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from control_plane.cli.confirming import confirm
from control_plane.cli.connection import Connect
from control_plane.cli.refusals import or_exit
from control_plane.cli.tables import json_option, tell
from control_plane.core.stream_queue import POSITION, STREAM_ARN, TIMESTAMP

_OF_STREAMS: Final = (STREAM_ARN, POSITION, TIMESTAMP)
"""What a queue over a stream has, and tells only who names it."""


@click.command(short_help="Send a message.")
@click.argument("name")
@click.argument("body", required=False)
@click.option("--delay", type=click.IntRange(min=0), metavar="SECONDS", help="Visible after that.")
@click.option("--group", metavar="ID", help="Message group; FIFO queues need one.")
@click.option("--deduplication-id", metavar="ID", help="Of a FIFO queue.")
@click.pass_obj
def send(  # noqa: PLR0913 - one for each option
    connect: Connect,
    name: str,
    body: str | None,
    *,
    delay: int | None,
    group: str | None,
    deduplication_id: str | None,
) -> None:
    """Send BODY, or what stands on standard input, to a queue; print the message's id."""
    text = sys.stdin.read() if body is None else body
    given = {
        "DelaySeconds": delay,
        "MessageGroupId": group,
        "MessageDeduplicationId": deduplication_id,
    }
    said = {key: value for key, value in given.items() if value is not None}

    def sent() -> str:
        answer = connect().send_message(QueueUrl=name, MessageBody=text, **said)
        return str(answer["MessageId"])

    click.echo(or_exit(sent))


@click.command(short_help="Receive messages; they come again, unless --delete is said.")
@click.argument("name")
@click.option("--max", "at_most", type=click.IntRange(1, 10), default=1, help="How many at most.")
@click.option("--wait", type=click.IntRange(0, 20), default=0, help="For how many seconds to wait.")
@click.option("--visibility", type=click.IntRange(min=0), help="Hidden for so many seconds.")
@click.option("--delete", is_flag=True, help="Delete what was printed.")
@click.option("--json", "as_json", is_flag=True, help="Whole messages, one JSON object a line.")
@click.pass_obj
def receive(  # noqa: PLR0913 - one for each option
    connect: Connect,
    name: str,
    *,
    at_most: int,
    wait: int,
    visibility: int | None,
    delete: bool,
    as_json: bool,
) -> None:
    """Receive messages and print their bodies; `queue browse` shows them without that.

    Code 3: there was none.
    """
    client = connect()
    asked: dict[str, Any] = {"MaxNumberOfMessages": at_most, "WaitTimeSeconds": wait}
    asked |= {"AttributeNames": ["All"], "MessageAttributeNames": ["All"]}
    if visibility is not None:
        asked["VisibilityTimeout"] = visibility
    messages = or_exit(lambda: client.receive_message(QueueUrl=name, **asked)).get("Messages", [])
    for message in messages:
        click.echo(json.dumps(message, default=bytes.hex) if as_json else message["Body"])
        if delete:
            handle = message["ReceiptHandle"]
            sys.stdout.flush()
            or_exit(lambda: client.delete_message(QueueUrl=name, ReceiptHandle=handle))  # noqa: B023 - called at once
    if not messages:
        sys.exit(3)


@click.command(short_help="Move the messages of a dead-letter queue back, or to another one.")
@click.argument("name")
@click.option("--to", metavar="NAME", show_default="where they came from", help="Another queue.")
@click.option("--per-second", type=click.IntRange(1, 500), help="So many a second at most.")
@json_option
@click.pass_obj
def redrive(
    connect: Connect, name: str, to: str | None, per_second: int | None, *, as_json: bool
) -> None:
    """Start to move what is in the dead-letter queue NAME, and show all tasks of it.

    Run it again to see how far it is: a task that runs is shown, and no other one is started.
    """

    def tasks() -> list[Mapping[str, Any]]:
        client = connect()
        source = _arn(client, name)
        found = client.list_message_move_tasks(SourceArn=source, MaxResults=10)["Results"]
        if not any(task["Status"] in {"RUNNING", "CANCELLING"} for task in found):
            given: dict[str, Any] = {}
            if per_second:
                given["MaxNumberOfMessagesPerSecond"] = per_second
            if to is not None:
                given["DestinationArn"] = _arn(client, to)
            client.start_message_move_task(SourceArn=source, **given)
            found = client.list_message_move_tasks(SourceArn=source, MaxResults=10)["Results"]
        return list(found)

    rows = [
        (
            task["Status"],
            task.get("ApproximateNumberOfMessagesMoved", 0),
            task.get("ApproximateNumberOfMessagesToMove", ""),
            task.get("FailureReason", ""),
        )
        for task in or_exit(tasks)
    ]
    tell(("STATUS", "MOVED", "OF", "FAILURE"), rows, as_json=as_json)


@click.command(short_help="Delete all messages of a queue.")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def purge(connect: Connect, name: str, *, yes: bool) -> None:
    """Delete all messages of a queue, also those in flight; the queue stays."""
    if not yes:
        or_exit(lambda: connect().get_queue_attributes(QueueUrl=name))
        confirm(f"Delete all messages in queue {name}?")
    or_exit(lambda: connect().purge_queue(QueueUrl=name))
    click.echo(f"Purged {name}.")


@click.command(short_help="Show the attributes of a queue, or change some.")
@click.argument("name")
@click.argument("changes", metavar="[NAME=VALUE]...", nargs=-1)
@json_option
@click.pass_obj
def attributes(connect: Connect, name: str, changes: tuple[str, ...], *, as_json: bool) -> None:
    """Show all attributes of a queue, after changing those that are given, as SQS spells them."""
    given = read_attributes(changes)

    def after() -> dict[str, str]:
        client = connect()
        if given:
            client.set_queue_attributes(QueueUrl=name, Attributes=given)
        names = ["All", *_OF_STREAMS]
        answer = client.get_queue_attributes(QueueUrl=name, AttributeNames=names)
        return dict(answer["Attributes"])

    found = or_exit(after)
    if as_json:
        click.echo(json.dumps(found, indent=2, sort_keys=True))
    else:
        tell(("ATTRIBUTE", "VALUE"), sorted(found.items()), as_json=False)


def read_attributes(texts: tuple[str, ...]) -> dict[str, str]:
    """Names and values of texts like DelaySeconds=5. Raises click.BadParameter."""
    given: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="attributes")
        given[key] = value
    return given


def _arn(client: Any, name: str) -> str:
    answer = client.get_queue_attributes(QueueUrl=name, AttributeNames=["QueueArn"])
    return str(answer["Attributes"]["QueueArn"])
