"""What deployed jobs wrote, as the catalog describes it and digests have it; runs that fail."""

import csv
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.integration.server_process import ROOT
from tests.rehearsal.deployment.story import Story
from tests.rehearsal.emulators import REGION

pytestmark = pytest.mark.xdist_group("deployment")

TABLES: Final = {
    *("usage_records", "usage_hourly", "rated", "invoice_lines"),
    *("audit_conservation", "audit_metered", "audit_findings", "audit_access"),
}
HIVE: Final = {pa.string(): "string", pa.int64(): "bigint", pa.int32(): "int"}


def tables(story: Story) -> dict[str, dict[str, Any]]:
    """The catalog's tables by their names."""
    catalog = story.jobs.deployed.aws("glue")
    found = catalog.get_tables(DatabaseName="tidegate_rehearsal")["TableList"]
    return {table["Name"]: table for table in found}


def files_of(story: Story, table: dict[str, Any]) -> dict[str, bytes]:
    """The objects that a query of a table reads, by their partitions' folders."""
    place = table["Parameters"]["storage.location.template"]
    assert place.startswith(table["StorageDescriptor"]["Location"])
    prefix = place.removeprefix(f"s3://{story.bucket}/")
    keys = [key["Name"] for key in table["PartitionKeys"]]
    assert re.findall(r"\$\{(\w+)\}", prefix) == keys
    pattern = re.sub(r"\\\$\\\{\w+\\\}", "[^/=]+", re.escape(prefix))
    top = prefix.partition("$")[0]
    every = story.objects(top)
    return {name: its for name, its in every.items() if re.fullmatch(f"{pattern}/[^/]+", name)}


def types_of(content: bytes) -> list[tuple[str, str]]:
    """Columns of a Parquet file as Hive names their types."""
    schema = parquet.read_schema(io.BytesIO(content))
    return [
        (column.name, HIVE.get(column.type) or str(column.type).replace("128", "").replace(" ", ""))
        for column in schema
    ]


def test_the_catalog_has_the_columns_and_partitions_of_files(story: Story) -> None:
    found = tables(story)
    assert set(found) == TABLES
    for name, table in found.items():
        files = files_of(story, table)
        assert files, name
        columns = [(one["Name"], one["Type"]) for one in table["StorageDescriptor"]["Columns"]]
        for content in files.values():
            if name.startswith("audit_"):
                header = next(csv.reader(io.StringIO(content.decode())))
                assert columns == [(column, "string") for column in header], name
            else:
                assert types_of(content) == columns, name


def verify(story: Story, *options: str) -> tuple[int, list[str]]:
    """Code and lines of `tidegate digest verify` on the bucket."""
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": story.jobs.deployed.url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "rehearsal",
        "AWS_SECRET_ACCESS_KEY": "rehearsal",
    }
    command = [sys.executable, "-m", "control_plane.cli", "digest", "verify", *options]
    ran = subprocess.run(
        [*command, f"s3://{story.bucket}/bills"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not ran.stderr
    return ran.returncode, ran.stdout.splitlines()


@contextmanager
def changed(story: Story, name: str, content: bytes | None) -> Iterator[None]:
    """An object with other bytes, or without any."""
    s3, its = story.jobs.deployed.aws("s3"), {"Bucket": story.bucket, "Key": f"bills/{name}"}
    before = story.objects(its["Key"]).get(its["Key"])
    try:
        put(s3, its, content)
        yield
    finally:
        put(s3, its, before)


def put(s3: Any, its: dict[str, str], content: bytes | None) -> None:
    if content is None:
        s3.delete_object(**its)
    else:
        s3.put_object(**its, Body=content)


def test_digests_of_the_bucket_tell_each_change(story: Story) -> None:
    (head,) = re.findall(r"head ([0-9a-f]{64})", story.runs["digest"].log)
    code, lines = verify(story, "--head", head)
    assert (code, [line.split()[:3] for line in lines]) == (0, [["head:", head, "1"]])
    (name, content), *_ = (
        (name.removeprefix("bills/"), content)
        for name, content in story.objects("bills/invoices/").items()
    )
    flipped = bytes([content[0] ^ 1]) + content[1:]
    for wrong, told in (
        (flipped, f"changed: {name}: other bytes than before"),
        (content + b"0", f"changed: {name}: {len(content) + 1} bytes instead of {len(content)}"),
        (None, f"missing: {name}"),
    ):
        with changed(story, name, wrong):
            assert verify(story) == (1, [told, lines[-1]])
    with changed(story, "invoices/.added", b""):
        assert verify(story) == (1, ["added: invoices/.added: no digest names it", lines[-1]])
    assert verify(story) == (0, lines)


def test_a_run_that_fails_says_why_in_a_line(story: Story) -> None:
    wrong = story.jobs.run("bill", {"--close": "maybe"})
    assert wrong.code == 2
    assert wrong.log.splitlines() == ["bill: close: 'maybe' is neither yes nor no"]

    name = next(iter(story.objects("bills/invoices/"))).removeprefix("bills/")
    with changed(story, name, None):
        ran = story.jobs.run("digest", {"--hour": "2099-01-01T00"})
    assert ran.code == 1
    place = f"s3://{story.bucket}/bills"
    told = f"digest: {place}: an object that is in the chain is gone: {name}"
    assert ran.log.splitlines() == [told]
