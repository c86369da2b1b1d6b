"""Fuzz targets for a time or a number of inputs. Exit code 1 where an input broke something."""

import argparse
import base64
import importlib
import io
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from contextlib import redirect_stderr
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tests.fuzz.mutation import mutations
from tests.lanes.commands import module_command

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

ALL: Final = "all"
_INSTRUMENTED: Final = ["data_plane", "control_plane"]
_BYTES_MAX: Final = 4096
_INPUT_S_MAX: Final = 20
_MEMORY_BYTES_MAX: Final = 4 * 1024**3


def main() -> NoReturn:
    """Read the command line and fuzz."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", nargs="?", default=ALL, help="which, or all in turn")
    parser.add_argument("--seconds", type=float, default=10.0, help="for how long")
    parser.add_argument("--runs", type=int, help="how many inputs, whatever the time")
    parser.add_argument("--seed", type=int, default=1, help="of all chance")
    parser.add_argument("--plain", action="store_true", help="mutate without atheris")
    parser.add_argument(
        "--replay",
        type=_octets,
        metavar="BASE64",
        help="one input of a target, as a failure printed it",
    )
    given = parser.parse_args()
    if given.replay is not None and given.target == ALL:
        parser.error("--replay needs the target that the input is for")
    atheris = None if given.plain or given.replay is not None else _atheris()
    if atheris is None:
        targets = _targets()
    else:
        # It names every module on standard error.
        with redirect_stderr(io.StringIO()), atheris.instrument_imports(include=_INSTRUMENTED):
            targets = _targets()
    if given.target not in {ALL, *targets}:
        parser.error(f"no target {given.target!r}: it is one of {', '.join(targets)}, {ALL}")
    chosen = {n: made() for n, made in targets.items() if given.target in (n, ALL)}
    if given.replay is not None:
        chosen[given.target].run(given.replay)
        print(f"{given.target}: {len(given.replay)} bytes, nothing broke", flush=True)
        sys.exit(0)
    campaign = Campaign(chosen, given.seconds, given.runs)
    if atheris is None:
        campaign.mutate(given.seed)
    else:
        campaign.guide(atheris, given.seed)
    sys.exit(1)  # neither comes back


def _octets(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not base64: {error}") from None


def _atheris() -> Any:
    try:
        return importlib.import_module("atheris")
    except ImportError:
        print("atheris is not installed: inputs are mutated without guidance", flush=True)
        return None


def _targets() -> Mapping[str, Any]:
    targets: Mapping[str, Any] = importlib.import_module("tests.fuzz.targets").TARGETS
    return targets


class Campaign:
    """Inputs of several targets: the first byte says of which, if there are several."""

    def __init__(self, targets: Mapping[str, "Target"], seconds: float, runs: int | None) -> None:
        self._targets = list(targets.items())
        self._runs = runs
        self._until_s = time.monotonic() + seconds
        self._counts: Counter[str] = Counter()
        self._folder = tempfile.mkdtemp(prefix="fuzz-")

    def seeds(self) -> list[bytes]:
        """Inputs to begin with."""
        if len(self._targets) == 1:
            return list(self._targets[0][1].seeds)
        return [
            bytes((number,)) + seed
            for number, (_, target) in enumerate(self._targets)
            for seed in target.seeds
        ]

    def run(self, octets: bytes) -> None:
        """Run one input; ends the process where it fails, or it was the last."""
        number = 0
        if len(self._targets) > 1:
            number, octets = (octets[0] if octets else 0) % len(self._targets), octets[1:]
        name, target = self._targets[number]
        try:
            target.run(octets)
        except Exception:  # noqa: BLE001 - whatever it is, it is what was looked for
            traceback.print_exc()
            text = base64.b64encode(octets).decode()
            command = module_command("tests.fuzz", name, "--replay", text)
            print(f"broken: {command}", flush=True)
            self._end(1)
        self._counts[name] += 1
        done = self._counts.total()
        if done >= self._runs if self._runs else time.monotonic() >= self._until_s:
            counts = ", ".join(f"{name} {count}" for name, count in sorted(self._counts.items()))
            print(f"fuzzed with {done} inputs: {counts}", flush=True)
            self._end(0)

    def _end(self, code: int) -> NoReturn:
        shutil.rmtree(self._folder)
        sys.stderr.flush()
        os._exit(code)  # libFuzzer counts every other way to end as a finding

    def mutate(self, seed: int) -> None:
        """Fuzz without guidance; what asks for too much memory is a finding (libFuzzer's own)."""
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES_MAX, _MEMORY_BYTES_MAX))
        streams = [mutations(target.seeds, Random(seed)) for _, target in self._targets]
        while True:
            for number, stream in enumerate(streams):
                octets = next(stream)
                self.run(bytes((number,)) + octets if len(streams) > 1 else octets)

    def guide(self, atheris: Any, seed: int) -> None:
        """Fuzz towards code that no input has reached yet."""
        for number, octets in enumerate(self.seeds()):
            (Path(self._folder) / str(number)).write_bytes(octets)
        arguments = [
            "tests.fuzz",
            f"-seed={seed}",
            f"-max_len={_BYTES_MAX}",
            f"-timeout={_INPUT_S_MAX}",
            "-verbosity=0",
            f"-artifact_prefix={self._folder}/",
            self._folder,
        ]
        atheris.Setup(arguments, self.run)
        atheris.Fuzz()


main()
