"""Compose files, Kubernetes manifests and the systemd unit, held against their schemas."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from control_plane.cli.serve import serve
from control_plane.cli.setting import variables_of
from data_plane import VERSION
from infra.asset import ROOT

TOOLS: Final = ROOT / ".venvs/release/bin"
KUBERNETES: Final = ROOT / "infra/kubernetes"
UNIT: Final = ROOT / "infra/systemd/tidegate.service"
SETTINGS: Final = {name for option in serve.params for name in variables_of(option)}
TEXTS: Final = [
    ROOT / "Containerfile",
    ROOT / "compose.yaml",
    UNIT,
    *sorted(KUBERNETES.glob("*.yaml")),
]


def run_tool(name: str, *arguments: str) -> None:
    if not (TOOLS / name).exists():
        pytest.skip(f"{name} is not installed (requirements/release.txt)")
    ran = subprocess.run(
        [str(TOOLS / name), *arguments], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_compose_files_are_of_their_schema() -> None:
    files = [str(ROOT / "compose.yaml"), str(ROOT / "localstack/compose.yaml")]
    run_tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", *files)


@pytest.mark.parametrize("name", ["service", "statefulset", "deployment-dynamodb"])
def test_manifests_are_of_their_schema(name: str) -> None:
    run_tool("kubernetes-validate", "--strict", str(KUBERNETES / f"{name}.yaml"))


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((KUBERNETES / name).read_text("utf-8")))


@pytest.mark.parametrize("name", ["statefulset.yaml", "deployment-dynamodb.yaml"])
def test_pods_have_the_least_rights_and_the_images_paths(name: str) -> None:
    pod = documents(name)[-1]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    claimed = documents(name)[-1]["spec"].get("volumeClaimTemplates", [])
    assert mounted == {one["name"] for one in pod["volumes"]} | {
        one["metadata"]["name"] for one in claimed
    }
    image = (ROOT / "Containerfile").read_text("utf-8")
    user = pod["securityContext"]["runAsUser"]
    assert f"USER {user}:{user}\n" in image
    assert "VOLUME /var/lib/tidegate\n" in image
    assert "EXPOSE 9324\n" in image


def test_a_directory_has_one_server() -> None:
    (statefulset,) = documents("statefulset.yaml")
    assert statefulset["spec"]["replicas"] == 1
    (kustomization,) = documents("kustomization.yaml")
    assert all((KUBERNETES / name).exists() for name in kustomization["resources"])
    assert kustomization["images"] == [{"name": "tidegate", "newTag": VERSION}]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_variables_are_settings(path: Path) -> None:
    named = set(re.findall(r"\bTIDEGATE_[A-Z_]+", path.read_text("utf-8")))
    assert named <= SETTINGS


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not here")
    text = UNIT.read_text("utf-8")
    (program,) = re.findall(r"(?m)^ExecStart=(\S+) serve$", text)
    unit = tmp_path / "tidegate.service"
    unit.write_text(text.replace(program, "/bin/true"), encoding="utf-8")
    ran = subprocess.run(
        [analyze, "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    judged = subprocess.run(
        [analyze, "security", "--offline=true", "--threshold=20", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == 0, judged.stdout
