"""What deployed jobs wrote, as the catalog describes it and digests have it; runs that fail."""

import base64
import csv
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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
    """Code and lines of `tidegate digest verify` on the bucket.

    Functions may have marked something since the digest: what is newer is allowed.
    """
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": story.jobs.deployed.url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "rehearsal",
        "AWS_SECRET_ACCESS_KEY": "rehearsal",
    }
    command = [sys.executable, "-m", "control_plane.cli", "digest", "verify", "--open", *options]
    ran = subprocess.run(
        [*command, f"s3://{story.bucket}"],
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


def public_key(story: Story, folder: Path) -> Path:
    """What the job's signatures are verified with."""
    (name,) = (
        key["KeyId"]
        for key in story.jobs.deployed.aws("kms").list_keys()["Keys"]
        if key_spec(story, key["KeyId"]) == "ECC_NIST_P256"
    )
    der = story.jobs.deployed.aws("kms").get_public_key(KeyId=name)["PublicKey"]
    path = folder / "digests.pem"
    text = base64.encodebytes(der).decode()
    path.write_text(f"-----BEGIN PUBLIC KEY-----\n{text}-----END PUBLIC KEY-----\n")
    return path


def key_spec(story: Story, name: str) -> str:
    described = story.jobs.deployed.aws("kms").describe_key(KeyId=name)
    return str(described["KeyMetadata"]["KeySpec"])


def test_digests_of_the_bucket_tell_each_change(story: Story, tmp_path: Path) -> None:
    (head,) = re.findall(r"head ([0-9a-f]{64})", story.runs["digest"].log)
    key = ("--key", str(public_key(story, tmp_path)))
    code, lines = verify(story, *key, "--head", head)
    assert (code, lines[-1].split()[:3]) == (0, ["head:", head, "1"])
    assert [line.split(":")[:2] for line in lines[1:-1]] == [
        ["not excluded", f" {attack}"]
        for attack in (
            *("object-added", "usage-or-mark-changed"),
            *("newest-cut-off", "older-head-replayed"),
        )
    ]
    (name, content), *_ = story.objects("bills/invoices/").items()
    flipped = bytes([content[0] ^ 1]) + content[1:]
    for wrong, told in (
        (flipped, f"changed: {name}: other bytes than before"),
        (
            content + b"0",
            f"changed: {name}: its size is {len(content) + 1} instead of {len(content)}",
        ),
        (None, f"missing: {name}"),
    ):
        with changed(story, name.removeprefix("bills/"), wrong):
            assert verify(story, *key) == (1, [told, lines[-1]])
    assert verify(story, *key, "--head", head) == (0, lines)


def test_a_run_that_fails_says_why_in_a_line(story: Story) -> None:
    wrong = story.jobs.run("bill", {"--close": "maybe"})
    assert wrong.code == 2
    assert wrong.log.splitlines() == ["bill: close: 'maybe' is neither yes nor no"]

    ran = story.jobs.run("digest", {"--hour": "2099-01-01T00"})
    assert ran.code == 1
    (line,) = ran.log.splitlines()
    assert line.startswith("digest: hour: 2099-01-01T00 is not over: 2")
