"""`tidegate queue`: list, create, delete and browse queues of a server."""

from collections.abc import Callable, Iterable
from typing import Any

import click
from botocore.config import Config

import tidegate_sdk
from control_plane.cli.browse import browse
from control_plane.cli.refusals import or_exit

_COLUMNS = ("NAME", "VISIBLE", "IN FLIGHT", "DELAYED")
_COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


@click.group()
@click.option(
    "--endpoint",
    envvar="TIDEGATE_ENDPOINT",
    default="http://127.0.0.1:9324",
    show_envvar=True,
    help="Address of the server.",
)
@click.option(
    "--region",
    envvar=["TIDEGATE_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"],
    default="us-east-1",
    show_envvar=True,
    help="Region of the queues.",
)
@click.option(
    "--access-key-id",
    envvar="AWS_ACCESS_KEY_ID",
    default="tidegate",
    show_envvar=True,
    help="Access key id; without authentication an account id (12 digits) names the account.",
)
@click.option(
    "--secret-access-key",
    envvar="AWS_SECRET_ACCESS_KEY",
    default="tidegate",
    show_default=False,
    show_envvar=True,
    help="Secret of the access key; any serves without authentication.",
)
@click.pass_context
def queue(
    context: click.Context,
    endpoint: str,
    region: str,
    access_key_id: str,
    secret_access_key: str,
) -> None:
    """List, create, delete and browse queues."""

    def connect() -> Any:
        return tidegate_sdk.client(
            endpoint,
            region_name=region,
            aws_access_key_id=access_key_id,
            aws_secret_access_key=secret_access_key,
            config=Config(connect_timeout=5, retries={"total_max_attempts": 2}),
        )

    context.obj = connect


queue.add_command(browse)


@queue.command("list")
@click.option("--prefix", default="", show_default="all", help="Only names that begin so.")
@click.pass_obj
def list_queues(connect: Callable[[], Any], prefix: str) -> None:
    """List queues with their approximate numbers of messages."""

    def rows() -> list[tuple[str, ...]]:
        client = connect()
        pages = client.get_paginator("list_queues").paginate(
            QueueNamePrefix=prefix, PaginationConfig={"PageSize": 1000}
        )
        found: list[tuple[str, ...]] = []
        for page in pages:
            for url in page.get("QueueUrls", []):
                answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=list(_COUNTS))
                counts = answer["Attributes"]
                found.append((_name(url), *(counts[count] for count in _COUNTS)))
        return found

    for line in _table([_COLUMNS, *or_exit(rows)]):
        click.echo(line)


@queue.command("create")
@click.argument("name")
@click.option(
    "--attribute",
    "attributes",
    metavar="NAME=VALUE",
    multiple=True,
    show_default=False,
    help="An attribute of the queue, as SQS spells it; may be repeated.",
)
@click.pass_obj
def create_queue(connect: Callable[[], Any], name: str, attributes: tuple[str, ...]) -> None:
    """Create a queue and print its URL."""
    given: dict[str, str] = {}
    for attribute in attributes:
        key, equals, value = attribute.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{attribute!r} is not NAME=VALUE", param_hint="--attribute")
        given[key] = value
    answer = or_exit(lambda: connect().create_queue(QueueName=name, Attributes=given))
    click.echo(answer["QueueUrl"])


@queue.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete_queue(connect: Callable[[], Any], name: str, *, yes: bool) -> None:
    """Delete a queue and all messages in it."""
    client = connect()
    url = or_exit(lambda: client.get_queue_url(QueueName=name))["QueueUrl"]
    if not yes:
        click.confirm(f"Delete queue {name} and all messages in it?", abort=True)
    or_exit(lambda: client.delete_queue(QueueUrl=url))
    click.echo(f"Deleted {name}.")


def _name(url: str) -> str:
    return url.rpartition("/")[2]


def _table(rows: list[tuple[str, ...]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *counts in rows:
        cells = [count.rjust(width) for count, width in zip(counts, widths[1:], strict=True)]
        yield "  ".join([name.ljust(widths[0]), *cells])
