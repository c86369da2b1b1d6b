"""Sessions of botocore that read its files once.

To read what a client of DynamoDB is made from takes botocore some 50 ms of a processor. It keeps
that for a session; a server has one for each table.
"""

from functools import cache

from botocore.loaders import Loader, create_loader
from botocore.session import Session, get_session

_loader_at = cache(create_loader)


def new_session() -> Session:
    """A session with settings and credentials of its own, and the models of all others."""
    session = get_session()
    models: Loader = _loader_at(session.get_config_variable("data_path"))
    session.register_component("data_loader", models)
    return session
