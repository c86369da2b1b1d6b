"""What AWS's own rules (cdk-nag, AwsSolutions) find, and why it is so: each with its reason."""

from collections.abc import Mapping

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def accept(construct: IConstruct, reasons: Mapping[str, str]) -> None:
    """Accept findings on a construct and what it consists of: reasons by the rule's id."""
    Validations.of(construct).acknowledge(
        *(Acknowledgment(id=rule, reason=reason) for rule, reason in reasons.items())
    )
