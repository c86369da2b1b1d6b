"""Sessions whose clients know Tidegate's extensions.

botocore merges a file `service-2.sdk-extras.json`, found where it looks for models, into the model
of a service. Such files lie in `MODELS`, and these functions let single sessions look there.
"""

from pathlib import Path
from typing import Any, Final

import boto3.session
import botocore.session

MODELS: Final = Path(__file__).parent / "models"
"""For `AWS_DATA_PATH`: so the AWS CLI and programs that make clients themselves get to know it."""


def extend(core: botocore.session.Session) -> None:
    """Let the clients of this session know the extensions, if it has not made one yet.

    A session reads the model of a service once.
    """
    paths = core.get_component("data_loader").search_paths
    if str(MODELS) not in paths:
        paths.append(str(MODELS))


def session(**options: Any) -> boto3.session.Session:
    """A new session, made with the options of `boto3.Session`, that knows the extensions."""
    core = botocore.session.get_session()
    extend(core)
    return boto3.session.Session(botocore_session=core, **options)


def client(endpoint_url: str, service: str = "sqs", **options: Any) -> Any:
    """A client for a server, with the options of `boto3.client`, that knows the extensions.

    `service` is `sqs`, or `kinesis` for streams.
    """
    made: Any = session()
    return made.client(service, endpoint_url=endpoint_url, **options)
