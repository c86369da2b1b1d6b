"""Pages of other origins that the operator allows, towards a server with authentication (CORS)."""

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.integration.browser import browser, needs_browser
from tests.integration.evil_site import ARRIVES_S_MAX, Site
from tests.integration.server_process import ServerProcess, run_command
from tests.ports import free_port

SHOP = "http://localhost:3000"
EVIL = "http://evil.example"
TARGET = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.ListQueues"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("server")
    options = ("--allow-origin", f"https://shop.example, {SHOP}")
    started = ServerProcess(folder / "data", folder / "log", options=options, auth="on")
    started.start()
    yield started
    started.kill()


def answer(
    server: ServerProcess, method: str, headers: dict[str, str], body: bytes = b""
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    with closing(connection):
        connection.request(method, "/", body, headers)
        told = connection.getresponse()
        return (
            told.status,
            {name.lower(): text for name, text in told.getheaders()},
            told.read().decode(),
        )


BROWSERS_OWN = {"Origin", "Sec-Fetch-Site"}
CALLING = """<!doctype html><title>calls</title><script>
const tell = (what) => fetch(`/?attack=${location.hostname}-${what}`);
fetch("URL", {method: "POST", headers: HEADERS, body: "{}"})
  .then((answer) => tell(`read-${answer.status}`), () => tell("kept-away"));
</script>"""
"""It tells its own site what it could read."""

STREAMS = {
    "Content-Type": "application/x-amz-json-1.1",
    "X-Amz-Target": "Kinesis_20131202.ListStreams",
}


def signed(
    server: ServerProcess, origin: str, target: dict[str, str] = TARGET, service: str = "sqs"
) -> dict[str, str]:
    """What a page sends: the browser adds where it comes from."""
    request: Any = AWSRequest("POST", f"{server.url}/", headers=target, data=b"{}")
    SigV4Auth(Credentials(*server.access_key), service, "us-east-1").add_auth(request)
    return {**request.headers, "Origin": origin, "Sec-Fetch-Site": "cross-site"}


def asks(origin: str) -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-amz-date,x-amz-target",
    }


def test_an_allowed_page_asks_calls_and_sees(server: ServerProcess) -> None:
    status, headers, _ = answer(server, "OPTIONS", asks(SHOP))
    assert (status, headers["access-control-allow-origin"]) == (204, SHOP)
    allowed = headers["access-control-allow-headers"].split(", ")
    assert allowed == ["authorization", "content-type", "x-amz-date", "x-amz-target"]
    status, headers, body = answer(server, "POST", signed(server, SHOP), b"{}")
    assert (status, headers["access-control-allow-origin"]) == (200, SHOP)
    assert "QueueUrls" in body or body == "{}"


def test_an_allowed_page_calls_streams(server: ServerProcess) -> None:
    status, headers, body = answer(server, "POST", signed(server, SHOP, STREAMS, "kinesis"), b"{}")
    assert (status, headers["access-control-allow-origin"]) == (200, SHOP)
    assert json.loads(body)["StreamNames"] == []
    shown = headers["access-control-expose-headers"].split(", ")
    assert {"x-amz-id-2", "x-amzn-requestid"} <= headers.keys() & set(shown)
    refused = {**STREAMS, "Origin": SHOP}
    status, headers, body = answer(server, "POST", refused, b"{}")
    assert (status, headers["access-control-allow-origin"]) == (400, SHOP)
    assert "MissingAuthenticationToken" in body


@needs_browser
def test_a_browser_shows_an_allowed_page_what_it_called_and_others_nothing(tmp_path: Path) -> None:
    port = free_port()
    site = Site(port)
    try:
        options = ("--allow-origin", f"http://shop.example:{site.port}")
        server = ServerProcess(
            tmp_path / "data", tmp_path / "log", port=port, options=options, auth="on"
        )
        server.start()
        try:
            headers = {n: v for n, v in signed(server, "").items() if n not in BROWSERS_OWN}
            call = {"URL": f"{server.url}/", "HEADERS": json.dumps(headers)}
            for host, told in (("shop.example", "read-200"), ("evil.example", "kept-away")):
                page = re.sub("URL|HEADERS", lambda found: call[found[0]], CALLING)
                site.pages["/page"] = page
                with browser(f"http://{host}:{site.port}/page", tmp_path / host):
                    assert not site.wait_for({f"{host}-{told}"}, ARRIVES_S_MAX)
        finally:
            server.kill()
    finally:
        site.close()


def test_it_sees_why_it_is_refused(server: ServerProcess) -> None:
    headers = {**TARGET, "Origin": SHOP}
    status, told, body = answer(server, "POST", headers, b"{}")
    assert (status, told["access-control-allow-origin"]) == (403, SHOP)
    assert "MissingAuthenticationToken" in body


@pytest.mark.parametrize("origin", [EVIL, "null", f"{SHOP}.evil.example", "http://localhost"])
def test_another_page_is_not_let_in(server: ServerProcess, origin: str) -> None:
    """Its browser hears no leave, and shows it nothing; a signature is what it always was."""
    for method, headers, body in (
        ("OPTIONS", asks(origin), b""),
        ("POST", signed(server, origin), b"{}"),
    ):
        _, told, _ = answer(server, method, headers, body)
        assert not [name for name in told if name.startswith("access-control-")]


@pytest.mark.parametrize("path", ["/health", "/metrics"])
def test_pages_of_the_server_are_not_for_others(server: ServerProcess, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    with closing(connection):
        connection.request("GET", path, headers={"Origin": SHOP})
        assert connection.getresponse().getheader("access-control-allow-origin") is None


def test_without_authentication_no_page_may_be_allowed(tmp_path: Path) -> None:
    options = ("--auth", "off", "--data", str(tmp_path / "data"), "--port", "0")
    ended = run_command("serve", *options, "--allow-origin", SHOP)
    assert ended.returncode == 2
    assert "allow-origin: without authentication no page may call" in ended.stderr
