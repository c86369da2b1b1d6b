"""A web site that attacks a server on the same machine, and what stands between to see it.

`Site` serves pages to a browser and passes everything else on to the server, with the headers as
they came, so that a test sees what arrived and what became of it.
"""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

ATTACKS = """<!doctype html><title>evil</title><body><script>
const query = (action, attack) => `?${action}&attack=${attack}`;
const drop = "Action=DeleteQueue&QueueUrl=" + encodeURIComponent("QUEUE");
const make = "Action=CreateQueue&QueueName=planted";
const get = (attack, host = "TARGET") => `${host}/${query(drop, attack)}`;
const post = (attack) => "TARGET/" + query(make, attack);
const element = (tag, values) => new Promise((ended) => {
  const made = Object.assign(document.createElement(tag), values);
  made.onload = made.onerror = ended;
  document.body.append(made);
});
const form = (attack, method, enctype) => {
  const frame = element("iframe", {name: attack});
  const made = Object.assign(document.createElement("form"),
    {method, enctype, action: post(attack), target: attack});
  for (const [name, value] of new URLSearchParams(query(make, attack))) {
    made.append(Object.assign(document.createElement("input"), {name, value}));
  }
  document.body.append(made);
  made.submit();
  return frame;
};
const ahead = (kind, url) => element("script", {type: "speculationrules",
  textContent: JSON.stringify({[kind]: [{source: "list", urls: [url]}]})});
const call = (attack, options) => fetch(post(attack), options);
const body = new URLSearchParams(make);
const headers = {"content-type": "application/x-amz-json-1.0",
  "x-amz-target": "AmazonSQS.CreateQueue"};
const sandboxed = `<script>fetch("${post("sandbox")}", {mode: "no-cors", method: "POST"})<` +
  "/script>";
Promise.allSettled([
  element("img", {src: get("img")}),
  element("script", {src: get("script")}),
  element("link", {rel: "stylesheet", href: get("style")}),
  element("iframe", {src: get("frame")}),
  element("img", {src: get("rebound", "REBOUND")}),
  element("img", {src: get("any-address", "ANY_ADDRESS"), referrerPolicy: "no-referrer"}),
  element("iframe", {sandbox: "allow-scripts", srcdoc: sandboxed}),
  ahead("prefetch", get("prefetch")),
  ahead("prerender", get("prerender")),
  form("form-get", "GET", "application/x-www-form-urlencoded"),
  form("form-post", "POST", "application/x-www-form-urlencoded"),
  form("form-text", "POST", "text/plain"),
  call("simple", {}),
  call("no-cors", {mode: "no-cors", method: "POST", body}),
  call("preflight", {method: "POST", headers, body: '{"QueueName": "planted"}'}),
  navigator.sendBeacon(post("beacon"), body),
]);
fetch("/when-arrived").then(() => { location = get("navigation"); });
</script>"""

SAME_ORIGIN = """<!doctype html><title>own</title><script>
fetch("/?Action=CreateQueue&QueueName=own-get&attack=own-get")
  .then(() => fetch("/?attack=own-post", {method: "POST",
    body: new URLSearchParams("Action=CreateQueue&QueueName=own-post")}));
</script>"""


ARRIVES_S_MAX = 120


class Arrived(NamedTuple):
    """A request that came through, and how the server answered it."""

    attack: str
    method: str
    headers: dict[str, str]
    status: int


class Site:
    """Serves `pages` by their paths, and passes on all else to the server on `port`.

    A page that asks for /when-arrived hears when the `awaited` attacks have: to leave would cut off
    what a browser has not sent yet.
    """

    def __init__(self, port: int) -> None:
        self.pages: dict[str, str] = {}
        self.awaited: set[str] = set()
        self.arrived: list[Arrived] = []
        self._server_port = port
        self._changed = threading.Condition()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                """Say nothing."""

            def answer(self) -> None:
                site.answer(self)

            do_GET = do_POST = do_OPTIONS = answer  # noqa: N815 - names that it looks for

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever)
        self._thread.start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        body = request.rfile.read(int(request.headers.get("content-length", "0")))
        page = self.pages.get(request.path)
        if request.path == "/when-arrived":
            self.wait_for(self.awaited, ARRIVES_S_MAX)
            page = ""
        if page is not None:
            self._send(request, 200, "text/html", page.encode())
            return
        headers = {name.lower(): value for name, value in request.headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self._server_port, timeout=20)
        connection.putrequest(
            request.command, request.path, skip_host=True, skip_accept_encoding=True
        )
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        attack = parse_qs(urlsplit(request.path).query).get("attack", [""])[0]
        with self._changed:
            self.arrived.append(Arrived(attack, request.command, headers, response.status))
            self._changed.notify_all()
        kind = response.headers.get("content-type", "")
        self._send(request, response.status, kind, content)

    def _send(
        self, request: BaseHTTPRequestHandler, status: int, kind: str, content: bytes
    ) -> None:
        request.send_response(status)
        request.send_header("content-type", kind)
        request.send_header("content-length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    def wait_for(self, attacks: set[str], timeout_s: float) -> set[str]:
        """Those of the attacks that did not arrive within this time."""
        with self._changed:
            self._changed.wait_for(
                lambda: attacks <= {one.attack for one in self.arrived}, timeout_s
            )
            return attacks - {one.attack for one in self.arrived}

    def close(self) -> None:
        """Serve no more."""
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
