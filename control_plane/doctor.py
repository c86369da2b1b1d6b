"""What may keep a server from serving, or cost it what it promises: looked at before it starts."""

import asyncio
import errno
import os
import resource
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from cryptography import x509

from control_plane.cells import StartError, check_embedded_cell
from control_plane.data_folder import check_data
from control_plane.folder_modes import why_unusable
from control_plane.named_files import wrong_files
from control_plane.registry_secret import ITEM, UnreadableSecretError, check_opens
from control_plane.several_opening import check_folders
from control_plane.tls import check_tls
from data_plane.core.cell_clock import CellClock, LeftCell
from data_plane.core.utc import utc_time
from data_plane.embedded.file_check import FileDamageError
from data_plane.embedded.left import left_cell
from data_plane.embedded.peeking import peek
from data_plane.embedded.store import DATA_FILE, CellInUseError
from data_plane.http.connections import bind
from data_plane.keys.file import KeyFile, KeyFileError
from data_plane.ports import Clock, MasterKeysError
from data_plane.settings import ServerSettings
from data_plane.system import SystemEntropy, running_us

State = Literal["ok", "warning", "error"]

FREE_BYTES_MIN: Final = 1 << 30
FILES_MIN: Final = 4096
FSYNC_S_MAX: Final = 0.05
CERTIFICATE_S_MIN: Final = 14 * 86_400
_FSYNCS: Final = 5
_FOR_OTHERS: Final = 0o077
_MOUNTS: Final = Path("/proc/self/mountinfo")
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_UNSUITED: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})
_CONNECT_S_MAX: Final = 5.0


class Finding(NamedTuple):
    """What was looked at, how it is, and what helps where it is not well."""

    check: str
    state: State
    said: str
    remedy: str = ""


Check = Callable[[ServerSettings], Finding]


def examine(settings: ServerSettings, clock: Clock) -> Iterator[Finding]:
    """Look at everything that can be looked at without starting a server."""
    checks: list[Check] = [partial(files, clock), file_limit, port, partial(certificate, clock)]
    if settings.cell == "embedded":
        clocks = partial(machine_clock, clock)
        disk: list[Check] = [writing, file_system, free_space, syncing]
        yield (found := directory(settings))
        if found.state != "error":  # else nothing is to be seen there
            checks = [*disk, partial(store, clock), clocks, keys, *checks]
    elif settings.endpoint:
        checks = [endpoint, *checks]
    for check in checks:
        yield check(settings)


def directory(settings: ServerSettings) -> Finding:
    """It is a directory of this user, closed to others; one that is missing is made."""
    path = settings.data
    try:
        found = path.stat()
    except OSError:
        if reason := why_unusable(path):
            said = f"{path} cannot be made: {reason}"
            return Finding("directory", "error", said, "name another --data")
        return Finding("directory", "ok", f"{path} is not there yet; the first start makes it")
    if not stat.S_ISDIR(found.st_mode):
        return Finding("directory", "error", f"{path} is no directory", "name another --data")
    if found.st_uid != os.geteuid():
        return Finding(
            "directory",
            "error",
            f"{path} belongs to user {found.st_uid}, and this is user {os.geteuid()}",
            f"run as that user, or: chown -R {os.geteuid()} {path}",
        )
    if stat.S_IMODE(found.st_mode) & _FOR_OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        said = f"others may use {path} (mode {mode:o}); a start closes it"
        return Finding("directory", "warning", said, f"chmod 700 {path}")
    return Finding("directory", "ok", f"{path} is this user's alone")


def writing(settings: ServerSettings) -> Finding:
    """Files can be made there."""
    path = _nearest(settings.data)
    probe = path / f".tidegate-doctor-{os.getpid()}"
    try:
        with probe.open("xb"):
            pass
        probe.unlink()
    except OSError as error:
        remedy = "give this user the right to write there, or name another --data"
        return Finding("writing", "error", f"{path}: {error.strerror}", remedy)
    return Finding("writing", "ok", f"{path} can be written to")


def file_system(settings: ServerSettings) -> Finding:
    """It is on a disk of this machine."""
    kind = kind_of(_nearest(settings.data))
    if kind in _IN_MEMORY:
        said = f"{settings.data} is on {kind}: nothing survives the machine"
        return Finding("file system", "warning", said, "name a --data on a disk")
    if kind in _UNSUITED:
        said = f"{settings.data} is on {kind}, whose locks and mapped files are not those of a disk"
        return Finding("file system", "error", said, "name a --data on a disk of this machine")
    if kind == "overlay":
        said = f"{settings.data} is in a container's own layer, and goes with it"
        return Finding("file system", "warning", said, "mount a volume there")
    return Finding("file system", "ok", f"{kind or 'of an unknown kind'}")


def free_space(settings: ServerSettings) -> Finding:
    """There is room for messages."""
    disk = os.statvfs(_nearest(settings.data))
    free = disk.f_bavail * disk.f_frsize
    said = f"{free >> 20} MiB are free"
    if free < FREE_BYTES_MIN:
        return Finding("free space", "warning", said, "free some, or name a --data on another disk")
    return Finding("free space", "ok", said)


