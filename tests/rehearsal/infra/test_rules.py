"""AWS's own rules: cdk-nag and cfn-lint find nothing that is not accepted with a reason."""

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.rehearsal.infra.synthesis import (
    EVERYTHING,
    EVERYTHING_TOML,
    ROOT,
    context,
    find_node,
    settings,
    templates,
)

find_node()
import aws_cdk  # noqa: E402 - it starts Node

pytestmark = pytest.mark.xdist_group("infra")


def synthesise(stage: str, folder: Path, **said: str) -> "subprocess.CompletedProcess[str]":
    """Run the app of cdk.json as the CDK command line does, but stage nothing."""
    program, *arguments = settings()["app"].split()
    assert program == "python"
    return _run(arguments, {"stage": stage, **said}, folder)


def _run(
    arguments: list[str], said: dict[str, str], folder: Path
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "CDK_OUTDIR": str(folder),
            "CDK_CONTEXT_JSON": json.dumps({**context(), **said}),
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("stage", [str(EVERYTHING_TOML), "production"])
def test_stages_pass(stage: str, tmp_path: Path) -> None:
    done = synthesise(stage, tmp_path, email="operators@example.com")

    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.glob("*.template.json"))


def test_templates_are_what_cloudformation_takes(tmp_path: Path) -> None:
    templates_of = templates(EVERYTHING)
    for name, template in templates_of.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(template), encoding="utf-8")
    # CDK says twice what a function depends on: by reference, and by name.
    linted = subprocess.run(
        [
            str(Path(sys.executable).with_name("cfn-lint")),
            *("--ignore-checks", "W3005"),
            *("--", *(str(tmp_path / f"{name}.json") for name in templates_of)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_a_wrong_option_stops_the_synthesis_with_one_line(tmp_path: Path) -> None:
    stage = tmp_path / "wrong.toml"
    stage.write_text('name = "wrong"\n[service]\nmemory_mb = 1\n', encoding="utf-8")

    done = synthesise(str(stage), tmp_path / "out")

    assert done.returncode == 1
    assert done.stderr == "service.memory_mb: 1 is not within 128 and 10240\n"


def test_each_reason_is_for_something_that_is_found(tmp_path: Path) -> None:
    """Without its reasons the stage fails, by just the rules that they name."""
    program = (
        "import infra.findings as findings\n"
        "findings.accept = lambda _, reasons: print('accepted', *reasons, sep='\\naccepted ')\n"
        "import runpy\n"
        "runpy.run_module('infra', run_name='__main__')\n"
    )
    done = _run(["-c", program], {"stage": str(EVERYTHING_TOML)}, tmp_path)
    said = done.stdout + done.stderr
    accepted = set(re.findall(r"^accepted (\S.*)$", said, re.MULTILINE))

    assert done.returncode != 0
    assert "AwsSolutions-APIG4" in accepted
    assert accepted == set(re.findall(r"Acknowledge with 'AwsSolutions::(.*)'", said))


def test_a_stage_that_would_tell_nobody_of_alarms_is_refused(tmp_path: Path) -> None:
    done = synthesise("production", tmp_path)

    assert done.returncode == 1
    assert done.stderr.startswith("monitoring.topic: name a topic or an email")


def test_flags_of_the_cdk_are_those_that_it_recommends() -> None:
    """But for those that cdk.json decides otherwise, each for its reason."""
    otherwise = {
        # Values that another stack needs are not to change under it.
        "@aws-cdk/core:defaultCrossStackReferences": "strong",
        "@aws-cdk/core:target-partitions": ["aws", "aws-cn", "aws-us-gov"],
    }
    [packed] = (Path(aws_cdk.__file__).parent / "_jsii").glob("aws-cdk-lib*.tgz")
    with tarfile.open(packed) as files:
        member = files.extractfile("package/recommended-feature-flags.json")
        assert member is not None
        recommended = json.loads(member.read())

    assert context() == {
        **recommended,
        **otherwise,
        "stage": "development",
        "aws:cdk:bundling-stacks": [],
    }
