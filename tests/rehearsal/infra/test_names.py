"""Names of a stage: custom domain names, records, checks of health."""

import json
from typing import Any

import pytest

from infra.stage_file import parse_stage
from tests.rehearsal.infra.synthesis import find_node

find_node()  # which CDK starts when it is imported

import aws_cdk as cdk  # noqa: E402 - as said
from aws_cdk import aws_apigateway as apigateway  # noqa: E402 - as above
from aws_cdk.assertions import Match, Template  # noqa: E402 - as above

from infra.names import NamesStack  # noqa: E402 - as above

REGION = "eu-west-1"
CERTIFICATE = f"arn:aws:acm:{REGION}:123456789012:certificate/1b2c"
ZONE = "Z0123456789ABC"
HOST = "queue.example.com"
SHOP = "111122223333"


def template(*hosts: dict[str, Any], **checks: Any) -> Template:
    """The stack of these names, before an API that does nothing."""
    app = cdk.App()
    here = cdk.Environment(account="123456789012", region=REGION)
    service = cdk.Stack(app, "service", env=here)
    api = apigateway.RestApi(
        service,
        "Api",
        endpoint_types=[apigateway.EndpointType.REGIONAL],
        deploy_options=apigateway.StageOptions(stage_name="v1"),
    )
    api.root.add_method("ANY", apigateway.MockIntegration())
    names = [{"host": HOST, "certificate": CERTIFICATE, **host} for host in hosts]
    stage = parse_stage({"name": "s", "region": REGION, "names": {"hosts": names, **checks}})
    return Template.from_stack(NamesStack(app, "names", stage, api, env=here))


def test_a_name_is_a_domain_name_with_its_certificate_that_leads_to_the_api() -> None:
    made = template({})
    made.has_resource_properties(
        "AWS::ApiGateway::DomainName",
        {
            "DomainName": HOST,
            "RegionalCertificateArn": CERTIFICATE,
            "EndpointConfiguration": {"Types": ["REGIONAL"]},
            "SecurityPolicy": "TLS_1_2",
        },
    )
    made.has_resource_properties(
        "AWS::ApiGateway::BasePathMapping",
        {
            "BasePath": Match.absent(),
            "RestApiId": Match.any_value(),
            "Stage": Match.any_value(),
        },
    )
    made.resource_count_is("AWS::Route53::RecordSet", 0)
    made.resource_count_is("AWS::Route53::HealthCheck", 0)


def test_the_only_record_of_a_name_has_no_check() -> None:
    made = template({"zone": ZONE})
    made.has_resource_properties(
        "AWS::Route53::RecordSet",
        {
            "HostedZoneId": ZONE,
            "Name": f"{HOST}.",
            "Type": "A",
            "AliasTarget": {
                "DNSName": {"Fn::GetAtt": [Match.any_value(), "RegionalDomainName"]},
                "HostedZoneId": {"Fn::GetAtt": [Match.any_value(), "RegionalHostedZoneId"]},
                "EvaluateTargetHealth": False,
            },
            "SetIdentifier": Match.absent(),
            "Failover": Match.absent(),
            "Weight": Match.absent(),
            "HealthCheckId": Match.absent(),
        },
    )
    made.resource_count_is("AWS::Route53::HealthCheck", 0)


@pytest.mark.parametrize(
    ("routing", "properties"),
    [
        ({"failover": "primary"}, {"Failover": "PRIMARY", "Weight": Match.absent()}),
        ({"failover": "secondary"}, {"Failover": "SECONDARY", "Weight": Match.absent()}),
        ({"weight": 70}, {"Weight": 70, "Failover": Match.absent()}),
        ({"weight": 0}, {"Weight": 0, "Failover": Match.absent()}),
    ],
)
def test_one_of_several_records_has_its_part_while_it_is_well(
    routing: dict[str, Any], properties: dict[str, Any]
) -> None:
    made = template({"zone": ZONE, **routing})
    (check,) = made.find_resources("AWS::Route53::HealthCheck")
    made.has_resource_properties(
        "AWS::Route53::RecordSet",
        {
            **properties,
            "SetIdentifier": f"s-{REGION}",
            "HealthCheckId": {"Fn::GetAtt": [check, "HealthCheckId"]},
        },
    )


def test_health_is_asked_of_this_region_by_a_name_that_does_not_move() -> None:
    made = template(
        {"zone": ZONE, "weight": 1},
        {"host": "shop.example.com", "zone": ZONE, "weight": 1, "callers": [SHOP]},
        check_every_s=10,
        check_failures=2,
    )
    made.resource_count_is("AWS::Route53::HealthCheck", 1)
    made.resource_count_is("AWS::Route53::RecordSet", 2)
    made.has_resource_properties(
        "AWS::Route53::HealthCheck",
        {
            "HealthCheckConfig": {
                "Type": "HTTPS",
                "FullyQualifiedDomainName": {
                    "Fn::Join": [
                        "",
                        [
                            Match.object_like({"Fn::ImportValue": Match.any_value()}),
                            Match.string_like_regexp(rf"^\.execute-api\.{REGION}\.$"),
                            {"Ref": "AWS::URLSuffix"},
                        ],
                    ]
                },
                "Port": 443,
                "ResourcePath": Match.any_value(),
                "EnableSNI": True,
                "RequestInterval": 10,
                "FailureThreshold": 2,
                "Regions": ["us-east-1", "us-west-2", "eu-west-1"],
            }
        },
    )
    (check,) = made.find_resources("AWS::Route53::HealthCheck").values()
    path = check["Properties"]["HealthCheckConfig"]["ResourcePath"]
    assert json.dumps(path).endswith('"/health"]]}')


def test_an_output_says_whom_each_name_is_meant_for() -> None:
    made = template({}, {"host": "shop.example.com", "callers": [SHOP, f"{SHOP}/orders"]})
    (output,) = made.find_outputs("Names").values()
    assert json.loads(output["Value"]) == {
        HOST: [],
        "shop.example.com": [SHOP, f"{SHOP}/orders"],
    }
    made.resource_count_is("AWS::ApiGateway::DomainName", 2)
