"""A real browser, where there is one, for which every name under `.example` is this machine."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the path")
BROWSER_S_MAX = 120
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
RULES = "--host-resolver-rules=MAP *.example 127.0.0.1"


@contextmanager
def browser(url: str, folder: Path) -> Iterator[None]:
    """A browser that shows this page."""
    assert CHROMIUM is not None
    folder.mkdir(exist_ok=True)
    with (folder / "browser.log").open("wb") as log:
        process = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", RULES, url],
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def shown(url: str, folder: Path) -> str:
    """The document that a browser shows when somebody types this address."""
    assert CHROMIUM is not None
    profile = f"--user-data-dir={folder / 'profile'}"
    ended = subprocess.run(
        [CHROMIUM, *FLAGS, profile, RULES, "--dump-dom", url],
        capture_output=True,
        text=True,
        timeout=BROWSER_S_MAX,
        check=True,
    )
    return ended.stdout
