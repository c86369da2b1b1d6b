"""botocore's SQS model turned back into one of the Query protocol.

Today's model speaks JSON and has lost the names that lists and maps have in forms and in XML. They
are given back here as the Query protocol's documentation has them, independently of the shapes that
the server reads and writes with.
"""

import copy
from typing import Any

from botocore.loaders import Loader

LIST_MEMBERS = {
    "AttributeNameList": "AttributeName",
    "MessageSystemAttributeList": "MessageSystemAttributeName",
    "MessageAttributeNameList": "MessageAttributeName",
    "TagKeyList": "TagKey",
    "QueueUrlList": "QueueUrl",
    "MessageList": "Message",
    "StringList": "StringListValue",
    "BinaryList": "BinaryListValue",
    "ActionNameList": "ActionName",
    "AWSAccountIdList": "AWSAccountId",
    "BatchResultErrorEntryList": "BatchResultErrorEntry",
    "SendMessageBatchRequestEntryList": "SendMessageBatchRequestEntry",
    "SendMessageBatchResultEntryList": "SendMessageBatchResultEntry",
    "DeleteMessageBatchRequestEntryList": "DeleteMessageBatchRequestEntry",
    "DeleteMessageBatchResultEntryList": "DeleteMessageBatchResultEntry",
    "ChangeMessageVisibilityBatchRequestEntryList": "ChangeMessageVisibilityBatchRequestEntry",
    "ChangeMessageVisibilityBatchResultEntryList": "ChangeMessageVisibilityBatchResultEntry",
    "ListMessageMoveTasksResultEntryList": "ListMessageMoveTasksResultEntry",
    "TidegateAccessKeyList": "AccessKey",
    "TidegateAccountList": "Account",
    "TidegateBudgetList": "Budget",
    "TidegateBudgetStateList": "Budget",
    "TidegateGroupByList": "GroupBy",
    "TidegateUsageRowList": "Usage",
    "TidegateBrowsedMessageList": "Message",
    "TidegateCellList": "Cell",
    "TidegateCellNameList": "CellName",
    "TidegateGroupMemberList": "Member",
    "TidegateManagerActivityList": "ManagerActivity",
    "TidegateManagerWaitList": "ManagerWait",
    "TidegatePlacementGroupList": "PlacementGroup",
    "TidegatePolicyList": "Policy",
    "TidegateUserList": "User",
}
"""List shape -> element of a member."""

MAPS = {
    "QueueAttributeMap": ("Attribute", "Name", "Value"),
    "TagMap": ("Tag", "Key", "Value"),
    "MessageBodyAttributeMap": ("MessageAttribute", "Name", "Value"),
    "MessageBodySystemAttributeMap": ("MessageSystemAttribute", "Name", "Value"),
    "MessageSystemAttributeMap": ("Attribute", "Name", "Value"),
    "TidegateQuotaMap": ("Quota", "Name", "Value"),
}
"""Map shape -> element of an entry, of its key, of its value."""


class _QueryLoader(Loader):
    """Answers for SQS with the Query model, else like botocore's own."""

    _query_model: dict[str, Any] | None = None

    def load_service_model(
        self, service_name: str, type_name: str, api_version: str | None = None
    ) -> Any:
        model = super().load_service_model(service_name, type_name, api_version)
        if (service_name, type_name) == ("sqs", "service-2"):
            self._query_model = self._query_model or query_model(model)
            return self._query_model
        return model


def query_loader() -> Loader:
    """A data loader for a botocore session."""
    return _QueryLoader(extra_search_paths=[Loader.BUILTIN_DATA_PATH])


def query_model(json_model: dict[str, Any]) -> dict[str, Any]:
    """The model with protocol, names and wrappers of Query."""
    model = copy.deepcopy(json_model)
    metadata = model["metadata"]
    for name in ("awsQueryCompatible", "jsonVersion", "targetPrefix"):
        del metadata[name]
    namespace = "http://queue.amazonaws.com/doc/2012-11-05/"
    metadata |= {"protocol": "query", "protocols": ["query"], "xmlNamespace": namespace}
    shapes = model["shapes"]
    for name, shape in shapes.items():
        if shape["type"] == "list":
            shape["member"]["locationName"] = LIST_MEMBERS[name]
        elif shape["type"] == "map":
            _, key, value = MAPS[name]
            shape["key"]["locationName"] = key
            shape["value"]["locationName"] = value
        elif shape["type"] == "structure":
            for member in shape["members"].values():
                if member["shape"] in MAPS:
                    member["locationName"] = MAPS[member["shape"]][0]
    for name, operation in model["operations"].items():
        if "output" in operation and shapes[operation["output"]["shape"]]["members"]:
            operation["output"]["resultWrapper"] = f"{name}Result"
    return model
