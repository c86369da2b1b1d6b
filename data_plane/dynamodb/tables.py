"""What a cell's table looks like, as data: whoever makes tables reads it here (no SDK)."""

from typing import Any, Final

PARTITION: Final = "pk"
SORT: Final = "sk"
TIME_TO_LIVE: Final = "x"
"""Of all items alike: the second since the epoch after which DynamoDB may remove the item."""


def cell_table(name: str) -> dict[str, Any]:
    """The parameters of CreateTable."""
    return {
        "TableName": name,
        "AttributeDefinitions": [
            {"AttributeName": PARTITION, "AttributeType": "S"},
            {"AttributeName": SORT, "AttributeType": "B"},
        ],
        "KeySchema": [
            {"AttributeName": PARTITION, "KeyType": "HASH"},
            {"AttributeName": SORT, "KeyType": "RANGE"},
        ],
        "BillingMode": "PAY_PER_REQUEST",
    }


def time_to_live(name: str) -> dict[str, Any]:
    """The parameters of UpdateTimeToLive."""
    return {
        "TableName": name,
        "TimeToLiveSpecification": {"AttributeName": TIME_TO_LIVE, "Enabled": True},
    }
