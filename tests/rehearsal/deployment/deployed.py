"""What was deployed, as the emulator's CloudFormation tells it."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from tests.rehearsal.emulators import REGION, client

GONE: Final = frozenset({"DELETE_COMPLETE", "DELETE_SKIPPED"})


@dataclass(frozen=True, slots=True)
class Deployed:
    """Stacks on the emulator at this URL."""

    url: str

    def aws(self, service: str) -> Any:
        """A client of the emulator."""
        return client(service, self.url, timeout_s=60)

    def resources(self) -> Mapping[str, list[str]]:
        """Physical ids by type, of all stacks that are there."""
        formation = self.aws("cloudformation")
        found: dict[str, list[str]] = defaultdict(list)
        for name in self._stacks():
            pages = formation.get_paginator("list_stack_resources").paginate(StackName=name)
            for page in pages:
                for resource in page["StackResourceSummaries"]:
                    if resource["ResourceStatus"] not in GONE:
                        found[resource["ResourceType"]].append(resource["PhysicalResourceId"])
        return found

    def _stacks(self) -> list[str]:
        every = self.aws("cloudformation").describe_stacks()["Stacks"]
        there = [stack["StackName"] for stack in every if stack["StackStatus"] not in GONE]
        return [name for name in there if name != "CDKToolkit"]

    def the(self, kind: str, containing: str = "") -> str:
        """The one resource of a type, among those whose id contains this, whatever its case."""
        every = self.resources()[kind]
        found = [one for one in every if containing.lower() in one.lower()]
        assert len(found) == 1, f"{kind} with {containing!r} in its name: {found} of {every}"
        return found[0]

    def properties(self, kind: str) -> dict[str, Any]:
        """What the deployed templates say of the one resource of a type."""
        formation = self.aws("cloudformation")
        (found,) = [
            resource["Properties"]
            for name in self._stacks()
            for resource in formation.get_template(StackName=name)["TemplateBody"][
                "Resources"
            ].values()
            if resource["Type"] == kind
        ]
        return dict(found)

    def function(self, handler: str) -> Any:
        """The configuration of the function with this handler."""
        functions = self.aws("lambda")
        every = [
            functions.get_function_configuration(FunctionName=name)
            for name in self.resources()["AWS::Lambda::Function"]
        ]
        (found,) = [one for one in every if one["Handler"] == handler]
        return found

    def rest_door(self) -> str:
        """Where API Gateway serves the REST API.

        It ends with a slash, as the stack's output does: the emulator tells a function of one,
        also where the client signed none.
        """
        api = self.the("AWS::ApiGateway::RestApi")
        stage = self.aws("apigateway").get_stages(restApiId=api)["item"][0]["stageName"]
        return f"http://{api}.execute-api.localhost/{stage}/"

    def url_door(self) -> str:
        """The function URL, by AWS's own name."""
        name = self.function("app.url")["FunctionName"]
        url = self.aws("lambda").get_function_url_config(FunctionName=name)["FunctionUrl"]
        return f"http://{urlsplit(url).hostname}/"


def sqs_client(door: str, key: tuple[str, str], *, attempts: int = 1) -> Any:
    """A client of SQS as users have it, for a door, with an access key (id and secret)."""
    return boto3.client(
        "sqs",
        endpoint_url=door,
        region_name=REGION,
        aws_access_key_id=key[0],
        aws_secret_access_key=key[1],
        config=Config(retries={"total_max_attempts": attempts}, connect_timeout=5, read_timeout=60),
    )
