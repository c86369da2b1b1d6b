"""`tidegate health`: whether a server answers, for probes of containers and supervisors."""

import http.client
import json
import ssl
import sys
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from control_plane.cli.setting import FILE, setting

_LOOPBACK: Final = "127.0.0.1"
_UNWELL: Final = 1


@click.command(short_help="Say whether a server answers; 0: it does.")
@click.option(
    "--endpoint",
    envvar="TIDEGATE_ENDPOINT",
    show_envvar=True,
    show_default="this machine, at --port",
    metavar="URL",
    help="Address of the server.",
)
@setting("--port", "Port of the server on this machine.")
@setting(
    "--tls-certificate",
    "What a server on this machine shows, where it serves HTTPS.",
    type=FILE,
    metavar="FILE",
)
@click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=5.0, help="For how many seconds to wait."
)
def health(
    endpoint: str | None, port: int, tls_certificate: Path | None, *, timeout: float
) -> None:
    """Ask a server for its health and print the answer; 0: it serves, 1: it does not.

    It takes the port and the certificate from the variables of `tidegate serve`, so that it needs
    no options beside a server.
    """
    if endpoint is None:
        url = f"http{'s' if tls_certificate is not None else ''}://{_LOOPBACK}:{port}"
    else:
        url, tls_certificate = endpoint, None
    try:
        status, body = _ask(url, tls_certificate, timeout)
    except (OSError, http.client.HTTPException, ValueError) as error:
        click.echo(f"tidegate: no answer from {url}: {error}", err=True)
        sys.exit(_UNWELL)
    click.echo(_line(body))
    if status != http.HTTPStatus.OK:
        sys.exit(_UNWELL)


def _ask(url: str, certificate: Path | None, timeout_s: float) -> tuple[int, bytes]:
    """Status and body of /health. Raises OSError, HTTPException, ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it is no URL of a server")
    host, port = parts.hostname, parts.port
    if parts.scheme == "http":
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    else:
        known = ssl.create_default_context(cafile=certificate)
        if certificate is not None:
            # It is for another name, but no other server on this machine has its key.
            known.check_hostname = False
            known.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=known)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _line(body: bytes) -> str:
    """The answer in one line, also where something else than a server answers."""
    try:
        return json.dumps(json.loads(body))
    except ValueError:
        return repr(body[:200])
