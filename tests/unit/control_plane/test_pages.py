import re
from pathlib import Path

import pytest

from control_plane.cells import StartError
from control_plane.pages import has_key, is_here, read_key

KEY = b"0123456789abcdef"
HERE = {"host": "127.0.0.1:9324"}


@pytest.mark.parametrize(
    ("client", "headers", "here"),
    [
        ("127.0.0.1:5000", HERE, True),
        ("127.9.9.9:5000", {"host": "localhost"}, True),
        ("[::1]:5000", {"host": "[::1]:9324"}, True),
        ("[::ffff:127.0.0.1]:5000", HERE, True),
        ("10.0.0.1:5000", HERE, False),
        ("[::ffff:10.0.0.1]:5000", HERE, False),
        ("", HERE, False),
        ("127.0.0.1:5000", {}, False),
        ("127.0.0.1:5000", {"host": "queues.example"}, False),
        ("127.0.0.1:5000", {"host": "10.0.0.1:9324"}, False),
        ("127.0.0.1:5000", {"host": "tidegate:9324"}, False),
        ("127.0.0.1:5000", {"host": "host.docker.internal"}, False),
        ("127.0.0.1:5000", {**HERE, "x-forwarded-for": "10.0.0.1"}, False),
        ("127.0.0.1:5000", {**HERE, "forwarded": "for=10.0.0.1"}, False),
        ("127.0.0.1:5000", {**HERE, "via": "1.1 proxy"}, False),
        ("127.0.0.1:5000", {**HERE, "sec-fetch-site": "cross-site"}, False),
        ("127.0.0.1:5000", {**HERE, "origin": "http://evil.example"}, False),
        ("127.0.0.1:5000", {**HERE, "sec-fetch-site": "none"}, True),
    ],
)
def test_who_is_on_this_machine(
    client: str,
    headers: dict[str, str],
    here: bool,  # noqa: FBT001 - a case
) -> None:
    assert is_here(headers, client) is here


@pytest.mark.parametrize(
    ("shown", "fits"),
    [
        ("Bearer 0123456789abcdef", True),
        ("bearer  0123456789abcdef", True),
        ("Bearer 0123456789abcdeg", False),
        ("Bearer 0123456789abcde", False),
        ("Bearer 0123456789abcdef0", False),
        ("Bearer", False),
        ("Basic 0123456789abcdef", False),
        ("0123456789abcdef", False),
        ("", False),
    ],
)
def test_a_key_is_shown_as_prometheus_does(shown: str, fits: bool) -> None:  # noqa: FBT001 - a case
    assert has_key({"authorization": shown}, KEY) is fits
    assert not has_key({}, KEY)


def test_a_file_with_a_key(tmp_path: Path) -> None:
    file = tmp_path / "metrics.key"
    file.write_bytes(KEY + b"\n")
    file.chmod(0o640)  # for the group of whoever scrapes
    assert read_key(file) == KEY


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (None, 0, "No such file or directory"),
        (KEY, 0o644, r"others may use it \(mode 644\); chmod 640 it"),
        (KEY, 0o660, r"others may use it \(mode 660\); chmod 640 it"),
        (b"short", 0o600, "a key has 16 to 1024 characters without spaces; openssl rand -hex 32 >"),
        (b"two words that are long", 0o600, "a key has 16 to 1024"),
        (b"k" * 1025, 0o600, "a key has 16 to 1024"),
        (b"", 0o600, "a key has 16 to 1024"),
    ],
)
def test_a_file_without_one_ends_the_start(
    tmp_path: Path, content: bytes | None, mode: int, said: str
) -> None:
    file = tmp_path / "metrics.key"
    if content is not None:
        file.write_bytes(content)
        file.chmod(mode)
    with pytest.raises(StartError, match=f"metrics-key: {re.escape(str(file))}: {said}"):
        read_key(file)
