"""Servers with authentication on: their root's key, and the accounts and users made for a run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.server_process import Line, ServerProcess
from tests.benchmarks.signing import AccessKey, read_key

ON: Final = ("--auth", "on")


def secured_server(folder: Path, name: str, log_level: str) -> ServerProcess:
    """A server that verifies signatures, not started yet."""
    options = [*ON, "--log-level", log_level]
    return ServerProcess(folder / f"{name}-data", folder / f"{name}-log", options)


def root_key(server: ServerProcess) -> AccessKey:
    """The access key that its first start wrote down."""
    return read_key(server.data / "credentials")


def create_account(server: ServerProcess, name: str, quotas: Mapping[str, int]) -> AccessKey:
    """A new account with these quotas; the key of its root."""
    with Line(server.port, root_key(server)) as line:
        asked = {"Name": name, "Quotas": dict(quotas)}
        account = line.call("TidegateCreateAccount", asked)["AccountId"]
        return _key(line.call("TidegateCreateAccessKey", {"AccountId": account}))


def create_user(server: ServerProcess, name: str, policy: object) -> AccessKey:
    """A user of the root account with this identity policy; the user's key."""
    with Line(server.port, root_key(server)) as line:
        line.call("TidegateCreateUser", {"UserName": name, "Policies": [json.dumps(policy)]})
        return _key(line.call("TidegateCreateAccessKey", {"UserName": name}))


def create_queue(
    server: ServerProcess, key: AccessKey | None, name: str, attributes: Mapping[str, str]
) -> str:
    """A queue of the key's account; its URL."""
    with Line(server.port, key) as line:
        return line.create_queue(name, attributes)


def _key(answer: Mapping[str, Any]) -> AccessKey:
    return AccessKey(answer["AccessKeyId"], answer["SecretAccessKey"])