def syncing(settings: ServerSettings) -> Finding:
    """A commit waits for the disk once: how long that takes."""
    path = _nearest(settings.data) / f".tidegate-doctor-{os.getpid()}"
    try:
        took_s = sorted(_synced_s(path) for _ in range(_FSYNCS))[_FSYNCS // 2]
    except OSError as error:
        return Finding("fsync", "error", f"{path.parent}: {error.strerror}", "see 'writing'")
    finally:
        with suppress(OSError):  # where it could not be made
            path.unlink()
    said = f"a write is on disk after {took_s * 1000:.1f} ms"
    if took_s > FSYNC_S_MAX:
        remedy = "sends wait for it, together: use a disk with a faster fsync, or batches"
        return Finding("fsync", "warning", said, remedy)
    return Finding("fsync", "ok", said)


def store(clock: Clock, settings: ServerSettings) -> Finding:
    """A start would take what is stored there, or that there is nothing."""
    try:
        check_data(settings)
        if settings.has_several:
            asyncio.run(check_folders(settings, clock, SystemEntropy()))
        else:
            check_embedded_cell(settings)
    except StartError as error:
        is_used = isinstance(error.__cause__, CellInUseError)
        if is_used and port(settings).state == "error":
            said = f"{settings.data} is in use, and so is the port: by one server, it seems"
            return Finding("store", "ok", said)
        remedy = "end the server that has it, or name another --data" if is_used else ""
        return Finding("store", "error", str(error), remedy)
    except OSError as error:
        remedy = "run as the user whom it belongs to"
        return Finding("store", "error", f"{error.filename}: {error.strerror}", remedy)
    return Finding("store", "ok", "a start would take what is there")


def endpoint(settings: ServerSettings) -> Finding:
    """Something listens where tables are asked for."""
    url = urlsplit(settings.endpoint)
    at = url.hostname or "", url.port or {"http": 80, "https": 443}[url.scheme]
    try:
        with socket.create_connection(at, timeout=_CONNECT_S_MAX):
            pass
    except OSError as error:
        said = f"{settings.endpoint} cannot be reached: {error.strerror or error}"
        return Finding("endpoint", "error", said, "mend --cell-endpoint, or start what serves it")
    return Finding("endpoint", "ok", f"{settings.endpoint} can be reached")


def machine_clock(clock: Clock, settings: ServerSettings) -> Finding:
    """It is not behind what it has shown: what the store knows of it, as a start would see it."""
    try:
        left = _left(settings.data)
    except (OSError, FileDamageError) as error:
        return Finding("clock", "ok", f"what the store knows of it cannot be read: {error}")
    if left is None:
        return Finding("clock", "ok", "there is no store that knows it")
    started = CellClock(clock.now_us, running_us, lambda _step: None)
    started.learn(left.present_us, left.eras.to_bytes(), left.cell)
    wrong, eras = started.describe(), started.eras
    written_s = eras.world_us(left.present_us) // 1_000_000
    at = utc_time(written_s)
    when = (
        f"the store was last written to at {at.year:04}-{at.month:02}-{at.day:02}"
        f"T{at.hour:02}:{at.minute:02}:{at.second:02}Z"
    )
    before = f"; it has noted {len(eras) - 1} changes of the clock" if len(eras) > 1 else ""
    if wrong == "ok":
        ago_s = clock.now_us() // 1_000_000 - written_s
        return Finding("clock", "ok", f"{when}, {ago_s} s ago by this machine's clock{before}")
    remedy = "if this clock is wrong, set it before the start; that it was ahead does no harm"
    return Finding("clock", "warning", f"this machine's is {wrong}: {when}{before}", remedy)


def _left(data: Path) -> LeftCell | None:
    """How the cell was left that was written to last. Raises OSError, FileDamageError."""
    left = [left_cell(path) for path in _data_files(data)]
    return max(left, key=lambda one: (one.present_us, one.eras.version), default=None)


def _data_files(data: Path) -> list[Path]:
    found = (data / DATA_FILE, *data.glob(f"*/{DATA_FILE}"))
    return [path for path in found if path.is_file() and path.stat().st_size]


def keys(settings: ServerSettings) -> Finding:
    """What is stored can be opened, and the keys are not where everybody reads them."""
    path = settings.key_file
    if settings.kms_key:
        return Finding("keys", "ok", "they are in KMS, which was not asked")
    if not os.path.lexists(path) and not _data_files(settings.data):
        return Finding("keys", "ok", f"the first start makes {path}")
    if wrong := _wrong_keys(settings):
        return Finding("keys", "error", *wrong)
    if path.parent == settings.data:
        remedy = f"keep a copy of {path} elsewhere, and no copy of it with backups"
        return Finding("keys", "warning", f"{path} lies beside what it opens", remedy)
    return Finding("keys", "ok", f"{path} is apart from what it opens")


def _wrong_keys(settings: ServerSettings) -> tuple[str, str] | None:
    """Why the file of master keys does not open what is stored, and what helps; None: it does."""
    path = settings.key_file
    try:
        is_open = stat.S_IMODE(path.stat().st_mode) & _FOR_OTHERS
    except FileNotFoundError:
        remedy = "put it back: without it nothing that is stored can be read"
        return f"{path} is not there, and a store is", remedy
    except OSError as error:
        return f"{path}: {error.strerror}", "run as the user whom it belongs to"
    if is_open:
        return f"others may use {path}", f"chmod 600 {path}"
    reason = ""
    try:
        master_keys = KeyFile(settings.key_file, SystemEntropy())
        for data_file in _data_files(settings.data):
            if (item := peek(data_file.parent, ITEM)) is None:
                continue
            try:
                asyncio.run(check_opens(item, master_keys))
            except (MasterKeysError, UnreadableSecretError) as error:
                reason = f"cannot open the registry secret: {error}"
            else:
                return None  # of several cells one may be another service's
    except KeyFileError as error:
        reason = str(error)
    except CellInUseError:
        return None  # its server has opened it
    remedy = "put back the file that this service had, or name it: --master-keys FILE"
    return (reason, remedy) if reason else None


def files(clock: Clock, settings: ServerSettings) -> Finding:
    """Files and directories that settings name besides can be used."""
    if wrong := wrong_files(settings, clock):
        return Finding("files", "error", "; ".join(wrong), "mend what is named")
    return Finding("files", "ok", "what settings name besides can be used")


def file_limit(_settings: ServerSettings) -> Finding:
    """A connection is an open file; a server raises its limit as far as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES_MIN:
        remedy = f"ulimit -Hn {FILES_MIN}, or LimitNOFILE= of the unit"
        return Finding("open files", "warning", f"{hard} at most", remedy)
    return Finding("open files", "ok", f"{hard} at most")


def port(settings: ServerSettings) -> Finding:
    """Nobody else listens there, nor where metrics are to be."""
    apart = [("metrics", *settings.metrics_at)] if settings.metrics_at else []
    for setting, host, number in (("port", settings.host, settings.port), *apart):
        try:
            bind(host, number).close()
        except OSError as error:
            said = f"{host}:{number}: {error.strerror}"
            is_host = setting == "port" and error.errno != errno.EACCES
            remedy = f"name another --{'host' if is_host else setting}"
            if error.errno == errno.EADDRINUSE:
                ends = f"end what listens there (ss -ltnp 'sport = :{number}')"
                remedy = f"{ends}, or name another --{setting}"
            return Finding("port", "error", said, remedy)
    return Finding("port", "ok", f"{settings.host}:{settings.port} is free")


def certificate(clock: Clock, settings: ServerSettings) -> Finding:
    """It can be used, and will be for a while."""
    path = settings.tls_certificate
    if path is None:
        open_to_others = settings.host not in ("127.0.0.1", "::1", "localhost")
        if open_to_others:
            remedy = "--tls-certificate and --tls-key, or a proxy that has them"
            return Finding("certificate", "warning", "bodies cross the network in clear", remedy)
        return Finding("certificate", "ok", "none is needed on loopback")
    try:
        check_tls(settings)
    except StartError as error:
        return Finding("certificate", "error", str(error), "name a certificate and its key")
    shown = x509.load_pem_x509_certificates(path.read_bytes())[0]
    begins, ends = shown.not_valid_before_utc, shown.not_valid_after_utc
    now_s = clock.now_us() / 1_000_000
    if now_s < begins.timestamp():
        said = f"{path} is not valid before {begins:%Y-%m-%d}"
        return Finding("certificate", "error", said, "renew it, or set this machine's clock")
    left_s = ends.timestamp() - now_s
    said = f"{path} is valid until {ends:%Y-%m-%d}"
    if left_s < CERTIFICATE_S_MIN:
        state: State = "error" if left_s < 0 else "warning"
        return Finding("certificate", state, said, "renew it, and restart the server")
    return Finding("certificate", "ok", said)


def kind_of(path: Path, mounts: Path = _MOUNTS) -> str:
    """The kind of the file system that a path is on; "": nobody knows."""
    best = ("", "")
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    whole = path.resolve()
    for line in lines:
        before, _, after = line.partition(" - ")
        point = before.split()[4].replace("\\040", " ")
        if whole.is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, after.split()[0])
    return best[1]


def _nearest(path: Path) -> Path:
    """The directory itself, or the next one above it that is there."""
    whole = path.absolute()
    return next(one for one in (whole, *whole.parents) if one.is_dir())


def _synced_s(path: Path) -> float:
    with path.open("wb") as file:
        file.write(bytes(4096))
        file.flush()
        began_s = time.perf_counter()
        os.fsync(file.fileno())
        return time.perf_counter() - began_s
