"""Draws what benchmarks measured last, from `bench-results.jsonl`: `python -m benchmarks.plots [FOLDER]`.

`ratios.svg` has put and get by the size of blocks, `peers.svg` other stores beside ours, `saturation.svg` the minute of
overload: what `offload` takes, what is in use against the bound, and what became of blocks.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.results import FILE
from benchmarks.svg import Panel, drawing

SIZES = {"256k": 1 / 4, "640k": 5 / 8, "": 2.0, "16m": 16.0}
"""What a result's name ends with, and MiB of a block."""
NAMES = {1 / 4: "256 KiB", 5 / 8: "640 KiB", 2.0: "2 MiB", 16.0: "16 MiB"}

Results = Mapping[str, Mapping[str, Any]]


def main() -> None:
    """Read, draw, and say what was written. FOLDER is `bench-plots` where none is named."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "bench-plots")
    folder.mkdir(exist_ok=True)
    found = last(FILE.read_text(encoding="utf-8").splitlines())
    for name, panels in (("ratios", ratios(found)), ("peers", peers(found)), ("saturation", saturation(found))):
        (folder / f"{name}.svg").write_text(drawing(panels), encoding="utf-8")
        sys.stdout.write(f"{folder / name}.svg\n")


def last(lines: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The last result of each name."""
    return {result["name"]: result for result in map(json.loads, lines)}


def ratios(found: Results) -> list[Panel]:
    """One panel for time, one for the engine's own CPU."""
    return [
        Panel(
            title=title,
            x="size of a block",
            y="part of a plain copy's speed",
            lines={
                f"{what}{words}": list(_by_size(found, f"{what}_{kind}", checksum))
                for what in ("put", "get")
                for checksum, words in (("", ""), ("_checksum", " with checksums"))
            },
            marks={"plain copy": 1.0},
            ticks=NAMES,
            log_x=True,
        )
        for title, kind in (("Put and get", "ratio"), ("The same, by CPU time", "cpu_ratio"))
    ]


def _by_size(found: Results, name: str, checksum: str) -> Iterator[tuple[float, float]]:
    for size, mib in SIZES.items():
        result = found.get("_".join(part for part in (name, size) if part) + checksum)
        if result is not None:
            yield mib, result["value"]


def peers(found: Results) -> list[Panel]:
    """The rounds of each store, in the order in which they were measured."""
    names = [name.removeprefix("peer_").removesuffix("_put_ratio") for name in found if _is_peer(name)]
    return [
        Panel(
            title=f"{what.capitalize()}, 16 blocks of 2 MiB at once",
            x="round",
            y="part of a plain copy's speed",
            lines={
                name: list(enumerate(found[f"peer_{name}_{what}_ratio"]["context"]["rounds"][1:])) for name in names
            },
            marks={"plain copy": 1.0},
        )
        for what in ("put", "get")
    ]


def _is_peer(name: str) -> bool:
    return name.startswith("peer_") and name.endswith("_put_ratio")


def saturation(found: Results) -> list[Panel]:
    """Over the time of the run."""
    series = found.get("saturation_series", {}).get("context", {}).get("series", {})
    at: list[float] = series.get("at_s", [])

    def line(values: Iterable[float]) -> list[tuple[float, float]]:
        return list(zip(at, values, strict=True))

    per_s = {
        reason: [(then, (more - less) / (then - before)) for before, then, less, more in _steps(at, counts)]
        for reason, counts in series.get("outcomes", {}).items()
    }
    submits = {f"p{part}": line(series[f"submit_p{part}_us"]) for part in (50, 99) if f"submit_p{part}_us" in series}
    use = {"in use": line(series["in_use_mib"])} if at else {}
    bound = {"bound": float(series["budget_mib"])} if at else None
    return [
        Panel(title="What offload() takes", x="s", y="us", lines=submits, marks={"target": 50.0}),
        Panel(title="Bytes queued, granted and quarantined", x="s", y="MiB", lines=use, marks=bound),
        Panel(title="What became of blocks", x="s", y="blocks a second", lines=per_s),
    ]


def _steps(at: list[float], counts: list[float]) -> Iterator[tuple[float, float, float, float]]:
    return zip(at, at[1:], counts, counts[1:], strict=False)


if __name__ == "__main__":
    sys.exit(main())
