"""The asset of all functions, as CDK stages it: without Docker, from `asset.py`."""

from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsii
from aws_cdk import aws_lambda as lambda_

from infra.asset import ROOT, digest, stage
from infra.options import ServiceOptions


def function_code(options: ServiceOptions) -> lambda_.AssetCode:
    """The code of the functions, which CDK stages when the stack is to be deployed."""
    return lambda_.Code.from_asset(
        str(ROOT),
        asset_hash=digest(options),
        asset_hash_type=cdk.AssetHashType.CUSTOM,
        bundling=cdk.BundlingOptions(
            # Never pulled: what follows does not leave it to Docker.
            image=cdk.DockerImage.from_registry("none"),
            local=_Local(options),
        ),
    )


@jsii.implements(cdk.ILocalBundling)
class _Local:
    """What CDK calls instead of Docker."""

    def __init__(self, options: ServiceOptions) -> None:
        self._options = options

    def try_bundle(self, output_dir: str, *_docker: Any, **_options: Any) -> bool:
        """Fill the directory; an error ends the synthesis."""
        stage(self._options, Path(output_dir))
        return True
