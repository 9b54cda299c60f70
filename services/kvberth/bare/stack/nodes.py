"""Reads the nodes file: v1 Node objects, one runner and one agent each."""

from importlib import resources
from pathlib import Path

import yaml

from kvberth.bare.stack.errors import StackError
from kvberth_schemas.manifests import RawObject, load_documents

DEFAULT_NODES = "nodes.yaml"


def read_nodes(file: Path | None) -> dict[str, RawObject]:
    """Give the nodes by name, from a file or the two that the package carries.

    Raises:
        StackError: the file can't be read, holds no node, or a node twice.
    """
    if file is None:
        text, source = resources.files(__package__).joinpath(DEFAULT_NODES).read_text(), "the default nodes"
    else:
        text, source = _read(file), str(file)
    nodes: dict[str, RawObject] = {}
    for document in load_documents(text, source):
        if document.complaints:
            raise StackError(f"{source}, document {document.index + 1}: {document.complaints[0].sentence()}")
        if document.kind != "Node":
            raise StackError(f"{source} holds a {document.kind}; a nodes file holds only objects of kind Node")
        nodes[document.name] = document
    if not nodes:
        raise StackError(f"{source} holds no node; write at least one object of kind Node (apiVersion v1)")
    return nodes


def write_node_file(path: Path, node: RawObject) -> None:
    """Write what a node claims to have, for its runner."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(dict(node.raw or {}), sort_keys=False))


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise StackError(f"the nodes file {file} can't be read: {error}") from error
