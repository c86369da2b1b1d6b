"""Who is shown the metrics of a server, and at which address; and what asking for them costs."""

import gzip
import http.client
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from tests.integration.server_process import ServerProcess, run_command
from tests.ports import free_port

KEY = "0123456789abcdef"
NAMED = 'queue="orders"'
_uptime = re.compile(r"^tidegate_uptime_seconds (\S+)$", re.MULTILINE)


@contextmanager
def serving(tmp_path: Path, *options: str, auth: str = "on") -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path / "data", tmp_path / "log", options=options, auth=auth)
    server.start()
    server.client().create_queue(QueueName="orders")
    try:
        yield server
    finally:
        server.kill()


def asked(port: int, path: str = "/metrics", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", path, headers=named)
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer.status, content


def test_others_are_shown_no_names_without_a_key(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert NAMED in asked(server.port)[1]
        assert NAMED in asked(server.port, host=f"localhost:{server.port}")[1]
        for said in ({"x_forwarded_for": "10.0.0.1"}, {"host": "queues.example"}):
            status, body = asked(server.port, **said)
            assert status == 403
            assert "--metrics-key FILE" in body
            assert "orders" not in body
            assert asked(server.port, "/health", **said)[0] == 200


def test_a_key_opens_metrics_for_all_and_keeps_others_out(tmp_path: Path) -> None:
    file = tmp_path / "metrics.key"
    file.write_text(KEY)
    file.chmod(0o600)
    with serving(tmp_path, "--metrics-key", str(file)) as server:
        far = {"host": "queues.example", "x_forwarded_for": "10.0.0.1"}
        assert NAMED in asked(server.port, authorization=f"Bearer {KEY}", **far)[1]
        for shown in ({}, {"authorization": f"Bearer {KEY}x"}, {"authorization": KEY}):
            status, body = asked(server.port, **shown)
            assert status == 401
            assert "orders" not in body
        assert KEY not in server.log.read_text()


def test_metrics_at_an_address_of_their_own(tmp_path: Path) -> None:
    port = free_port()
    with serving(tmp_path, "--metrics", f"127.0.0.1:{port}") as server:
        assert NAMED in asked(port)[1]
        status, body = asked(server.port)
        assert (status, body) == (404, "<UnknownOperationException/>")
        assert asked(port, "/health")[0] == 404
        assert asked(port, "/?Action=ListQueues")[0] == 404
        assert asked(port, host=f"rebound.example:{port}")[0] == 403
        assert asked(port, origin="http://evil.example")[0] == 403
        other = ("--port", str(free_port()), "--data", str(tmp_path / "other"))
        taken = run_command("serve", *other, "--metrics", f"127.0.0.1:{port}")
        said = f"tidegate: metrics: {port} on 127.0.0.1 is in use\n"
        assert (taken.returncode, taken.stderr) == (1, said)
        assert server.stop() == 0
        ended = [json.loads(line)["event"] for line in server.log.read_text().splitlines()]
        assert ended[-1] == "stopped"


def test_metrics_that_are_off(tmp_path: Path) -> None:
    with serving(tmp_path, "--metrics", "off", auth="off") as server:
        assert asked(server.port) == (404, "<UnknownOperationException/>")
        assert asked(server.port, "/health")[0] == 200


def test_a_key_that_cannot_be_read_ends_the_start(tmp_path: Path) -> None:
    file = tmp_path / "none"
    where = ("--port", str(free_port()), "--data", str(tmp_path / "data"))
    ended = run_command("serve", *where, "--metrics-key", str(file))
    said = f"tidegate: metrics-key: {file}: No such file or directory\n"
    assert (ended.returncode, ended.stderr) == (2, said)


def test_metrics_are_made_once_for_all_who_ask(tmp_path: Path) -> None:
    with serving(tmp_path, auth="off") as server, ThreadPoolExecutor(8) as pool:
        began_s = monotonic()
        answers = list(pool.map(lambda _: asked(server.port), range(200)))
        took_s = monotonic() - began_s
        made = {found[1] for _, body in answers if (found := _uptime.search(body))}
        assert {status for status, _ in answers} == {200}
        assert 1 <= len(made) <= took_s + 1


def test_metrics_are_compressed_for_who_takes_that(tmp_path: Path) -> None:
    with serving(tmp_path, auth="off") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.request("GET", "/metrics", headers={"accept-encoding": "gzip"})
        answer = connection.getresponse()
        assert answer.headers["content-encoding"] == "gzip"
        assert NAMED in gzip.decompress(answer.read()).decode()
        connection.close()
