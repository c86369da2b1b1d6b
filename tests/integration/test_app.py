"""The functions of a deployment as Lambda loads them: what they import, and how a start ends."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    *("app", "chalice", "control_plane", "data_plane"),
    *("botocore", "dateutil", "jmespath", "six", "urllib3"),
    *("_cffi_backend", "_openssl", "cryptography", "msgspec", "tenacity", "zstandard"),
}
"""All that a door imports beside the standard library. Whatever is new here makes starts longer."""

OWN_MODULES = """
import json, sys
before = set(sys.modules)
for absent in ("awscrt", "certifi", "typing_extensions"):  # looked for; no function has them
    sys.modules[absent] = None
import app
print(json.dumps([name for name in sys.modules if name not in before and sys.modules[name]]))
"""
DEAR = {"asyncio", "click", "granian", "lmdb", "pyarrow", "uvloop"}
FUNCTIONS = {"app", "url", "task", "stream", "usage"}


def run(program: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), **environ},
    )


def test_a_door_imports_what_it_needs() -> None:
    ran = run(OWN_MODULES)
    assert ran.returncode == 0, ran.stderr
    modules: list[str] = json.loads(ran.stdout)
    packages = {name.partition(".")[0] for name in modules}
    assert not packages & DEAR
    assert packages - set(sys.stdlib_module_names) - {"__mp_main__"} == PACKAGES
    of_others = {f"control_plane.serverless.{name}" for name in ("tasks", "stream")}
    assert not of_others & set(modules)


def test_the_names_that_handlers_have() -> None:
    ran = run(
        "import app; print([name for name in dir(app) if callable(getattr(app, name))])",
        AWS_REGION="eu-west-1",
    )
    assert ran.returncode == 0, ran.stderr
    for name in FUNCTIONS:
        assert f"'{name}'" in ran.stdout


@pytest.mark.parametrize("name", ["app", "stream", "usage"])
def test_a_function_without_its_settings_does_not_start(name: str) -> None:
    ran = run("import app", _HANDLER=f"app.{name}", AWS_REGION="eu-west-1")
    assert ran.returncode == 1
    line = json.loads(ran.stdout)
    variable = "TIDEGATE_USAGE" if name == "usage" else "TIDEGATE_TABLE"
    message = f"{variable}: it is missing, and this function needs it"
    assert (line["event"], line["message"]) == ("start failed", message)
    assert ran.stderr.splitlines()[-1].endswith(f"VariableError: {message}")
    assert "During handling" not in ran.stderr
