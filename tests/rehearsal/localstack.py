"""LocalStack from its packages, without Docker, with this project's init hooks.

It listens on all interfaces whatever it is told, so it runs only where there are no others. What it
would download (DynamoDB Local, a Java) is put where it looks for it.
"""

import json
import struct
import urllib.request
import zipfile
from pathlib import Path
from typing import Final

from tests.ports import free_port
from tests.rehearsal import dynamodb_local as local
from tests.rehearsal.processes import HOST, Program, UnavailableError, a_way_out_exists

ENVIRONMENT: Final = local.ENVIRONMENTS / "localstack"
"""Made by `make rehearse` from requirements/localstack.txt, where there is a Python for it."""

_INIT: Final = local.ROOT / "localstack" / "init"
_PYTHON: Final = ENVIRONMENT / "bin" / "python"


def localstack(root: Path, tidegate_url: str) -> Program:
    """A fresh LocalStack with its file system below `root`; its SQS is Tidegate's at that URL.

    Raises UnavailableError.
    """
    if not (ENVIRONMENT / ".installed").exists():
        raise UnavailableError(
            "LocalStack is not installed: requirements/localstack.txt is for Python 3.13"
        )
    if a_way_out_exists():
        raise UnavailableError(
            "LocalStack listens on all interfaces, so it needs a network of its own"
        )
    _lay_out(root)
    port = free_port()
    return Program(
        "LocalStack",
        [str(_PYTHON), "-m", "localstack.runtime.main"],
        port,
        "/_localstack/health",
        {
            "OVERRIDE_IN_DOCKER": "0",
            "FILESYSTEM_ROOT": str(root),
            "GATEWAY_LISTEN": f"{HOST}:{port}",
            "LOCALSTACK_HOST": f"{HOST}:{port}",
            "SERVICES": "dynamodb,kms,s3,sqs",
            "DISABLE_EVENTS": "1",
            "SKIP_SSL_CERT_DOWNLOAD": "1",
            "DNS_ADDRESS": "0",
            "DYNAMODB_IN_MEMORY": "1",
            "PROVIDER_OVERRIDE_DYNAMODB": "v2",
            "PROVIDER_OVERRIDE_DYNAMODBSTREAMS": "v2",
            "TIDEGATE_CELL_ENDPOINT": f"http://{HOST}:{port}",
            "TIDEGATE_HOME": str(local.ROOT),
            "TIDEGATE_URL": tidegate_url,
        },
        folder=root,
    )


def hooks_of(url: str) -> dict[str, str]:
    """What became of the hooks that run when it is ready, by file name; empty until all have."""
    address = f"{url}/_localstack/init/ready"
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310 - on this machine
            told = json.load(answer)
    except TimeoutError:
        return {}
    if not told["completed"]:
        return {}
    return {script["name"]: script["state"] for script in told["scripts"]}


def _lay_out(root: Path) -> None:
    libraries = root / "var" / "lib" / "localstack" / "lib"
    (libraries / "java").mkdir(parents=True)
    (libraries / "java" / "21").symlink_to(Path(local.java()).resolve().parents[1])
    engine = libraries / "dynamodb-local" / "2"
    engine.mkdir(parents=True)
    for part in local.engine().iterdir():
        (engine / part.name).symlink_to(part)
    _write_agent(engine / "ddb-local-loader-0.1.jar")
    init = root / "etc" / "localstack"
    init.mkdir(parents=True)
    (init / "init").symlink_to(_INIT)


def _write_agent(path: Path) -> None:
    """A Java agent that does nothing, in the place of one that LocalStack would download."""
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nPremain-Class: Agent\n")
        jar.writestr("Agent.class", _agent_class())


def _agent_class() -> bytes:
    """`class Agent { public static void premain(String arguments) {} }`, as javac 8 compiles it."""

    def text(value: str) -> bytes:
        return struct.pack(">BH", 1, len(value)) + value.encode()

    def class_at(index: int) -> bytes:
        return struct.pack(">BH", 7, index)

    constants = (
        *(text("Agent"), class_at(1), text("java/lang/Object"), class_at(3)),
        *(text("premain"), text("(Ljava/lang/String;)V"), text("Code")),
    )
    only_return = struct.pack(">HHIBHH", 0, 1, 1, 0xB1, 0, 0)
    code = struct.pack(">HI", 7, len(only_return)) + only_return
    public_static, synchronising_super = 0x0009, 0x0020
    method = struct.pack(">HHHH", public_static, 5, 6, 1) + code
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 52, len(constants) + 1)
    shape = struct.pack(">HHHHHH", synchronising_super, 2, 4, 0, 0, 1)
    return head + b"".join(constants) + shape + method + struct.pack(">H", 0)
