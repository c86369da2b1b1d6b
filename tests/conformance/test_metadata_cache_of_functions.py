"""Sandboxes that share nodes of memcached find what another one has read of the registry."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import boto3
import pytest
from moto import mock_aws

from control_plane.metadata_cache.memcached import MemcachedNode
from control_plane.serverless.opening import Opened
from control_plane.serverless.sandbox import Sandbox
from control_plane.serverless.settings import VariableError
from data_plane.dynamodb.opening import make_table
from tests.conformance.memcached_server import ProtocolServer
from tests.integration.certificates import make_certificates

REGION = "eu-west-1"
ACCOUNT = "111122223333"


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """A sandbox takes the log of its process for its own."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProtocolServer]:
    # So that a busy machine loses no answer.
    monkeypatch.setattr("control_plane.metadata_cache.memcached.ANSWER_S", 10.0)
    started = ProtocolServer()
    yield started
    started.stop()


@pytest.fixture
def environ(node: ProtocolServer) -> Iterator[dict[str, str]]:
    with mock_aws():
        make_table(boto3.client("dynamodb", region_name=REGION), "cached")
        where: Any = {"LocationConstraint": REGION}
        s3 = boto3.client("s3", region_name=REGION)
        s3.create_bucket(Bucket="cached-bodies", CreateBucketConfiguration=where)
        kms = boto3.client("kms", region_name=REGION)
        yield {
            "AWS_REGION": REGION,
            "TIDEGATE_TABLE": "cached",
            "TIDEGATE_BLOBS": "s3://cached-bodies",
            "TIDEGATE_KMS_KEY": kms.create_key()["KeyMetadata"]["Arn"],
            "TIDEGATE_METADATA_CACHE": f"127.0.0.1:{node.port}",
            "TIDEGATE_METADATA_CACHE_LAYOUT": "whole-copy",
        }


@pytest.fixture
def open_sandbox(environ: dict[str, str]) -> Iterator[Callable[[], Opened]]:
    sandboxes: list[Opened] = []

    def open_one() -> Opened:
        sandboxes.append(Sandbox(environ).opened)
        return sandboxes[-1]

    yield open_one
    for opened in sandboxes:
        (node,) = nodes_of(opened)
        node.close()


def nodes_of(opened: Opened) -> tuple[MemcachedNode, ...]:
    assert opened.ground.cache_nodes is not None
    return cast("tuple[MemcachedNode, ...]", opened.ground.cache_nodes.nodes)


def create(opened: Opened, name: str) -> None:
    registry, now_us = opened.service.registry, opened.clock.now_us()
    wanted = registry.define(
        account=ACCOUNT, region=REGION, name=name, attributes={}, tags={}, now_us=now_us
    )
    opened.run(registry.create(wanted, {}, now_us))


def is_there(opened: Opened, name: str) -> bool:
    return opened.run(opened.service.registry.find(ACCOUNT, REGION, name)) is not None


def test_a_sandbox_finds_what_another_has_read(
    open_sandbox: Callable[[], Opened], node: ProtocolServer
) -> None:
    create(open_sandbox(), "jobs")
    assert is_there(open_sandbox(), "jobs")
    third = open_sandbox()
    assert is_there(third, "jobs")
    # Who makes a queue asks for the account's quotas first.
    assert node.commands == [b"gets", b"set", b"gets", b"cas", b"gets"]
    assert [each.counters.hits for each in nodes_of(third)] == [1]


def test_a_sandbox_goes_on_without_its_nodes(
    open_sandbox: Callable[[], Opened], node: ProtocolServer
) -> None:
    node.stop()
    opened = open_sandbox()
    create(opened, "jobs")
    assert is_there(opened, "jobs")
    assert is_there(open_sandbox(), "jobs")
    node.start()


def test_a_sandbox_asks_nodes_over_tls(
    open_sandbox: Callable[[], Opened],
    environ: dict[str, str],
    node: ProtocolServer,
    tmp_path: Path,
) -> None:
    made = make_certificates(tmp_path)
    node.tls = made.served()
    environ["TIDEGATE_METADATA_CACHE_TLS"] = str(made.authority)
    create(open_sandbox(), "jobs")
    assert node.commands == [b"gets", b"set"]


def test_a_sandbox_does_not_start_with_a_file_that_is_none(environ: dict[str, str]) -> None:
    with pytest.raises(VariableError, match=r"^TIDEGATE_METADATA_CACHE_TLS: nowhere.pem: No such"):
        Sandbox({**environ, "TIDEGATE_METADATA_CACHE_TLS": "nowhere.pem"}).opened  # noqa: B018 - fails
