"""What Tidegate can do beyond Amazon SQS and Kinesis, for boto3's clients.

The service model of a session made here has more members and operations, all of whose names
begin with `Tidegate`. boto3 without this package does not know of them.
"""

from tidegate_sdk.session import MODELS, client, extend, session

__all__ = ["MODELS", "client", "extend", "session"]
