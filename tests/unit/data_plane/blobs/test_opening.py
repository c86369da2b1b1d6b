"""Where blobs lie, from what an operator says."""

from pathlib import Path

import pytest

from data_plane.blobs.buckets import connect, open_bucket
from data_plane.blobs.place import BlobsOpenError, S3Place, place_of


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "placeholder")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("s3://bodies", S3Place("bodies", "orders-1/", "", "eu-west-1")),
        ("s3://bodies/", S3Place("bodies", "orders-1/", "", "eu-west-1")),
        ("s3://bodies/a/b", S3Place("bodies", "a/b/orders-1/", "", "eu-west-1")),
        ("s3://bodies/a/b/", S3Place("bodies", "a/b/orders-1/", "", "eu-west-1")),
        ("data/blobs", Path("data/blobs/orders-1")),
        ("/srv", Path("/srv/orders-1")),
    ],
)
def test_each_cell_has_a_folder_of_its_own(setting: str, expected: S3Place | Path) -> None:
    assert place_of(setting, "orders-1", endpoint="", region="eu-west-1") == expected


def test_a_place_reads_as_it_is_set() -> None:
    assert str(place_of("s3://b-1/a", "x", endpoint="", region="r")) == "s3://b-1/a/x/"


def test_a_bucket_that_cannot_be_reached_is_named_in_one_line() -> None:
    place = S3Place("bodies", "a/", "http://127.0.0.1:1", "eu-west-1")
    with pytest.raises(BlobsOpenError, match="blobs: cannot use the bucket bodies") as raised:
        open_bucket(place)
    assert "\n" not in str(raised.value)


def test_a_client_makes_one_attempt_and_has_its_limits() -> None:
    place = S3Place("bodies", "a/", "http://127.0.0.1:1", "eu-west-1")
    config = connect(place, connections_max=7).meta.config
    assert config.retries["total_max_attempts"] == 1
    assert config.max_pool_connections == 7
    assert config.connect_timeout < config.read_timeout <= 5


@pytest.mark.parametrize("endpoint", ["http://[half", "nonsense"])
def test_an_endpoint_that_is_none_is_named(endpoint: str) -> None:
    with pytest.raises(BlobsOpenError, match="blobs: cannot use"):
        connect(S3Place("bodies", "a/", endpoint, "eu-west-1"), connections_max=1)
