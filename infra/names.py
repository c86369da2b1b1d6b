"""Names: hosts that lead to the REST API, and their records in Route 53.

Host and certificate make a custom domain name of API Gateway, which hands the API the Host header
that the client signed. A function URL takes no other Host than its own, so it has no names:
https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html
"""

import json
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_route53 as route53

from infra.options import NameOptions, NamesOptions, StageOptions

_HTTPS: Final = 443


class NamesStack(cdk.Stack):
    """The names of a stage, and what its region answers of them."""

    def __init__(
        self,
        scope: cdk.App,
        id: str,
        stage: StageOptions,
        api: apigateway.RestApi,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id, **kwargs)
        self._stage = stage
        self._check: route53.CfnHealthCheck | None = None
        names = stage.names
        for number, name in enumerate(names.hosts):
            domain = self._domain(number, name, api)
            if name.zone:
                self._record(number, name, domain, api)
        meant = {name.host: list(name.callers) for name in names.hosts}
        cdk.CfnOutput(self, "Names", value=json.dumps(meant))

    def _domain(
        self, number: int, name: NameOptions, api: apigateway.RestApi
    ) -> apigateway.DomainName:
        return apigateway.DomainName(
            self,
            f"Name{number}",
            domain_name=name.host,
            certificate=acm.Certificate.from_certificate_arn(
                self, f"Certificate{number}", name.certificate
            ),
            endpoint_type=apigateway.EndpointType.REGIONAL,
            security_policy=apigateway.SecurityPolicy.TLS_1_2,
            # Without a base path: queue URLs are the host, the account and the queue.
            mapping=api,
        )

    def _record(
        self,
        number: int,
        name: NameOptions,
        domain: apigateway.DomainName,
        api: apigateway.RestApi,
    ) -> None:
        check = self._health_check(api) if name.is_one_of_several else None
        route53.CfnRecordSet(
            self,
            f"Record{number}",
            hosted_zone_id=name.zone,
            name=f"{name.host}.",
            type="A",
            alias_target=route53.CfnRecordSet.AliasTargetProperty(
                dns_name=domain.domain_name_alias_domain_name,
                hosted_zone_id=domain.domain_name_alias_hosted_zone_id,
                # It would fail with API Gateway alone; the check fails with the cell, too.
                evaluate_target_health=False,
            ),
            set_identifier=self._identifier() if name.is_one_of_several else None,
            weight=name.weight,
            failover=name.failover.upper() or None,
            health_check_id=check.attr_health_check_id if check is not None else None,
        )

    def _identifier(self) -> str:
        """Which of several records this is: stages differ in their regions."""
        return f"{self._stage.name}-{self.region}"

    def _health_check(self, api: apigateway.RestApi) -> route53.CfnHealthCheck:
        """One for all names: it asks API Gateway in this region, by no name that could move."""
        if self._check is None:
            options: NamesOptions = self._stage.names
            self._check = route53.CfnHealthCheck(
                self,
                "Health",
                health_check_config=route53.CfnHealthCheck.HealthCheckConfigProperty(
                    type="HTTPS",
                    fully_qualified_domain_name=(
                        f"{api.rest_api_id}.execute-api.{self.region}.{self.url_suffix}"
                    ),
                    port=_HTTPS,
                    resource_path=f"/{api.deployment_stage.stage_name}{options.check_path}",
                    enable_sni=True,
                    request_interval=options.check_every_s,
                    failure_threshold=options.check_failures,
                    regions=list(options.check_regions),
                ),
                health_check_tags=[
                    route53.CfnHealthCheck.HealthCheckTagProperty(
                        key="Name", value=f"tidegate-{self._identifier()}"
                    )
                ],
            )
        return self._check
