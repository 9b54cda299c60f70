"""The commands against a running stack and against none: what a newcomer types, and what he is told."""

import json
import os
import signal
from pathlib import Path

import pytest

from integration.cli.terminal import Terminal

KVCACHE = """
apiVersion: orchestration.aibrix.ai/v1alpha1
kind: KVCache
metadata: {{name: {name}}}
spec: {{replicas: 1, {more} cacheSpec: {{memory: {memory}}}}}
"""
INTERRUPTED = {130, -signal.SIGINT}
"""The same to a shell. Python ends itself by the signal if Ctrl-C came in an exec of a text, as of a dataclass."""
LONG = "a-kvcache-whose-name-is-much-longer-than-a-column-of-a-table"


def kvcache(name: str, memory: str = "1Gi", more: str = "") -> str:
    return KVCACHE.format(name=name, memory=memory, more=more)


async def test_without_a_stack_every_command_says_how_to_start_one(terminal: Terminal) -> None:
    for words in (("status",), ("apply", "-f", "-"), ("node", "drain", "a")):
        ran = await terminal.run(*words, stdin=b"kind: KVCache")
        assert ran.code == 1
        assert ran.err.startswith(f"error: no kvberth runs with the state directory {terminal.state}; start one with")
    down = await terminal.run("down")
    assert (down.code, down.out) == (0, f"nothing runs with the state directory {terminal.state}\n")


async def test_up_says_in_one_sentence_what_hinders_it(terminal: Terminal) -> None:
    terminal.state.write_text("a file of the user's")
    ran = await terminal.run("up")
    assert ran.code == 1
    assert "is a file where a directory should be; name another with --state" in ran.err
    assert len(ran.err.splitlines()) == 1
    assert terminal.state.read_text() == "a file of the user's"


@pytest.mark.timeout(240)
async def test_a_stack_from_its_start_to_its_end(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "first.yaml"
    file.write_text(kvcache("first"))
    async with terminal.up("-f", str(file)):
        await _until_its_end(terminal)


async def _until_its_end(running: Terminal) -> None:
    assert "first" in (await running.run("status")).out
    second = await running.run("up")
    assert second.code == 1
    assert "Another 'kvberth up' (pid " in second.err
    assert "end it with 'kvberth down'" in second.err

    await _a_file_is_applied_whole_or_not_at_all(running)
    await _warnings_are_the_sentences_of_the_condition(running)
    await _a_pipe_is_not_wrapped(running)
    await _unknown_names_are_answered_with_known_ones(running)
    await _events_are_lines_or_json(running)
    await _a_program_gets_the_whole_status(running)
    await _who_watches_a_file_reads_of_a_silence(running)

    down, events = await running.ended_by("down", "events", at=lambda out: "node.changed" in out)
    assert (down.code, down.out) == (0, "kvberth is down.\n")
    assert events.code == 0
    assert events.err.splitlines()[-1] == f"the kvberth with the state directory {running.state} has ended"


async def _a_program_gets_the_whole_status(running: Terminal) -> None:
    shown = json.loads((await running.run("status", "--json")).out)
    assert set(shown) == {"kvcaches", "engines", "nodes", "processes", "silent", "clocks", "notes"}
    assert {node["name"] for node in shown["nodes"]} == {"l20-a", "l20-b"}


async def _who_watches_a_file_reads_of_a_silence(running: Terminal) -> None:
    pid = json.loads((running.state / "services" / "placement.json").read_text())["pid"]

    def silent(out: str) -> bool:
        if "\n---" in out:
            os.kill(pid, signal.SIGSTOP)
        return "PlacementSilent" in out

    try:
        watched = await running.interrupted("status", "-w", at=silent)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "PlacementSilent" not in watched.out.partition("\n---")[0]


async def _a_file_is_applied_whole_or_not_at_all(running: Terminal) -> None:
    text = f"{kvcache('good')}---{kvcache('bad', '72GB')}"
    ran = await running.run("apply", "-f", "-", stdin=text.encode())
    assert ran.code == 1
    assert "KVCache/bad in default: refused: spec.cacheSpec.memory: '72GB'" in ran.out
    assert "KVCache/good in default: held back: is not applied, since another object of standard input" in ran.out
    assert "good" not in (await running.run("status")).out


async def _warnings_are_the_sentences_of_the_condition(running: Terminal) -> None:
    ran = await running.run("apply", "-f", "-", stdin=kvcache("odd", more="replicaz: 3,").encode())
    assert ran.code == 0
    name, warning = ran.out.splitlines()
    assert name == "KVCache/odd in default: accepted: created"
    assert warning.startswith("  warning: spec.replicaz: ")
    sentence = warning.removeprefix("  warning: ")
    await running.until(lambda out: f"default/odd: {sentence}\n" in out, "status")


async def _a_pipe_is_not_wrapped(running: Terminal) -> None:
    assert (await running.run("apply", "-f", "-", stdin=kvcache(LONG).encode())).code == 0
    out = await running.until(lambda out: LONG in out and f"default/{LONG}: " in out, "status")
    (row,) = (line for line in out.splitlines() if line.startswith(LONG))
    assert row.split()[1:4] == ["default", "0/0", "served"]
    watched = await running.interrupted("status", "-w", at=lambda out: "\n---" in out)
    assert row.split()[0] in watched.out
    assert "Traceback" not in watched.err


async def _unknown_names_are_answered_with_known_ones(running: Terminal) -> None:
    ran = await running.run("delete", "kvcache", "od")
    assert ran.code == 1
    assert "no KVCache od is known in namespace default; did you mean odd?" in ran.out
    ran = await running.run("node", "cordon", "l20a")
    assert "did you mean l20-a? Known: l20-a, l20-b" in ran.out
    ran = await running.run("scale", "deployment", "none", "--replicas", "1")
    assert "none is known at all" in ran.out


async def _events_are_lines_or_json(running: Terminal) -> None:
    lines = await running.interrupted("events", at=lambda out: "node.changed" in out)
    assert "Traceback" not in lines.err
    rows = await running.interrupted("events", "--json", at=lambda out: out.count("\n") >= 2)
    assert {json.loads(row)["type"] for row in rows.out.splitlines()[:2]} <= {
        "kvberth.node.changed.v1",
        "kvberth.kvcache.spec.v1",
        "kvberth.kvcache.status.v1",
    }


async def test_ctrl_c_while_the_command_is_still_being_imported_ends_it_without_a_word(terminal: Terminal) -> None:
    for awaited in ("typer.core", "kvberth.bus", "kvberth.bare.stack"):
        ran = await terminal.interrupted_at_import(awaited, "status")
        assert "Traceback" not in ran.err
        assert ran.code in INTERRUPTED
