"""The root account and its credentials file: made by the first start with authentication.

The file is one of AWS's shared credentials files, so every SDK and the AWS CLI can use it. It is
the only place where the secret of the root's first access key ever is, apart from its sealed copy.
"""

import configparser
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from control_plane.accounts import Accounts
from control_plane.cells import BlockedStartError, StartError
from control_plane.core.account import NewKey
from control_plane.operations.administration import Record
from data_plane.core.errors import RefusedError
from data_plane.core.limits import ACCESS_KEYS_MAX
from data_plane.core.root_key import RootKey
from data_plane.ports import CellUnavailableError
from data_plane.settings import ServerSettings

NAME: Final = "root"
MODE: Final = 0o600

_FOR_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_PROFILE: Final = "default"
_KEY_ID: Final = "aws_access_key_id"


def check_credentials(settings: ServerSettings) -> None:
    """Raise StartError where the file of root's access key is there and cannot be used."""
    path = settings.credentials_file
    if not settings.verifies or settings.root_key is not None:
        return
    try:
        if not path.exists():
            return
        if settings.new_root_key:
            raise StartError(f"new-root-key: {path} is there; move it away first")
        _read_key_id(path)
    except OSError as error:
        raise StartError(f"auth: cannot read {path}: {error.strerror}") from error


async def open_root_account(settings: ServerSettings, accounts: Accounts, record: Record) -> str:
    """Make the root account, its access key and the file where they are missing.

    Answers the line that the person who starts the server needs: the one that uses the file, or
    what to do where it does not serve. Several servers may start at once: one of them makes the key
    and writes its file. Raises StartError.
    """
    path = settings.credentials_file
    check_credentials(settings)
    try:
        await _make_account(settings.account, accounts)
        if settings.root_key is not None:
            return await _use_given(settings.root_key, accounts)
        if path.exists():
            return await _use(path, settings.account, accounts)
        with _beside(path) as draft:
            if settings.new_root_key:
                new = await _make_room_and_key(settings.account, accounts, record)
            else:
                made = await accounts.create_first_key(settings.account)
                if made is None:
                    return (
                        f"The root account has access keys, but {_whole(path)} is not there:"
                        " put it back, or start once with --new-root-key."
                    )
                new = made
            _put_in_place(draft, path, _contents(new, settings.region))
        record("root access key created", account=settings.account, key=new.id, file=str(path))
        return _export(path)
    except CellUnavailableError as error:
        raise BlockedStartError(f"auth: the cell does not answer: {error}") from error
    except OSError as error:
        raise StartError(f"auth: cannot write {path}: {error.strerror}") from error
    except RefusedError as error:
        raise StartError(f"auth: {error}") from error


async def _use_given(key: RootKey, accounts: Accounts) -> str:
    """How to use a key that the operator chose: no file and no item has it. Raises StartError."""
    if await accounts.find_key(key.id) is not None:
        raise StartError(
            f"root-access-key-id: {key.id} is an access key that was made here, and is valid as it"
            " is: choose another id, or give none"
        )
    return f"Root's access key is {key.id}, with the secret that this server was given."


async def _make_account(account_id: str, accounts: Accounts) -> None:
    """The account without limits, unless it is there, or another server is quicker."""
    if await accounts.account(account_id) is not None:
        return
    try:
        await accounts.create_account(NAME, account_id, {})
    except RefusedError:
        if await accounts.account(account_id) is None:
            raise


async def _use(path: Path, account_id: str, accounts: Accounts) -> str:
    """How to use a file that is there: it is never written again."""
    found = await accounts.find_key(_read_key_id(path))
    if found is None or not found.caller.is_root or found.caller.account != account_id:
        return (
            f"{_whole(path)} has no access key of this server's root account:"
            " move it away, and start once with --new-root-key."
        )
    return _export(path)


def _read_key_id(path: Path) -> str:
    """The access key id in the file, "" where it has none. Raises StartError, OSError."""
    if stat.S_IMODE(path.stat().st_mode) & _FOR_OTHERS:
        raise StartError(f"auth: others than its owner may use {path}: chmod 600 {path}")
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (configparser.Error, UnicodeDecodeError) as error:
        raise StartError(f"auth: {path} is no credentials file; move it away") from error
    return parser.get(_PROFILE, _KEY_ID, fallback="")


async def _make_room_and_key(account_id: str, accounts: Accounts, record: Record) -> NewKey:
    """One more access key of root; where there are as many as may be, the oldest is revoked."""
    account = await accounts.account(account_id)
    held = [key for key in account.keys if not key.service] if account is not None else []
    if len(held) >= ACCESS_KEYS_MAX:
        await accounts.revoke_key(account_id, held[0].id)
        record("root access key revoked", account=account_id, key=held[0].id)
    return await accounts.create_key(account_id)


def _contents(key: NewKey, region: str) -> str:
    return (
        f"[{_PROFILE}]\n{_KEY_ID} = {key.id}\n"
        f"aws_secret_access_key = {key.secret}\nregion = {region}\n"
    )


def _export(path: Path) -> str:
    return f"export AWS_SHARED_CREDENTIALS_FILE={shlex.quote(_whole(path))}"


def _whole(path: Path) -> str:
    return str(path.resolve())


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """An empty file in the same folder, for its owner alone; removed at the end.

    So a folder that cannot be written to is found out before there is a key to write.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        os.fchmod(file.fileno(), MODE)
        draft = Path(file.name)
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def _put_in_place(draft: Path, path: Path, text: str) -> None:
    """Durable, and whole or not at all; what came to lie there meanwhile stays."""
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    path.hardlink_to(draft)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
