"""`tidegate stream put`: records into a stream."""

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from control_plane.cli.connection import Connect
from control_plane.cli.refusals import or_exit
from control_plane.cli.setting import FILE
from control_plane.cli.start import INTERRUPTED
from data_plane.core.limits import PUT_RECORDS_MAX
from data_plane.system import SystemEntropy

_BATCH_BYTES: Final = 4 * 1024 * 1024
_READ_BYTES: Final = 1024 * 1024
_KEY_BYTES: Final = 8
_ENTROPY: Final = SystemEntropy()


@click.command(short_help="Put a record, or one for each line of standard input.")
@click.argument("name")
@click.argument("data", required=False)
@click.option("--key", metavar="KEY", show_default="another one for each", help="Partition key.")
@click.option("--file", type=FILE, metavar="FILE", help="What it has is one record.")
@click.option("--json", "as_json", is_flag=True, help="Where each is, one JSON object a line.")
@click.pass_obj
def put(  # noqa: PLR0913 - one for each option
    connect: Connect,
    name: str,
    data: str | None,
    *,
    key: str | None,
    file: Path | None,
    as_json: bool,
) -> None:
    """Put DATA, a file, or each line of standard input as it comes, into a stream.

    Records with the same key go to the same shard, and keep their order.
    """
    if data is not None and file is not None:
        raise click.UsageError("DATA and --file: one of them")
    batches: Iterable[list[bytes]] = [[_only(data, file)]]
    if data is None and file is None:
        batches = _batches(sys.stdin.buffer)
    client = connect("kinesis")
    count = 0
    try:
        for batch in batches:
            answers = or_exit(lambda: _put(client, name, batch, key))  # noqa: B023 - called at once
            count += len(answers)
            if as_json:
                click.echo("\n".join(map(json.dumps, answers)))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        if count and not as_json:
            click.echo(f"Put {count} record{'' if count == 1 else 's'}.")


def _only(data: str | None, file: Path | None) -> bytes:
    if file is None:
        return (data or "").encode(errors="surrogateescape")
    try:
        return file.read_bytes()
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error


def _batches(source: BinaryIO) -> Iterator[list[bytes]]:
    """The lines that there are, as they come, so many as a call takes."""
    batch: list[bytes] = []
    size = 0
    for line in _lines(source):
        if batch and (line is None or len(batch) == PUT_RECORDS_MAX or size > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        if line is not None:
            batch.append(line)
            size += len(line)


def _lines(source: BinaryIO) -> Iterator[bytes | None]:
    """Lines without their ends; None where no more have come yet."""
    begun = b""
    while read := source.read1(_READ_BYTES):  # type: ignore[attr-defined]
        *lines, begun = (begun + read).split(b"\n")
        yield from chain(lines, [None])
    if begun:
        yield begun
    yield None


def _put(client: Any, stream: str, batch: list[bytes], key: str | None) -> list[dict[str, Any]]:
    """Where each record is. Raises ValueError where some are not stored."""
    records = [
        {
            "Data": data,
            "PartitionKey": _ENTROPY.random_bytes(_KEY_BYTES).hex() if key is None else key,
        }
        for data in batch
    ]
    answer = client.put_records(StreamName=stream, Records=records)
    # Not tried again: a later one may be stored, and these would come behind it.
    failed = [result for result in answer["Records"] if "ErrorCode" in result]
    if failed:
        why = failed[0].get("ErrorMessage", failed[0]["ErrorCode"])
        raise ValueError(f"{len(failed)} of {len(batch)} records were not stored: {why}")
    return list(answer["Records"])
