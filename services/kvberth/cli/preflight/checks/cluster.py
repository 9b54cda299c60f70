"""Checks of the cluster itself: what it serves, who else handles KVCaches, where caches could run. Pure."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from kvberth.cli.preflight.facts import Answer, Labelled, Node, ServerVersion, Unasked, Workload
from kvberth.cli.preflight.findings import Finding, Level, few
from kvberth.cli.preflight.parts import FENCE_BINDINGS, FENCES, GATE_BINDINGS, GATES, NAMESPACE
from kvberth.kube.objects import Key

OLDEST: Final = (1, 30)
"""The first that serves ValidatingAdmissionPolicy v1."""
TESTED: Final = (1, 36)
"""The first that serves MutatingAdmissionPolicy v1, and what kvberth's own tests run on."""
HOST_DIRECTORY: Final = "/var/run/vineyard-kubernetes"
ENFORCE: Final = "pod-security.kubernetes.io/enforce"
PRIVILEGED: Final = "privileged"

_ITS_KVCACHE_CONTROLLER: Final = "kv-cache-controller"


def api_server(version: ServerVersion) -> Finding:
    """Whether its version is one that kvberth works on."""
    name = f"Kubernetes {version.git_version.removeprefix('v') or 'of unknown version'}"
    number = _number(version)
    if number is None:
        return Finding("api-server", Level.WARNING, f"{name} does not tell its version as a number", _upgrade(TESTED))
    if number < OLDEST:
        sentence = f"{name} is too old: it serves no ValidatingAdmissionPolicy v1, which fences what placement writes"
        return Finding("api-server", Level.REFUSED, sentence, _upgrade(OLDEST))
    if number < TESTED:
        sentence = f"{name} is older than what kvberth is tested on, and serves no MutatingAdmissionPolicy v1"
        return Finding("api-server", Level.WARNING, sentence, _upgrade(TESTED))
    return Finding("api-server", Level.OK, f"{name} is supported")


def fence(served: frozenset[str]) -> Finding:
    """Whether policies can keep a deposed placement from writing."""
    if {FENCES.plural, FENCE_BINDINGS.plural} <= served:
        return Finding("fence", Level.OK, "ValidatingAdmissionPolicy v1 is served")
    sentence = "ValidatingAdmissionPolicy v1 is not served, so nothing would keep a deposed placement from writing"
    remedy = "enable admissionregistration.k8s.io/v1 and the admission plugin ValidatingAdmissionPolicy"
    return Finding("fence", Level.REFUSED, sentence, remedy)


def gate(served: frozenset[str]) -> Finding:
    """Whether a policy can let engines wait for their cache."""
    if {GATES.plural, GATE_BINDINGS.plural} <= served:
        return Finding("gate", Level.OK, "MutatingAdmissionPolicy v1 is served")
    sentence = "MutatingAdmissionPolicy v1 is not served, so engines can't be made to wait for their cache"
    remedy = f"leave the gate policy out of the install, or {_upgrade(TESTED)}"
    return Finding("gate", Level.WARNING, sentence, remedy)


def aibrix(deployments: Sequence[Workload]) -> Finding:
    """Whether AIBrix's controller would answer for the same KVCaches: two controllers undo each other's work."""
    theirs = [one for one in deployments if _is_theirs(one)]
    running = [str(_key(one)) for one in theirs if one.spec.replicas > 0 and _handles_kvcaches(one)]
    if running:
        sentence = f"AIBrix's controller handles KVCaches here: Deployment {few(running)}"
        remedy = f"scale it to 0, or start it with --controllers=*,-{_ITS_KVCACHE_CONTROLLER}"
        return Finding("aibrix", Level.REFUSED, sentence, remedy)
    if theirs:
        named = few([str(_key(one)) for one in theirs])
        sentence = f"AIBrix's controller is here and does not handle KVCaches now: Deployment {named}"
        return Finding("aibrix", Level.WARNING, sentence, "keep it so: both would undo each other's work")
    return Finding("aibrix", Level.OK, "no controller of AIBrix is here")


