"""`kvberth scenario run` as a program: its output, its exit status, and that nothing is left behind."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvberth.scenario.backend.bare.kernel import MARK
from support.vineyardd import short_directory

EXAMPLE = Path(__file__).parents[3] / "examples" / "llama-3-8b-l20" / "engine-and-kvcache.yaml"
PASSES = """
name: passes
steps:
  - wait: {node: {name: l20-a, ready: true}, measure: ready}
  - {cordon: l20-a, needs: metadata}
"""
FAILS = f"""
name: fails
steps:
  - apply: {EXAMPLE}
  - wait: {{process: {{role: engine}}}}
  - node_down: l20-a
  - expect: {{caches: {{kvcache: aibrix-kvcache-llama-3-8b-instruct, nodes: [l20-b]}}, within: 100ms}}
  - cordon: l20-b
"""
SKIPPED = "{name: skipped, requires: kubernetes, steps: [{cordon: l20-a}]}"
HANGS = (
    f"{{name: hangs, steps: [{{apply: {EXAMPLE}}}, {{wait: {{node: {{name: l20-b, ready: false}}}}, within: 100s}}]}}"
)


@dataclass(frozen=True)
class Runner:
    """Where a command runs: all that it makes lies here."""

    folder: Path
    """Short, because sockets lie below it."""

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start the command."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kvberth.cli", "scenario", "run", *arguments),
            env={**os.environ, "TMPDIR": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run it to its end: exit status, standard output, standard error."""
        process = await self.start(*arguments)
        out, err = await asyncio.wait_for(process.communicate(), 150)
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    def write(self, **files: str) -> list[str]:
        """Write scenario files."""
        for name, text in files.items():
            (self.folder / f"{name}.yaml").write_text(text)
        return [str(self.folder / f"{name}.yaml") for name in files]

    def left(self) -> list[str]:
        """Name what stacks left behind: processes that carry the mark, folders."""
        marks = [f"{MARK}={self.folder}".encode(), f"{self.folder}/kvb-".encode()]
        found = [str(path) for path in self.folder.glob("kvb-*")]
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    told = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                except OSError:  # it ended meanwhile, or is another user's
                    continue
                found += [f"process {entry.name}"] if any(mark in told for mark in marks) else []
        return found


@pytest.fixture
async def runner() -> AsyncIterator[Runner]:
    """A folder for everything that a command makes."""
    with short_directory() as folder:
        yield Runner(folder)


@pytest.mark.timeout(180)
async def test_json_is_one_object_and_a_failed_scenario_keeps_its_logs_and_leaves_nothing(runner: Runner) -> None:
    files = runner.write(passes=PASSES, fails=FAILS, skipped=SKIPPED)
    code, out, err = await runner.run(*files, "--json", "--keep", str(runner.folder / "kept"))
    assert code == 1
    passed, failed, skipped = json.loads(out)["scenarios"]
    assert (passed["name"], passed["passed"], passed["skipped"], passed["failures"]) == ("passes", True, None, [])
    assert passed["measures"]["skipped_parts"] == 1
    assert passed["measures"]["ready"] >= 0
    assert (failed["file"], failed["passed"], skipped["skipped"]) == (files[1], False, "requires kubernetes")
    assert skipped["passed"] is False
    (failure,) = failed["failures"]
    assert failure["step"].startswith("4: expect caches of")
    assert failure["expected"].endswith("answer on exactly l20-b within 0.1 s")
    assert failure["seen"].startswith("they answer on ")
    assert "1 passed, 1 failed, 1 skipped" in err
    assert "skipped 2: cordon l20-a  (needs metadata)" in err
    kept = {path.name for path in (runner.folder / "kept" / "fails").rglob("*")}
    assert {"events.jsonl", "up.log", "scheduler.log", "nats.log"} <= kept
    assert any(re.fullmatch(r"engine\..*\.log", name) for name in kept)
    assert runner.left() == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
async def test_ctrl_c_in_the_middle_of_a_story_leaves_nothing(runner: Runner, number: signal.Signals) -> None:
    process = await runner.start(*runner.write(hangs=HANGS))
    assert process.stdout is not None
    async with asyncio.timeout(90):
        while b"1: apply" not in await process.stdout.readline():
            assert process.returncode is None
    assert runner.left() != [], "nothing ran; nothing is tested"
    process.send_signal(number)
    await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 130
    assert runner.left() == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--kubeconfig", "x"], "there is no kubeconfig x"),
        (["--backend", "bare", "--node-driver", "x"], "does not go with these options"),
        (["--backend", "moon"], "there are 'bare' and 'kubernetes'"),
    ],
)
async def test_a_backend_that_is_not_there_is_one_sentence(runner: Runner, arguments: list[str], sentence: str) -> None:
    code, out, err = await runner.run(*runner.write(passes=PASSES), *arguments, "--json")
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.strip().splitlines()) == 1


async def test_a_wrong_file_keeps_all_from_running(runner: Runner) -> None:
    code, out, err = await runner.run(*runner.write(passes=PASSES, wrong="steps: [{aply: x}]"), "--json")
    assert (code, out) == (2, "")
    assert err.strip().endswith("wrong.yaml: steps[0].aply: there is no such key here; did you mean 'apply'?")


async def test_a_factor_that_changes_the_order_of_waits_fails_before_anything_is_started(runner: Runner) -> None:
    text = "{time: {node_lost: 300s, engine_backoff: 10s}, steps: [{cordon: l20-a}]}"
    code, out, _ = await runner.run(*runner.write(order=text), "--json", "--time-factor", "0.02")
    assert code == 1
    (failure,) = json.loads(out)["scenarios"][0]["failures"]
    assert "would not come after engine_backoff" in failure["seen"]


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_every_verb_and_expectation_passes_where_it_is_right(runner: Runner) -> None:
    code, out, err = await runner.run(str(Path(__file__).parent / "every_verb.yaml"), "--time-factor", "0.1", "--json")
    assert code == 0, err
    (outcome,) = json.loads(out)["scenarios"]
    assert outcome["measures"]["skipped_parts"] == 2
    assert "node_lost 120 s -> 12 s" in err
    assert runner.left() == []
