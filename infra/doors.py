"""The doors: API Gateway (REST) and a function URL, in front of the same front end.

Neither checks who calls: requests are signed for SQS, and the front end compares the signatures.
"""

import json
from typing import Final

from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.findings import accept
from infra.functions import log_group
from infra.options import StageOptions

STAGE: Final = "v1"
"""The first part of the path that callers of API Gateway use."""

THROTTLED_STATUS: Final = 403
THROTTLED_CODE: Final = "RequestThrottled"

_THROTTLED: Final = {
    "__type": f"com.amazonaws.sqs#{THROTTLED_CODE}",
    "message": "The request was denied due to request throttling.",
}

_OPEN_DOOR: Final = {
    "AwsSolutions-APIG2": "The front end checks requests: only it knows SQS's errors.",
    "AwsSolutions-APIG3": "Requests are signed, and throttled by account and queue; a web ACL is"
    " the account's choice.",
    "AwsSolutions-APIG4": "Callers sign for SQS, which IAM authorisation would refuse; the front"
    " end compares the signatures and asks the policies.",
    "AwsSolutions-COG4": "Callers are SDKs with access keys, not users of a pool.",
}
_GATEWAY_LOGS: Final = {
    "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/"
    "AmazonAPIGatewayPushToCloudWatchLogs]": "API Gateway asks for this policy."
}


class RestDoor(Construct):
    """Every path and method of a REST API is handed to the function, bytes as they are."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        stage: StageOptions,
        function: lambda_.IFunction,
    ) -> None:
        super().__init__(scope, id)
        service = stage.service
        access_logs = log_group(self, "AccessLogs", f"/tidegate/{stage.name}/rest", stage)
        self.api = apigateway.LambdaRestApi(
            self,
            "Api",
            handler=function,
            rest_api_name=f"tidegate-{stage.name}",
            description=f"Tidegate {stage.name}: the API of SQS",
            endpoint_types=[apigateway.EndpointType.REGIONAL],
            # Signatures are over the bytes of bodies.
            binary_media_types=["*/*"],
            cloud_watch_role=False,
            integration_options=apigateway.LambdaIntegrationOptions(allow_test_invoke=False),
            deploy_options=apigateway.StageOptions(
                stage_name=STAGE,
                tracing_enabled=service.tracing,
                throttling_rate_limit=service.requests_per_s,
                throttling_burst_limit=service.requests_burst,
                logging_level=apigateway.MethodLoggingLevel.ERROR,
                data_trace_enabled=False,
                access_log_destination=apigateway.LogGroupLogDestination(access_logs),
                access_log_format=_access_log_format(),
            ),
        )
        self._answer_throttled()
        if service.gateway_account_role:
            self.api.deployment_stage.node.add_dependency(_account(self))
        accept(self.api, _OPEN_DOOR)

    def _answer_throttled(self) -> None:
        """SDKs repeat what SQS says of too many requests, not what API Gateway says of them."""
        self.api.add_gateway_response(
            "Throttled",
            type=apigateway.ResponseType.THROTTLED,
            status_code=str(THROTTLED_STATUS),
            response_headers={"x-amzn-query-error": f"'{THROTTLED_CODE};Sender'"},
            templates={"application/json": json.dumps(_THROTTLED)},
        )


def add_function_url(function: lambda_.Function) -> lambda_.FunctionUrl:
    """A function's own URL: cheaper than API Gateway, without its throttling and access logs."""
    return function.add_function_url(auth_type=lambda_.FunctionUrlAuthType.NONE)


def _account(scope: Construct) -> apigateway.CfnAccount:
    """API Gateway's right to write logs, a setting of the account in the region.

    https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-logging.html
    """
    role = iam.Role(
        scope,
        "LogsRole",
        assumed_by=iam.ServicePrincipal("apigateway.amazonaws.com"),
        managed_policies=[
            iam.ManagedPolicy.from_aws_managed_policy_name(
                "service-role/AmazonAPIGatewayPushToCloudWatchLogs"
            )
        ],
    )
    accept(role, _GATEWAY_LOGS)
    return apigateway.CfnAccount(scope, "Account", cloud_watch_role_arn=role.role_arn)


def _access_log_format() -> apigateway.AccessLogFormat:
    """One JSON object a line. No query strings: those of presigned requests have signatures."""
    return apigateway.AccessLogFormat.custom(
        json.dumps(
            {
                "request_id": "$context.requestId",
                "client": "$context.identity.sourceIp",
                "time": "$context.requestTimeEpoch",
                "method": "$context.httpMethod",
                "path": "$context.path",
                "status": "$context.status",
                "response_bytes": "$context.responseLength",
                "duration_ms": "$context.responseLatency",
                "function_ms": "$context.integrationLatency",
                "error": "$context.error.message",
            }
        )
    )
