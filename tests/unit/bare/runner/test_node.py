"""What a runner announces its node with, and who may speak for it."""

import pytest

from kvberth.bare.runner.claim import claim_of
from kvberth.bare.runner.node import registration
from kvberth.service import ServiceError, claimed

NODE = """
apiVersion: v1
kind: Node
metadata: {name: l20-a, labels: {gpu: l20, kubernetes.io/hostname: wrong}}
spec: {unschedulable: true, taints: [{key: k, value: v, effect: NoSchedule}]}
status: {allocatable: {cpu: 2500m, memory: 1Gi, nvidia.com/gpu: "2"}}
"""


def written(tmp_path, text):
    path = tmp_path / "node.yaml"
    path.write_text(text)
    return path


def test_a_node_is_announced_as_its_file_says_with_its_own_hostname(tmp_path):
    request = registration("l20-a", tmp_path, written(tmp_path, NODE))
    assert request.labels == {"gpu": "l20", "kubernetes.io/hostname": "l20-a"}
    assert (request.allocatable.cpu_millis, request.allocatable.memory_bytes, request.allocatable.gpus) == (
        2500,
        2**30,
        2,
    )
    assert request.unschedulable
    assert [(taint.key, taint.value, taint.effect) for taint in request.taints] == [("k", "v", "NoSchedule")]


def test_without_a_file_the_machine_is_announced_without_gpus(tmp_path):
    request = registration("m", tmp_path, None)
    assert request.allocatable.cpu_millis >= 1000
    assert request.allocatable.memory_bytes > 2**28
    assert request.allocatable.gpus == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (NODE.replace("l20-a", "other"), "describes 0 nodes named l20-a"),
        (NODE.replace("1Gi", "1GB"), "status.allocatable"),
        (NODE.replace("NoSchedule", "Maybe"), "holds no v1 Node"),
    ],
)
def test_a_wrong_node_file_is_a_sentence(tmp_path, text, sentence):
    with pytest.raises(ServiceError, match=sentence):
        registration("l20-a", tmp_path, written(tmp_path, text))


def test_a_missing_node_file_is_a_sentence(tmp_path):
    with pytest.raises(ServiceError, match="can't be read"):
        registration("l20-a", tmp_path, tmp_path / "none.yaml")


def test_a_node_has_one_runner_and_each_start_a_higher_number(tmp_path):
    refused = pytest.raises(ServiceError, match="Another runner of the node a")
    with claimed(claim_of(tmp_path, "a"), 7) as first, refused, claimed(claim_of(tmp_path, "a"), 7):
        pass
    with claimed(claim_of(tmp_path, "a"), 7) as second:
        assert second == first + 1


def test_a_state_directory_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "state").write_text("a file")
    with pytest.raises(ServiceError, match="can't be written"), claimed(claim_of(tmp_path / "state" / "a", "a"), 7):
        pass
