"""Reads the nodes file: v1 Node objects, one runner and one agent each."""

import difflib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

import yaml

from kvberth.bare.stack.errors import StackError
from kvberth.kvcache import Complaint, node_complaints
from kvberth.service.text_file import read_text
from kvberth_schemas.manifests import Node, RawObject, load_documents
from kvberth_schemas.quantity import QuantityError, parse_bytes

DEFAULT_NODES = "nodes.yaml"
MAX_FILE_BYTES = 4 * 2**20
_EXAMPLE = '{cpu: "60", memory: 192Gi, nvidia.com/gpu: "2"}'


def read_nodes(file: Path | None) -> dict[str, RawObject]:
    """Give the nodes by name, from a file or the two that the package carries.

    Raises:
        ServiceError: the file can't be read.
        StackError: it holds no node, a node twice, one that no runner could announce, or something else.
    """
    if file is None:
        text, source = resources.files(__package__).joinpath(DEFAULT_NODES).read_text(), "the default nodes"
    else:
        text, source = read_text(file, MAX_FILE_BYTES), str(file)
    nodes = {document.name: _checked(document, source) for document in load_documents(text, source)}
    if not nodes:
        raise StackError(f"{source} holds no node; write at least one object of kind Node (apiVersion v1)")
    return nodes


def _checked(document: RawObject, source: str) -> RawObject:
    """Give a document back that a runner can announce as its node; it would start in vain again and again."""
    if document.complaints:  # of a text that can't be read; they name the document
        raise StackError(f"{source}, {document.complaints[0].sentence()}")
    place = f"{source}, document {document.index + 1}"
    if document.kind != "Node":
        what = f"is a {document.kind}" if document.kind else "has no kind"
        raise StackError(f"{place} {what}; a nodes file holds only objects of kind Node (apiVersion v1)")
    faults = node_complaints(document.raw) or _amount_complaints(document)
    if faults:
        raise StackError(f"{place}, {faults[0].sentence()}")
    if document.notes:  # of a node that stands twice
        raise StackError(f"{place}: the node {document.name} stands twice in the file; keep one of them")
    return document


def _amount_complaints(document: RawObject) -> list[Complaint]:
    """Return what of the amounts is missing, or whether the memory is no whole number of bytes."""
    raw = dict(document.raw)
    allocatable = Node.model_validate(raw).allocatable
    if not allocatable:
        status = raw.get("status") or {}
        remedy = _instead("status", raw) if "status" not in raw else _instead("allocatable", status)
        return [Complaint("status.allocatable", "is missing", remedy or f"write what the node has, such as {_EXAMPLE}")]
    for name in ("cpu", "memory"):
        if name not in allocatable:
            return [Complaint(f"status.allocatable.{name}", "is missing", _instead(name, allocatable) or "add it")]
    try:
        parse_bytes(allocatable["memory"])
    except QuantityError as error:
        return [Complaint("status.allocatable.memory", error.problem, error.remedy)]
    return []


def _instead(name: str, written: Iterable[object]) -> str:
    """Name the key that was probably meant to be this one."""
    lower = {str(key).lower(): str(key) for key in written if key != name}
    close = difflib.get_close_matches(name, lower, n=1, cutoff=0.7)
    return f"write {name} instead of {lower[close[0]]}" if close else ""


def write_node_file(path: Path, node: RawObject) -> None:
    """Write what a node claims to have, for its runner."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(dict(node.raw or {}), sort_keys=False))
