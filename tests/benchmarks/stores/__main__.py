"""Compare the stores that could lie under the embedded cell: python -m tests.benchmarks.stores.

Each store is measured in processes of its own, in turns, three times; the middle run of each figure
is what docs/adr/0001-embedded-store.md quotes.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.stores import cell_speed, disk_full, speed
from tests.benchmarks.stores.candidates import CANDIDATES

PARTS = ("commits", "holes", "full", "disk", "cell")


def report(what: str, figure: str) -> None:
    print(f"    {what:48} {figure}", flush=True)


def measure(part: str, name: str, directory: Path, arguments: argparse.Namespace) -> None:
    """One part for one store, in this process."""
    if part == "commits":
        store = CANDIDATES[name](directory)
        speed.measure_commits(store, arguments.commits, report)
        speed.measure_beside_busy_loop(store, arguments.commits // 10, report)
        store.close()
    elif part == "holes":
        store = CANDIDATES[name](directory)
        speed.measure_holes(store, arguments.items // 5, report)
        store.close()
    elif part == "load":
        store = CANDIDATES[name](directory)
        speed.load(store, arguments.items)
        store.close()
    elif part == "full":
        speed.measure_full_store(name, directory, arguments.items, report)
    elif part == "disk":
        disk_full.observe_full_disk(name, report)
    else:
        rounds = arguments.commits // 2
        asyncio.run(cell_speed.measure_single_appends(directory / "a", rounds, report))
        coalesced = cell_speed.measure_coalesced_appends
        asyncio.run(coalesced(directory / "b", rounds, report))
        for number, interval_s in enumerate((0.005, 0.001, 0.000_2)):
            sys.setswitchinterval(interval_s)
            report("threads of the interpreter take turns after", f"{interval_s * 1e3:8.1f} ms")
            busy = coalesced(directory / f"c{number}", rounds // 4, report, work_us=60)
            asyncio.run(busy)


def start(part: str, name: str, directory: Path, arguments: argparse.Namespace) -> None:
    """The same in a process of its own."""
    sizes = ["--items", str(arguments.items), "--commits", str(arguments.commits)]
    command = [sys.executable, "-m", "tests.benchmarks.stores", *sizes]
    command += ["--part", part, "--store", name, "--within", str(directory)]
    subprocess.run(command, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare embedded stores.")
    parser.add_argument("--items", type=int, default=1_000_000, help="items of the full store")
    parser.add_argument("--commits", type=int, default=2_000, help="commits per figure")
    parser.add_argument("--rounds", type=int, default=3, help="how often to measure commits")
    parser.add_argument("--within", type=Path, default=Path(), help="directory to write below")
    parser.add_argument("--part", choices=[*PARTS, "load"], help="measure this part only")
    parser.add_argument("--store", choices=CANDIDATES, help="measure this store, in this process")
    arguments = parser.parse_args()
    if arguments.store is not None:
        measure(arguments.part, arguments.store, arguments.within, arguments)
        return
    for part in (arguments.part,) if arguments.part else PARTS:
        rounds = arguments.rounds if part in {"commits", "cell"} else 1
        for number in range(rounds):
            for name in CANDIDATES if part != "cell" else ("lmdb",):
                shown = "the embedded cell" if part == "cell" else name
                print(f"{part}, {shown}, round {number + 1}", flush=True)
                with tempfile.TemporaryDirectory(dir=arguments.within) as directory:
                    if part == "full":
                        start("load", name, Path(directory), arguments)
                    start(part, name, Path(directory), arguments)


if __name__ == "__main__":
    main()
