"""Web pages of other origins change and read nothing on a server without authentication.

A real browser where there is one; what browsers send, written by hand, everywhere.
"""

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.integration.browser import browser, needs_browser, shown
from tests.integration.evil_site import ARRIVES_S_MAX, ATTACKS, SAME_ORIGIN, Site
from tests.integration.server_process import ServerProcess

EVERY_ATTACK = set(re.findall(r'(?:get|post|form|call)\("([a-z-]+)"', ATTACKS))
EVIL = "http://evil.example"
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140 Safari"


@pytest.fixture
def site(server: ServerProcess) -> Iterator[Site]:
    opened = Site(server.port)
    yield opened
    opened.close()


@needs_browser
def test_a_page_that_tries_everything(server: ServerProcess, site: Site, tmp_path: Path) -> None:
    queue = server.client().create_queue(QueueName="precious")["QueueUrl"]
    site.pages["/"] = (
        ATTACKS.replace("QUEUE", queue)
        .replace("TARGET", f"http://127.0.0.1:{site.port}")
        .replace("REBOUND", f"http://rebound.example:{site.port}")
        .replace("ANY_ADDRESS", f"http://0.0.0.0:{site.port}")
    )
    # Browsers may keep pages from 0.0.0.0 by themselves, and some do; few show a page beforehand.
    site.awaited = EVERY_ATTACK - {"any-address", "navigation", "prerender"}
    with browser(f"{EVIL}:{site.port}/", tmp_path):
        missing = site.wait_for({*site.awaited, "navigation"}, 2 * ARRIVES_S_MAX)
    assert not missing
    let_in = [one for one in site.arrived if one.attack and one.status != 403]
    assert not let_in
    assert server.client().list_queues()["QueueUrls"] == [queue]
    methods = {(one.attack, one.method) for one in site.arrived}
    assert {("form-post", "POST"), ("preflight", "OPTIONS"), ("beacon", "POST")} <= methods
    origins = {one.headers.get("origin") for one in site.arrived}
    assert {f"{EVIL}:{site.port}", "null", None} <= origins


@needs_browser
def test_a_page_of_the_same_origin(server: ServerProcess, site: Site, tmp_path: Path) -> None:
    site.pages["/page"] = SAME_ORIGIN
    with browser(f"http://127.0.0.1:{site.port}/page", tmp_path):
        assert not site.wait_for({"own-get", "own-post"}, ARRIVES_S_MAX)
    made = server.client().list_queues()["QueueUrls"]
    assert [url.rpartition("/")[2] for url in made] == ["own-get", "own-post"]


@needs_browser
def test_what_somebody_types(server: ServerProcess, tmp_path: Path) -> None:
    server.client().create_queue(QueueName="precious")
    for page, told in (("/?Action=ListQueues", "precious"), ("/metrics", "precious")):
        assert told in shown(f"{server.url}{page}", tmp_path)
        rebound = shown(f"http://rebound.example:{server.port}{page}", tmp_path)
        assert "AccessDenied" in rebound
        assert told not in rebound


def asked(server: ServerProcess, method: str, path: str, **headers: str) -> tuple[int, str]:
    """Status and body of the answer to a request with these headers, `_` for `-`."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = b"Action=CreateQueue&QueueName=planted" if method == "POST" else None
    connection.request(method, path, body, named)
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer.status, content


FOREIGN: list[dict[str, str]] = [
    {"origin": EVIL},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:1"},
    {"origin": "http://localhost:{port}"},
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
    {"sec_fetch_site": "none", "origin": EVIL},
    {"sec_fetch_site": "none", "sec_purpose": "prefetch", "user_agent": CHROME},
    {"sec_fetch_site": "none", "sec_purpose": "prefetch;prerender", "user_agent": CHROME},
    {"host": "rebound.example:{port}"},
    {"host": "rebound.example:{port}", "origin": "http://rebound.example:{port}"},
    {"host": "rebound.example", "sec_fetch_site": "same-origin"},
    {"host": "127.0.0.1.rebound.example"},
    {"host": "localhost.rebound.example"},
    {"host": "xlocalhost.localstack.cloud"},
    {"user_agent": CHROME},
    {"user_agent": CHROME, "host": "0.0.0.0:{port}"},
]
OWN: list[dict[str, str]] = [
    {},
    {"sec_fetch_site": "none", "user_agent": CHROME},
    {"sec_fetch_site": "same-origin", "origin": "http://127.0.0.1:{port}", "user_agent": CHROME},
    {"host": "localhost:{port}"},
    {"host": "LOCALHOST."},
    {"host": "queues.localhost"},
    {"host": "tidegate:9324"},
    {"host": "172.17.0.1:{port}"},
    {"host": "[::1]:{port}"},
    {"host": "host.docker.internal:{port}"},
    {"host": "sqs.us-east-1.localhost.localstack.cloud:4566"},
    {"host": "queues.test"},
    {"host": "dev.shop.test"},
]


def test_what_browsers_send_of_foreign_pages(tmp_path: Path) -> None:
    named = ("--allowed-hosts", "queues.test,*.shop.test")
    server = ServerProcess(tmp_path / "data", tmp_path / "log", options=named)
    server.start()
    try:
        told = 0
        for said in FOREIGN:
            headers = {name: value.format(port=server.port) for name, value in said.items()}
            for method, path in CALLS:
                status, body = asked(server, method, path, **headers)
                assert (status, "AccessDenied" in body) == (403, True), (said, method, path)
                told += 1
        assert "QueueUrls" not in server.client().list_queues()
        for said in OWN:
            headers = {name: value.format(port=server.port) for name, value in said.items()}
            for path in ("/health", "/metrics", "/?Action=ListQueues"):
                assert asked(server, "GET", path, **headers)[0] == 200, (said, path)
        assert server.stop() == 0
        events: list[dict[str, Any]] = [
            json.loads(line) for line in server.log.read_text().splitlines()
        ]
        refused = [one for one in events if one["event"] == "foreign page refused"]
        assert len(refused) == told
        assert not [one for one in events if one.get("status") == 403]
        assert refused[0]["shown"] == f"Origin: {EVIL}"
        assert "planted" not in server.log.read_text()
    finally:
        server.kill()


CALLS = [
    ("GET", "/?Action=CreateQueue&QueueName=planted"),
    ("POST", "/"),
    ("OPTIONS", "/"),
    ("GET", "/health"),
    ("GET", "/metrics"),
]


def test_both_protocols_say_it(server: ServerProcess) -> None:
    target = {"x_amz_target": "AmazonSQS.CreateQueue", "origin": EVIL}
    status, body = asked(server, "POST", "/", content_type="application/x-amz-json-1.0", **target)
    assert status == 403
    assert json.loads(body)["__type"].endswith("#AccessDeniedException")
    status, body = asked(server, "POST", "/", origin=EVIL)
    assert status == 403
    assert "<Code>AccessDenied</Code>" in body
    assert f"(Origin: {EVIL})" in body


def test_a_body_is_not_waited_for(server: ServerProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    with closing(connection):
        connection.putrequest("POST", "/")
        connection.putheader("origin", EVIL)
        connection.putheader("content-length", "1000000")
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, answer.headers["connection"]) == (403, "close")


def test_with_authentication_signatures_protect(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", tmp_path / "log", auth="on")
    server.start()
    try:
        said = {"origin": EVIL, "sec_fetch_site": "cross-site", "host": "queues.example"}
        status, body = asked(server, "GET", "/?Action=ListQueues", **said)
        assert status == 403
        assert "MissingAuthenticationToken" in body
        assert asked(server, "GET", "/health", **said)[0] == 200
    finally:
        server.kill()
