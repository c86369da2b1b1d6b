"""The assets of functions, as CDK stages them: without Docker, from `asset.py`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsii
from aws_cdk import aws_lambda as lambda_

from infra.asset import LOCK, ROOT, USAGE_LOCK, digest, stage
from infra.options import ServiceOptions


@dataclass(frozen=True, slots=True)
class FunctionCode:
    """What functions run: `usage` the one that stores usage records, `all` the others."""

    all: lambda_.Code
    usage: lambda_.Code


def function_code(options: ServiceOptions) -> FunctionCode:
    """The code of the functions, which CDK stages when the stack is to be deployed."""
    return FunctionCode(_code(options, LOCK), _code(options, USAGE_LOCK))


def _code(options: ServiceOptions, lock: Path) -> lambda_.AssetCode:
    return lambda_.Code.from_asset(
        str(ROOT),
        asset_hash=digest(options, lock),
        asset_hash_type=cdk.AssetHashType.CUSTOM,
        bundling=cdk.BundlingOptions(
            # Never pulled: what follows does not leave it to Docker.
            image=cdk.DockerImage.from_registry("none"),
            local=_Local(options, lock),
        ),
    )


@jsii.implements(cdk.ILocalBundling)
class _Local:
    """What CDK calls instead of Docker."""

    def __init__(self, options: ServiceOptions, lock: Path) -> None:
        self._options = options
        self._lock = lock

    def try_bundle(self, output_dir: str, *_docker: Any, **_options: Any) -> bool:
        """Fill the directory; an error ends the synthesis."""
        stage(self._options, Path(output_dir), self._lock)
        return True
