"""`chalice package`: all functions, as big and patient as CDK makes them, with all they import."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from control_plane.serverless.settings import read_settings
from infra.asset import ROOT, SIZE_BYTES_MAX
from infra.options import StageOptions
from tests.rehearsal.chalice.project import Project, config
from tests.rehearsal.infra.synthesis import functions, listed, service, statements, templates
from tests.rehearsal.processes import UnavailableError

pytestmark = pytest.mark.xdist_group("chalice")

NAMES = {
    "app.app": "api_handler",
    "app.url": "url",
    "app.task": "task",
    "app.stream": "stream",
    "app.usage": "usage",
}
"""What Chalice calls them, by their handlers."""


@dataclass(frozen=True, slots=True)
class Packaged:
    """What `chalice package` wrote."""

    template: dict[str, Any]
    archive: Path

    def functions(self) -> dict[str, dict[str, Any]]:
        found = self.template["Resources"].values()
        kind = "AWS::Serverless::Function"
        return {
            one["Properties"]["Handler"]: one["Properties"] for one in found if one["Type"] == kind
        }


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Packaged:
    folder = tmp_path_factory.mktemp("chalice")
    try:
        template = Project.at(folder / "project").package(folder / "out")
    except UnavailableError as error:
        pytest.skip(str(error))  # which says what is not installed
    return Packaged(dict(template), folder / "out" / "deployment.zip")


def test_functions_are_as_big_and_as_patient_as_those_of_a_stage() -> None:
    """Chalice's own defaults are 128 MB and 60 s."""
    deployed = functions(templates(service(function_url=True))["service"])
    ours = config()["stages"]["dev"]["lambda_functions"]

    assert set(deployed) == set(NAMES)
    for handler, name in NAMES.items():
        wanted = {
            "lambda_memory_size": deployed[handler]["MemorySize"],
            "lambda_timeout": deployed[handler]["Timeout"],
            "reserved_concurrency": deployed[handler].get("ReservedConcurrentExecutions"),
        }
        told = {option: ours[name].get(option) for option in wanted}
        assert told == wanted, handler
    assert config()["lambda_architecture"] == StageOptions("s").service.architecture


def test_functions_understand_what_they_are_told() -> None:
    told = config()["stages"]["dev"]["environment_variables"]

    settings = read_settings({"AWS_REGION": "eu-west-1", **told})
    assert settings.table == "tidegate-dev"
    assert settings.usage.endswith("/usage")


def test_rights_are_those_that_stages_give() -> None:
    """Exactly these actions, and none on everything."""
    given = {
        action
        for _, statement in statements(templates(service(function_url=True))["service"])
        for action in listed(statement["Action"])
        if action.startswith(("dynamodb:", "s3:", "kms:"))
    }
    ours = set[str]()
    for file in (ROOT / ".chalice").glob("policy-*.json"):
        for statement in json.loads(file.read_text("utf-8"))["Statement"]:
            assert statement["Resource"] != "*"
            ours |= {one for one in statement["Action"] if not one.startswith("logs:")}

    assert ours == given


def test_all_functions_are_packaged(packaged: Packaged) -> None:
    ours = config()["stages"]["dev"]["lambda_functions"]
    found = packaged.functions()

    assert set(found) == set(NAMES)
    for handler, name in NAMES.items():
        assert found[handler]["MemorySize"] == ours[name]["lambda_memory_size"]
        assert found[handler]["Timeout"] == ours[name]["lambda_timeout"]
        assert found[handler]["Architectures"] == [config()["lambda_architecture"]]
        assert "TIDEGATE_TABLE" in found[handler]["Environment"]["Variables"]
    api = packaged.template["Resources"]["RestAPI"]["Properties"]["DefinitionBody"]
    assert set(api["paths"]) == {"/", "/{proxy+}"}


def test_what_is_packaged_fits_and_imports_by_itself(packaged: Packaged, tmp_path: Path) -> None:
    """All of our own modules; wheels are Lambda's, which this machine's Python need not take."""
    with ZipFile(packaged.archive) as archive:
        names = archive.namelist()
        assert sum(one.file_size for one in archive.infolist()) <= SIZE_BYTES_MAX
        ours = ("app.py", "chalice/", "control_plane/", "data_plane/")
        archive.extractall(tmp_path, [name for name in names if name.startswith(ours)])

    machines = {"arm64": "aarch64", "x86_64": "x86_64"}
    built = [name for name in names if ".cpython-" in name and name.endswith(".so")]
    assert built
    assert all(machines[config()["lambda_architecture"]] in name for name in built)
    assert any(name.startswith("pyarrow/") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "infra/", ".git"))]

    program = (
        "import app, control_plane.cluster.tasks, sys\n"
        "assert app.__file__.startswith(sys.argv[1]), app.__file__\n"
        "assert control_plane.cluster.tasks.__file__.startswith(sys.argv[1])\n"
        "from control_plane.cluster.state_machine import definition; definition('arn')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