def pod_security(namespaces: Sequence[Labelled], kvcaches: Answer[tuple[Labelled, ...]]) -> Finding:
    """Whether namespaces would refuse a cache and its engine, since both mount a path of the node."""
    strict = {
        one.metadata.name: one.metadata.labels[ENFORCE]
        for one in namespaces
        if one.metadata.name != NAMESPACE and one.metadata.labels.get(ENFORCE, PRIVILEGED) != PRIVILEGED
    }
    if isinstance(kvcaches, Unasked):
        return Finding("pod-security", Level.UNKNOWN, kvcaches.why, "ask with an account that may list KVCaches")
    if not strict:
        return Finding("pod-security", Level.OK, "no namespace says that it refuses pods with a path of the node")
    held = Counter(one.metadata.namespace for one in kvcaches)
    named = [
        f"{name} ({strict[name]}{_holding(held[name])})"
        for name in sorted(strict, key=lambda name: (-held[name], name))
    ]
    remedy = f"put no KVCache there, or label such a namespace {ENFORCE}={PRIVILEGED}"
    return Finding("pod-security", Level.WARNING, f"caches and engines are refused in {few(named)}", remedy)


def nodes(found: Sequence[Node]) -> Finding:
    """Whether there are nodes that can run a cache. Whether one can hold the directory, only its agent can tell."""
    foreign = [one.metadata.name for one in found if one.status.node_info.operating_system not in {"", "linux"}]
    if foreign:
        sentence = f"{few(foreign)} can't run the node agent, which goes to every node and needs Linux"
        remedy = "add nodeSelector kubernetes.io/os: linux to DaemonSet kvberth-node in an overlay of your own"
        return Finding("nodes", Level.WARNING, sentence, remedy)
    ready = sum(
        any(state.type == "Ready" and state.status == "True" for state in one.status.conditions) for one in found
    )
    if not ready:
        return Finding("nodes", Level.WARNING, f"none of {len(found)} nodes is ready", "nothing starts before one is")
    sentence = (
        f"{ready} of {len(found)} nodes are ready; each node's agent tells whether {HOST_DIRECTORY} can be used there"
    )
    return Finding("nodes", Level.OK, sentence)


def _number(version: ServerVersion) -> tuple[int, int] | None:
    minor = re.match(r"\d+", version.minor)  # some vendors write 36+
    return (int(version.major), int(minor[0])) if version.major.isdecimal() and minor else None


def _upgrade(to: tuple[int, int]) -> str:
    return f"use Kubernetes {to[0]}.{to[1]} or later"


def _key(workload: Workload) -> Key:
    return Key(workload.metadata.namespace, workload.metadata.name)


def _is_theirs(workload: Workload) -> bool:
    """Every way to install AIBrix keeps one of the two, whatever the registry, prefix or namespace."""
    name = workload.metadata.name
    if "aibrix" in name and name.endswith("controller-manager"):
        return True
    return any(_image_is_theirs(one.image) for one in workload.spec.template.spec.containers)


def _image_is_theirs(image: str) -> bool:
    repository = image.partition("@")[0]
    path, _, last = repository.rpartition("/")
    return "aibrix" in path and last.partition(":")[0] == "controller-manager"


def _handles_kvcaches(workload: Workload) -> bool:
    """By its `--controllers` list, in the manner of Kubernetes: all without one, `-name` leaves one out."""
    for container in workload.spec.template.spec.containers:
        words = [*container.command, *container.args]
        for at, word in enumerate(words):
            flag, separator, value = word.lstrip("-").partition("=")
            if flag == "controllers" and word.startswith("-"):
                listed = (value if separator else "".join(words[at + 1 : at + 2])).split(",")
                return _ITS_KVCACHE_CONTROLLER in listed or (
                    "*" in listed and f"-{_ITS_KVCACHE_CONTROLLER}" not in listed
                )
    return True


def _holding(kvcaches: int) -> str:
    return f", holds {kvcaches} KVCache{'s' if kvcaches > 1 else ''}" if kvcaches else ""
