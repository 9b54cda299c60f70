"""What the documents name is there: files, commands, targets, variables."""

import re
from pathlib import Path

import pytest
import typer.main

from kvberth.bare.stack import read_nodes
from kvberth.cli.application import app
from kvberth.cli.commands import ENTRIES

ROOT = Path(__file__).parents[3]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
USER_DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "bare.md"]
COMMANDS = typer.main.get_command(app).commands


def ids(paths):
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids(DOCUMENTS))
def test_links_to_files_lead_somewhere(document):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text())
    broken = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("document", USER_DOCUMENTS, ids=ids(USER_DOCUMENTS))
def test_named_commands_exist(document):
    named = set(re.findall(r"(?:`|bin/)kvberth ([a-z][a-z-]*)(?: ([a-z]+))?", document.read_text()))
    for command, below in named:
        assert command in COMMANDS, command
        if command == "node" and below:
            assert below in ENTRIES["node"].load("node").commands, below


@pytest.mark.parametrize("document", USER_DOCUMENTS, ids=ids(USER_DOCUMENTS))
def test_named_make_targets_exist(document):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", document.read_text(), re.MULTILINE)) <= targets


@pytest.mark.parametrize("document", USER_DOCUMENTS, ids=ids(USER_DOCUMENTS))
def test_named_variables_are_read_somewhere(document):
    source = "\n".join(file.read_text() for file in (ROOT / "services").rglob("*.py"))
    settings = {name.upper() for name in re.findall(r"^    ([a-z_]+): ", source, re.MULTILINE)}
    for variable in re.findall(r"KVBERTH_([A-Z_]*[A-Z])", document.read_text()):
        assert f"KVBERTH_{variable}" in source or variable in settings, variable


def test_every_command_says_what_it_does():
    for name, command in COMMANDS.items():
        assert command.help, f"'kvberth {name}' says nothing of itself"


def test_the_example_nodes_can_be_used():
    assert len(read_nodes(ROOT / "examples" / "nodes-gpu-label-zoo.yaml")) > 5
