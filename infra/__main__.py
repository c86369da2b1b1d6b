"""`python -m infra`: the app of cdk.json, which the CDK command line runs."""

import os
import sys

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from infra.app import build
from infra.asset import is_compiled
from infra.bundle import function_code
from infra.option_checks import OptionError
from infra.stage_file import read_stage


def main() -> int:
    """Synthesise the stage that the context names (`--context stage=NAME`); the exit code.

    `--context topic=ARN` or `email=ADDRESS` says who is told of alarms.
    """
    app = cdk.App()
    try:
        stage, topic, email = (
            str(app.node.try_get_context(name) or "") for name in ("stage", "topic", "email")
        )
        options = read_stage(stage, topic=topic, email=email)
    except OptionError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    # The CDK command line says where its credentials are.
    account = os.environ.get("CDK_DEFAULT_ACCOUNT")  # noqa: TID251 - there is no other way
    region = os.environ.get("CDK_DEFAULT_REGION")  # noqa: TID251 - as above
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    if not is_compiled(options.service):
        sys.stderr.write(
            f"functions start slower: this Python cannot compile for {options.service.runtime}\n"
        )
    build(app, options, function_code(options.service), account=account, region=region)
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
