"""Our client beside other stores, client to client: rounds in turn, so that whatever else the machine does hits all.

`KVBERTH_PEERS` names a folder with a virtual environment for each that is to be measured, by its name: `aibrix`,
`lmcache`, `vineyard_llm` (`make bench-peers` makes them). What is not there is passed over with a word.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from benchmarks.peers.driver import BATCH, BLOCKS
from benchmarks.results import Result, append, machine
from benchmarks.transfer import cache

HERE = Path(__file__).parent
PEERS = ("aibrix", "lmcache", "vineyard_llm")
ROUNDS = 6
"""The first is cold and does not count."""
LIMIT_S = 120.0

Ratios = dict[str, list[float]]


class Driver:
    """A store's own process, which answers a line of JSON to each word."""

    def __init__(self, python: str, name: str, *arguments: str) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 -- closed by __exit__, as the process is ended
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)} if python == sys.executable else None
        self._process = subprocess.Popen(
            [python, str(HERE / f"drive_{name}.py"), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment,
        )  # fmt: skip

    def __enter__(self) -> Self:
        try:
            self.answer()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends it, by force where it does not end by itself."""
        _pipe(self._process.stdin).close()
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _pipe(self._process.stdout).close()
        self._log.close()

    def tell(self, words: str) -> dict[str, float]:
        pipe = _pipe(self._process.stdin)
        pipe.write(words + "\n")
        pipe.flush()
        return self.answer()

    def answer(self) -> dict[str, float]:
        """Raises RuntimeError, with the end of what the store said, where there is none."""
        line = _pipe(self._process.stdout).readline()
        if not line:
            self._log.seek(0)
            raise RuntimeError(self._log.read()[-600:])
        told: dict[str, float] = json.loads(line)
        return told


def main() -> None:
    """Measure, print, append, and print the table."""
    found = asyncio.run(measured(pythons()))
    for name, ratios in found.items():
        for what, values in ratios.items():
            context = {**machine(), "rounds": [round(value, 3) for value in values]}
            value = statistics.median(values[1:])
            sys.stdout.write(f"{append(Result(name=f'peer_{name}_{what}', value=value, unit='x', context=context))}\n")
    sys.stdout.write("\n".join(table(found)) + "\n")


def pythons() -> dict[str, str]:
    """The Python of each peer that is there."""
    folder = os.environ.get("KVBERTH_PEERS")
    found = {}
    for name in PEERS:
        python = Path(folder or "/nonexistent") / name / "bin" / "python"
        if python.exists():
            found[name] = str(python)
        else:
            sys.stdout.write(f"{name} is passed over: {python if folder else 'KVBERTH_PEERS names no folder'}\n")
    return found


async def measured(peers: Mapping[str, str]) -> dict[str, Ratios]:
    with (
        tempfile.TemporaryDirectory(prefix="kvb-", dir="/tmp") as one,
        tempfile.TemporaryDirectory(prefix="kvb-", dir="/tmp") as two,
    ):
        async with cache(Path(one), checksums=False), cache(Path(two), checksums=True):
            own = {"kvberth": one, "kvberth_checksum": two}
            return await asyncio.to_thread(lambda: in_turns(own, peers))


def in_turns(own: Mapping[str, str], peers: Mapping[str, str]) -> dict[str, Ratios]:
    found: dict[str, Ratios] = {}
    with ExitStack() as stack:
        drivers = dict(started(stack, own, peers))
        found = {name: defaultdict(list) for name in drivers}
        for number in range(ROUNDS):
            sys.stderr.write(f"round {number + 1} of {ROUNDS}: {', '.join(drivers)}\n")
            for name, driver in list(drivers.items()):
                try:
                    one_round(driver, number, found[name])
                except (RuntimeError, BrokenPipeError) as error:
                    sys.stdout.write(f"{name} has failed: {error}\n")
                    del drivers[name], found[name]
    return found


def started(stack: ExitStack, own: Mapping[str, str], peers: Mapping[str, str]) -> Iterator[tuple[str, Driver]]:
    """Ours, and the peers that start."""
    for name, directory in own.items():
        yield name, stack.enter_context(Driver(sys.executable, "kvberth", directory))
    for name, python in peers.items():
        try:
            yield name, stack.enter_context(Driver(python, name))
        except RuntimeError as error:
            sys.stdout.write(f"{name} does not start: {error}\n")


def one_round(driver: Driver, number: int, found: Ratios) -> None:
    for what in ("put", "get"):
        told = driver.tell(f"{what} {number}")
        if not told["right"]:
            raise RuntimeError("other bytes came back than went in")
        found[f"{what}_ratio"].append(told["ratio"])
        found[f"{what}_cpu_ratio"].append(told["cpu_ratio"])
    driver.tell(f"forget {number}")


def table(found: Mapping[str, Ratios]) -> Iterator[str]:
    yield f"parts of a plain copy's speed, {BLOCKS} blocks of 2 MiB, {BATCH} at once; then least and most of the rounds"
    yield f"{'store':18} {'put':>6} {'get':>6} {'put, CPU':>8} {'get, CPU':>8}"
    for name, ratios in found.items():
        put, get = (values[1:] for values in (ratios["put_ratio"], ratios["get_ratio"]))
        cpu = [statistics.median(ratios[f"{what}_cpu_ratio"][1:]) for what in ("put", "get")]
        spread = f"{min(put):.2f}-{max(put):.2f}, {min(get):.2f}-{max(get):.2f}"
        middle = f"{statistics.median(put):6.2f} {statistics.median(get):6.2f} {cpu[0]:8.2f} {cpu[1]:8.2f}"
        yield f"{name:18} {middle}   {spread}"


def _pipe(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise RuntimeError("the process has no pipe")
    return pipe


if __name__ == "__main__":
    sys.exit(main())
