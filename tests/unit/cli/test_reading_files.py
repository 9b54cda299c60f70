"""Files that users name: whatever is wrong with them is one sentence, before anything is asked or started."""

import io
import os
from types import SimpleNamespace

import pytest

from kvberth.bare.stack import StackError, read_nodes
from kvberth.cli.errors import CommandError
from kvberth.cli.manifests import apply_request, delete_requests
from kvberth.service import ServiceError
from kvberth.service.text_file import why
from kvberth_schemas.envelope import MAX_BODY_BYTES

DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\n"
BARE_NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n"
NODE = f"{BARE_NODE}status: {{allocatable: {{cpu: 4, memory: 8Gi}}}}\n"


@pytest.fixture
def file(tmp_path):
    def write(content: str | bytes):
        path = tmp_path / "f.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_a_file_that_does_not_exist_or_is_a_directory_is_named(tmp_path):
    with pytest.raises(ServiceError, match=r"no\.yaml does not exist$"):
        apply_request(tmp_path / "no.yaml")
    with pytest.raises(ServiceError, match=r"is a directory; name a file in it$"):
        apply_request(tmp_path)


def test_errors_of_the_kernel_are_told_in_words_and_unknown_ones_in_its_own():
    assert why(PermissionError(13, "Permission denied")) == "may not be read or written by this user"
    assert why(OSError(5, "Input/output error")) == "can't be used (Input/output error)"


def test_a_binary_file_is_no_text(file):
    with pytest.raises(ServiceError, match="is no text"):
        apply_request(file(b"\x7fELF\x92\x00"))


def test_a_huge_file_is_not_read_whole(tmp_path):
    path = tmp_path / "huge.yaml"
    with path.open("wb") as stream:
        os.truncate(stream.fileno(), 50 * 2**30)  # sparse: reading it whole would end the test by memory
    with pytest.raises(ServiceError, match=r"huge\.yaml is larger than 512 KiB"):
        apply_request(path)


def test_a_file_that_grows_over_the_limit_as_a_request_is_refused_here(file):
    with pytest.raises(CommandError, match="too large for one request"):
        apply_request(file("# \x01\n" * (MAX_BODY_BYTES // 5)))


def test_a_file_is_applied_whole_or_not_at_all(file):
    request = apply_request(file(NODE), "team-a")
    assert (request.all_or_nothing, request.namespace, request.text) == (True, "team-a", NODE)


def test_a_dash_reads_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(NODE.encode())))
    request = apply_request("-")
    assert (request.text, request.source) == (NODE, "standard input")


def test_delete_by_file_takes_the_namespace_of_the_document_else_the_option(file):
    kvcaches = ("kind: KVCache\nmetadata: {name: a}\n", "kind: KVCache\nmetadata: {name: b, namespace: team-b}\n")
    text = "---\n".join(kvcaches)
    assert [(one.namespace, one.name) for one in delete_requests(file(text), "team-a")] == [
        ("team-a", "a"),
        ("team-b", "b"),
    ]


@pytest.mark.parametrize(
    ("text", "has_effect"),
    [
        ("apiVersion: v1\nkind: Service\nmetadata: {name: a}\n", False),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", False),
        (f"{DEPLOYMENT}metadata: {{name: a}}\n", True),
        ("kind: Deployment\nmetadata: {name: a}\n", True),
        (f"{DEPLOYMENT}metadata: {{name: a}}\nspec: 1\n", True),
        (f"{DEPLOYMENT}spec: {{template: {{metadata: {{labels: [a]}}}}}}\n", True),
        (f"{DEPLOYMENT}spec: {{template: {{metadata: {{labels: {{}}}}}}}}\n", True),
        (f"{DEPLOYMENT}spec: {{template: {{metadata: {{labels: {{model.aibrix.ai/nmae: m, 1: x}}}}}}}}\n", True),
        ("apiVersion: apps/v1\nkind: Deployment\nspec: {template: {metadata: {labels: {app: m}}}}\n", False),
        (
            f"{DEPLOYMENT}spec: {{template: {{metadata: {{labels: {{model.aibrix.ai/name: m}}}}}}}}\n",
            True,
        ),
        ("apiVersion: orchestration.aibrix.ai/v1alpha1\nkind: KVCache\nmetadata: {name: a}\n", True),
        ("apiVersion: orchestration.aibrix.ai/v1alpha1\nkind: KVCahce\nmetadata: {name: a}\n", True),
    ],
)
def test_delete_by_file_tells_what_apply_ignores(file, text, has_effect):
    assert [one.has_effect for one in delete_requests(file(text), "default")] == [has_effect]


def test_delete_by_a_file_that_holds_nothing_or_is_broken_deletes_nothing(file):
    with pytest.raises(CommandError, match="holds no object"):
        delete_requests(file("# nothing\n"), "default")
    with pytest.raises(CommandError, match=r"nothing is deleted: .*document 2"):
        delete_requests(file("kind: Pod\nmetadata: {name: a}\n---\na: [\n"), "default")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [\n", r"f\.yaml, document 1, line 2, column 1: is no YAML"),
        (f"{NODE}---\na: [\n", r"f\.yaml, document 2, line 7, column 1: is no YAML"),
        ("- 1\n", r"f\.yaml, document 1: is no object"),
        ("", r"f\.yaml holds no node"),
        ("kind: Pod\n", r"f\.yaml, document 1 is a Pod; a nodes file holds only objects of kind Node"),
        (f"{NODE}---\n{NODE}", r"f\.yaml, document 2: the node a stands twice"),
        (NODE.replace("a}", "A B}"), r"document 1, metadata\.name: 'A B' is no DNS name"),
        (NODE.replace("cpu: 4", "cpu: many"), r"status\.allocatable.*cpu.*many"),
        (NODE.replace("8Gi", "100m"), r"status\.allocatable\.memory: '100m' is 0\.1 bytes"),
        (BARE_NODE, r"document 1, status\.allocatable: is missing; write what the node has, such as {cpu: "),
        (f"{BARE_NODE}status: {{allocatable: {{}}}}\n", r"status\.allocatable: is missing"),
        (
            NODE.replace("allocatable", "allocatble"),
            r"status\.allocatable: is missing; write allocatable instead of allocatble",
        ),
        (NODE.replace("status", "Status"), r"status\.allocatable: is missing; write status instead of Status"),
        (NODE.replace("memory", "memroy"), r"status\.allocatable\.memory: is missing; write memory instead of memroy"),
        (NODE.replace("cpu: 4, ", ""), r"status\.allocatable\.cpu: is missing; add it"),
    ],
)
def test_a_nodes_file_that_no_runner_could_use_is_refused_with_its_place(file, text, sentence):
    with pytest.raises(StackError, match=sentence) as caught:
        read_nodes(file(text))
    assert str(caught.value).count("document") <= 1


def test_a_nodes_file_gives_its_nodes_by_name(file):
    assert list(read_nodes(file(f"{NODE}---\n{NODE.replace('a}', 'b.c}')}"))) == ["a", "b.c"]
