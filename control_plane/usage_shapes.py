"""Shapes of the operations on usage and budgets, which SQS does not have: `sdk/` shows them."""

from data_plane.protocol.shapes import INTEGER, STRING, ListOf, Structure

_AMOUNTS = {
    "Requests": INTEGER,
    "Units": INTEGER,
    "Messages": INTEGER,
    "Bytes": INTEGER,
    "Cost": STRING,
}
_ROW = Structure(
    {
        "Day": STRING,
        "Region": STRING,
        "QueueName": STRING,
        "Operation": STRING,
        "TagValue": STRING,
        **_AMOUNTS,
    }
)
_BUDGET = {"Of": STRING, "Limit": STRING, "WebhookUrl": STRING, "QueueName": STRING}
_BUDGET_STATE = Structure({**_BUDGET, "ReachedTimestamp": INTEGER, "Notification": STRING})

GET_USAGE_INPUT = Structure(
    {
        "AccountId": STRING,
        "Period": STRING,
        "GroupBy": ListOf(STRING, "GroupBy"),
        "TagKey": STRING,
        "MaxResults": INTEGER,
        "NextToken": STRING,
    }
)
GET_USAGE_OUTPUT = Structure(
    {
        "AccountId": STRING,
        "Period": STRING,
        "Currency": STRING,
        "PriceBook": STRING,
        "AsOfTimestamp": INTEGER,
        "Total": Structure(_AMOUNTS),
        "Usage": ListOf(_ROW, "Usage"),
        "Budgets": ListOf(_BUDGET_STATE, "Budget"),
        "NextToken": STRING,
    }
)
SET_BUDGETS_INPUT = Structure(
    {
        "AccountId": STRING,
        "Budgets": ListOf(Structure(_BUDGET, required=("Of", "Limit")), "Budget"),
    },
    required=("Budgets",),
)
SET_BUDGETS_OUTPUT = Structure({"Budgets": ListOf(_BUDGET_STATE, "Budget")})
