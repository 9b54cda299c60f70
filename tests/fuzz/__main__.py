"""`make fuzz`: feeds every parser with changed inputs, and says which it can't take.

Exit status: 0 when no input failed. What failed is kept below `.cache/fuzz`; with its fix it goes into
`tests/fuzz/corpus/<parser>/`, under a name that says what it is, and is read again for ever.
"""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.results import Result, append
from tests.fuzz.apart import apart
from tests.fuzz.loop import Bounds, Report
from tests.fuzz.parsers import parsers, run

KEPT = Path(".cache/fuzz")


def main() -> int:
    """Do all of it."""
    options = _options()
    chosen = options.parser or sorted(parsers())
    seed = options.seed if options.seed is not None else int(time.time())
    sys.stdout.write(
        f"{options.inputs} inputs or {options.seconds:g} s for each of {len(chosen)} parsers, seed {seed}\n"
    )
    bounds = Bounds(options.inputs, options.seconds)
    reports: list[Report] = []
    with ThreadPoolExecutor(options.jobs) as threads:  # each of which waits for a process
        for report in threads.map(lambda name: apart(run, name, bounds, seed), chosen):
            reports.append(report)
            _tell(report)
    _record(reports)
    return 1 if any(report.failures for report in reports) else 0


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m tests.fuzz")
    options.add_argument("parser", nargs="*", help="all by default")
    options.add_argument("--inputs", type=int, default=1_000_000, help="per parser")
    options.add_argument("--seconds", type=float, default=float("inf"), help="per parser")
    options.add_argument("--seed", type=int, help="the same seed makes the same inputs")
    options.add_argument("--jobs", type=int, default=2, help="parsers at a time")
    return options.parse_args()


def _tell(report: Report) -> None:
    what = f"{report.parser:14} {report.inputs:9} inputs, {report.outcomes:5} outcomes"
    cost = f"slowest {report.slowest_s * 1000:6.1f} ms, memory {report.growth_bytes / 2**20:+5.1f} MiB"
    sys.stdout.write(f"{what}, {cost}, {len(report.failures)} failures\n")
    for failure in report.failures:
        sys.stdout.write(f"  {failure.keep(KEPT)}: {failure.what}\n")
    sys.stdout.flush()


def _record(reports: list[Report]) -> None:
    each = {report.parser: report.inputs for report in reports}
    slowest = {report.parser: round(report.slowest_s, 4) for report in reports}
    append(Result(name="fuzz_inputs_per_parser", value=min(each.values()), unit="inputs", context={"inputs": each}))
    failures = sum(len(report.failures) for report in reports)
    append(Result(name="fuzz_failures", value=failures, unit="inputs", target=0, context={"slowest_s": slowest}))


if __name__ == "__main__":
    sys.exit(main())
