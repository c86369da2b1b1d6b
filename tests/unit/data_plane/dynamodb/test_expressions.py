from data_plane.dynamodb.expressions import range_parameters, write_parameters
from data_plane.ports import (
    ALWAYS,
    ITEM_ABSENT,
    Absent,
    AnyOf,
    Equals,
    Lacks,
    LessThan,
    Update,
)

EXPRESSION_BYTES_MAX = 4096
"""What DynamoDB takes."""


def test_no_condition_says_nothing() -> None:
    assert write_parameters(ALWAYS) == {}
    assert write_parameters(ALWAYS, Update()) == {}


def test_names_and_values_never_become_text_of_an_expression() -> None:
    odd = "size OR :0 = #1"
    parameters = write_parameters(((Equals(odd, odd),),), Update(assign={odd: odd}))
    assert parameters["UpdateExpression"] == "SET #0 = :0"
    assert parameters["ConditionExpression"] == "(#0 = :1)"
    assert parameters["ExpressionAttributeNames"] == {"#0": odd}
    assert parameters["ExpressionAttributeValues"] == {":0": {"S": odd}, ":1": {"S": odd}}


def test_a_refused_write_answers_the_occupant() -> None:
    assert write_parameters(ITEM_ABSENT) == {
        "ConditionExpression": "(attribute_not_exists(#0))",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        "ExpressionAttributeNames": {"#0": "v"},
    }


def test_elements_are_joined_by_and_clauses_by_or() -> None:
    parameters = write_parameters(((Absent("a"), LessThan("b", 1)), (Lacks("d", 2),)))
    assert parameters["ConditionExpression"] == (
        "(attribute_not_exists(#0) OR #1 < :0) AND (attribute_not_exists(#2)"
        " OR (attribute_type(#2, :set) AND NOT contains(#2, :1)))"
    )


def test_an_update_names_each_kind_of_change_once() -> None:
    change = Update({"v": 1, "x": 2}, {"d": frozenset({2, 1})}, frozenset({"m2", "m1"}))
    parameters = write_parameters(ALWAYS, change)
    assert parameters["UpdateExpression"] == "SET #0 = :0, #1 = :1 ADD #2 :2 REMOVE #3, #4"
    assert list(parameters["ExpressionAttributeNames"].values()) == ["v", "x", "d", "m1", "m2"]
    assert parameters["ExpressionAttributeValues"][":2"] == {"NS": ["1", "2"]}


def test_the_condition_of_a_receive_of_ten_fits() -> None:
    condition: list[AnyOf] = []
    for index in range(10):
        lease = bytes(34)
        condition += [
            (Equals(f"m{index}", lease), Equals(f"m{index}", lease)),
            (Lacks("d", index),),
        ]
    parameters = write_parameters(tuple(condition))
    assert len(parameters["ConditionExpression"]) < EXPRESSION_BYTES_MAX


def test_a_range_excludes_its_lower_end() -> None:
    assert range_parameters("P", b"a", b"c") == {
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :from AND :until",
        "ExpressionAttributeValues": {
            ":pk": {"S": "P"},
            ":from": {"B": b"\0a\0"},
            ":until": {"B": b"\0c"},
        },
    }
    assert range_parameters("P", b"", None) == {
        "KeyConditionExpression": "pk = :pk AND sk > :after",
        "ExpressionAttributeValues": {":pk": {"S": "P"}, ":after": {"B": b"\0"}},
    }
