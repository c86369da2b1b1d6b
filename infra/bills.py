"""The job that bills, and when it runs. What it writes lies beside usage records, and is kept."""

from typing import Final

from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.options import StageOptions
from infra.spark_jobs import NAMES, JobPlan, SparkJob
from infra.state import BILLS_PREFIX, DIGESTS_PREFIX, EXPORTS_PREFIX, StateStack

PRESENT: Final = "Present"
"""The schedule of the month that is not over."""

_RUNS_MAX: Final = 3
"""The present month and the one before it may be billed at the same time."""


class Bills(SparkJob):
    """The job `bill`, the role it runs as, and its schedules."""

    def __init__(
        self, scope: Construct, id: str, stage: StageOptions, state: StateStack, usage_prefix: str
    ) -> None:
        super().__init__(scope, id, stage, _plan(stage, state, usage_prefix))
        exports = {"--exports": f"s3://{state.usage.bucket_name}/{EXPORTS_PREFIX}"}
        for name, schedule, arguments in schedules(stage):
            # It takes long: a month is held against what is stored when it is over.
            is_over = stage.analytics.audits and name != PRESENT
            self.trigger(name, schedule, arguments | exports if is_over else arguments)


def _plan(stage: StageOptions, state: StateStack, usage_prefix: str) -> JobPlan:
    options, export = stage.analytics, f"{state.stack_name}-usage"
    place = f"s3://{state.usage.bucket_name}"
    named = {
        "--accounts": options.accounts,
        "--customers": options.customers,
        "--prices": options.prices,
    }
    arguments = {
        "--usage": f"{place}/{usage_prefix}",
        "--out": f"{place}/{BILLS_PREFIX}",
        "--period": "current",
        "--late_periods": str(options.late_periods),
        "--kept_days": str(stage.state.usage_days),
        **({"--chained": place} if options.audits else {}),
        **{name: f"{place}/{BILLS_PREFIX}/{value}" for name, value in named.items() if value},
    }
    of_audits = {"Exports": EXPORTS_PREFIX, "Digests": DIGESTS_PREFIX}
    read = {"Usage": usage_prefix} | (of_audits if options.audits else {})
    accepted = {
        f"AwsSolutions-IAM5[Resource::{export}/{prefix}/*]": NAMES
        for prefix in (*read.values(), BILLS_PREFIX)
    }
    bucket = state.usage_arn
    rights = [
        *(
            iam.PolicyStatement(
                sid=sid, actions=["s3:GetObject"], resources=[f"{bucket}/{prefix}/*"]
            )
            for sid, prefix in read.items()
        ),
        iam.PolicyStatement(
            sid="Bills",
            actions=["s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
            resources=[f"{bucket}/{BILLS_PREFIX}/*"],
        ),
        iam.PolicyStatement(sid="Names", actions=["s3:ListBucket"], resources=[bucket]),
    ]
    return JobPlan("bill", arguments, rights, accepted, _RUNS_MAX)


def schedules(stage: StageOptions) -> list[tuple[str, str, dict[str, str]]]:
    """When the job runs, and with which arguments; in UTC."""
    options = stage.analytics
    hours = "*" if options.every_hours == 1 else f"0/{options.every_hours}"
    previous = {"--period": "previous"}
    closing = {"--period": "due", "--close": "yes"}
    return [
        (PRESENT, f"cron(15 {hours} * * ? *)", {"--period": "current"}),
        ("Previous", f"cron(40 2 1-{options.close_day - 1} * ? *)", previous),
        # Each day: a month that was refused is tried again, and none is passed over.
        ("Close", f"cron(40 2 {options.close_day}-31 * ? *)", closing),
    ]
