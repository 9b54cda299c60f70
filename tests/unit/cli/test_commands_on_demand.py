"""The list of commands: it says what each command says of itself, and loads none of them."""

import subprocess
import sys

import pytest
import typer.main

from kvberth.cli.application import app
from kvberth.cli.commands import ENTRIES

HEAVY = ("kvberth.bus", "kvberth.bare", "kvberth.scenario", "nats", "pydantic", "structlog")


@pytest.mark.parametrize("name", ENTRIES)
def test_a_command_is_listed_with_the_first_sentence_of_its_help(name):
    own = ENTRIES[name].load(name).help.split("\n\n")[0].replace("\n", " ")
    assert ENTRIES[name].summary == own


def test_the_list_of_commands_imports_none_of_them():
    code = (
        "import sys\n"
        "from kvberth.cli.application import app\n"
        "try: app(['--help'])\n"
        "finally: print(*sys.modules, sep='\\n', file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(name in ran.stdout for name in (*ENTRIES, "node-agent", "On this machine", "Engines and caches"))
    loaded = set(ran.stderr.split())
    assert loaded.isdisjoint(HEAVY)


def test_a_command_that_is_run_is_the_loaded_one():
    group = typer.main.get_command(app)
    with group.make_context("kvberth", ["status", "-w"]) as context:
        name, command, rest = group.resolve_command(context, ["status", "-w"])
    assert (name, rest) == ("status", ["-w"])
    assert {parameter.name for parameter in command.params} >= {"watch", "state"}
