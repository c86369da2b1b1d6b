"""The first way into a deployment: its root account, made in the table with AWS credentials.

It is what the first start of a server does, without a server. So whoever may write the table and
use the KMS key decides who becomes root, and the secret passes through no template, function or
log: it goes into a credentials file of the person who runs this.
"""

from typing import Final

from control_plane.accounts import Accounts
from control_plane.cells import StartError, log_circuit
from control_plane.master_keys import open_keys
from control_plane.operations.administration import Record
from control_plane.places.watching import PROBE
from control_plane.root_account import open_root_account
from data_plane.dynamodb.cell import DynamoCell
from data_plane.dynamodb.opening import OpenError, connect
from data_plane.ports import CellUnavailableError
from data_plane.runtime.event_loop import EventLoopOffload
from data_plane.runtime.guard import Guard
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy

_CONNECTIONS: Final = 2


async def open_first_access(settings: ServerSettings, record: Record) -> str:
    """Make root account, access key and credentials file where they are missing.

    The table is one that a deployment has made: here it is never made. Answers the line that uses
    the file, or says what to do where it does not serve; `record` is told what was made. A second
    run changes nothing. Raises StartError.
    """
    clock, entropy = SystemClock(), SystemEntropy()
    try:
        client = connect(settings.endpoint, settings.region, connections_max=_CONNECTIONS)
    except OpenError as error:
        raise StartError(str(error)) from error
    patience_s = settings.cell_deadline_s
    guard = Guard(settings.table, clock, log_circuit)
    offload = EventLoopOffload(_CONNECTIONS, clock, guard, patience_s=patience_s)
    cell = DynamoCell(client, settings.table, clock, offload, deadline_s=patience_s)
    try:
        # The store's time is known from its first answer on.
        await cell.get(PROBE)
        keys = await open_keys(settings, cell, clock, entropy)
        try:
            accounts = Accounts(cell, clock, entropy, keys.registry_secret)
            return await open_root_account(settings, accounts, record)
        finally:
            keys.close()
    except CellUnavailableError as error:
        raise StartError(f"table: cannot read {settings.table!r}: {error}") from error
    finally:
        offload.close()
        client.close()
