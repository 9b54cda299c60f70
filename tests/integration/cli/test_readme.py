"""What the README tells a newcomer to paste works, in that order, and so does the manifest that he writes then."""

import asyncio
import re
import shlex
from pathlib import Path

import pytest

from integration.cli.terminal import Terminal

README = (Path(__file__).parents[3] / "README.md").read_text()


def section(title: str) -> str:
    return README.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def snippets(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(240)
async def test_the_commands_and_the_manifest_to_write_oneself_do_what_the_page_says(
    terminal: Terminal, tmp_path: Path
) -> None:
    first, second = snippets(section("Play with it"), "sh")
    assert first == ".venv/bin/kvberth up\n"
    served = {"apply": "l20-a (serving)", "drain": "l20-b (serving)"}
    async with terminal.up() as up:
        for line in second.splitlines():
            words = shlex.split(line, comments=True)
            if words[1] == "down":
                await _write_a_manifest(terminal, tmp_path / "mine.yaml")
            if words[1] == "events":
                await _follow_events(terminal, words[1:])
                continue
            ran = await terminal.shell(line)
            assert ran.code == 0, f"{line}\n{ran.out}{ran.err}"
            for verb, expected in served.items():
                if verb in words:
                    await terminal.until(lambda out, row=expected: row in out and "1/1 served" in out, "status")
        async with asyncio.timeout(30):
            assert await up.wait() == 0, "'down' ends 'up'"


async def _follow_events(terminal: Terminal, words: list[str]) -> None:
    """Events come when something happens: another terminal cordons a node."""

    async def cordon_and_uncordon() -> None:
        while True:
            await terminal.run("node", "cordon", "l20-a")
            await terminal.run("node", "uncordon", "l20-a")

    other = asyncio.create_task(cordon_and_uncordon())
    try:
        ran = await terminal.interrupted(*words, at=lambda out: "node.changed" in out)
    finally:
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
    assert "Traceback" not in ran.err
    assert (await terminal.run("node", "uncordon", "l20-a")).code == 0


async def _write_a_manifest(terminal: Terminal, file: Path) -> None:
    (text,) = snippets(section("Write your own manifest"), "yaml")
    file.write_text(text)
    applied = await terminal.run("apply", "-f", str(file))
    assert applied.code == 0
    assert "warning" not in applied.out
    await terminal.until(lambda out: out.count("1/1 served") == 2 and "my-kv" in out, "status")
