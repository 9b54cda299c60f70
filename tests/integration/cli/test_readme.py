"""What the README tells a newcomer to paste works, in that order."""

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
async def test_the_commands_of_play_with_it_do_what_they_say(terminal: Terminal) -> None:
    first, second = snippets(section("Play with it"), "sh")
    assert first == ".venv/bin/kvberth up\n"
    served = {"apply": "l20-a (serving)", "drain": "l20-b (serving)"}
    async with terminal.up() as up:
        for line in second.splitlines():
            words = shlex.split(line, comments=True)
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


async def test_the_manifest_to_write_oneself_is_served(terminal: Terminal, tmp_path: Path) -> None:
    (text,) = snippets(section("Write your own manifest"), "yaml")
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    async with terminal.up("-f", str(file)):
        out = await terminal.until(lambda out: "1/1 served" in out, "status")
    assert "my-kv" in out
    assert "warning" not in out
