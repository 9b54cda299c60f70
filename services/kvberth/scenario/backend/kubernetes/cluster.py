"""What a cluster can give a scenario: which node is which, and what can't be told there. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from kvberth.scenario import durations
from kvberth.scenario.capabilities import missing
from kvberth.scenario.durations import Timing
from kvberth.scenario.format import Scenario, Step
from kvberth.scenario.format.verbs import NodeSpec
from kvberth_schemas.quantity import parse_bytes, parse_cpu

Json = Mapping[str, Any]

ABILITIES: Final = frozenset(
    {"kubernetes", "kubelet", "budgets", "quota", "prestop", "rollout", "gate", "health", "transfer"}
)
"""What scenarios may ask for with `needs` and `requires`: the API server and the kubelets bring it."""

PROMISED: Final[Mapping[str, float]] = MappingProxyType({"t_move": 2.0})
"""A container must start: a bare PATCH of the DaemonSet alone takes more than half a second."""

BUS: Final = "nats://nats.kvberth:4222"
"""NATS of an install, as any namespace reaches it."""
GPU: Final = "nvidia.com/gpu"
_KUBELET: Final = "kubelets start engines again after waits of their own"
_NKEY: Final = "KVBERTH_NATS_NKEY_FILE"
_NO_VERB: Final = {
    "disk": "the disk of NATS is filled on the machine that it runs on",
    "node_add": "a cluster's nodes are given",
}
_DRIVEN: Final = frozenset({"node_down", "node_up", "node_delete"})
_SETTINGS: Final = {"empty_directory": "KVBERTH_EMPTY_AFTER_S"}
"""Which setting of services a wait of `time:` is; others stand in manifests, or are the cluster's own."""
_OWN: Final = {"node_not_ready": "a cluster's own controllers call nodes not ready", "engine_backoff": _KUBELET}


def unfit(scenario: Scenario, *, has_driver: bool) -> str | None:
    """Say why a scenario can't be told on a cluster; None where it can."""
    if scenario.nodes_file is not None:
        return "a cluster's nodes are given, this scenario brings its own (nodes_file)"
    used = {name for text in scenario.time_spans() for name in durations.names_in(text)}
    if own := sorted(used & _OWN.keys()):
        return f"{_OWN[own[0]]}, this scenario counts on its {own[0]}"
    for number, step in scenario.all_steps():
        lacks = None if missing(step.needs, step.requires, ABILITIES) else _lacks(step, has_driver=has_driver)
        if lacks:
            return f"step {number}: {lacks}"
    return None


def settings(scenario: Scenario, timing: Timing, bus: str | None) -> dict[str, str]:
    """Give what the services have to be told for a scenario; `bus`: URL that its faults stand at, if it has any."""
    waits = {_SETTINGS[name]: f"{value:g}" for name, value in timing.named.items() if name in _SETTINGS}
    # Transfer workers run in the users' namespaces, and speak to a bus only where they are told of one.
    workers = {"KVBERTH_TRANSFER_NATS_URL": bus or BUS} if "transfer" in scenario.needs else {}
    return {**scenario.options.env, **waits, **({"KVBERTH_NATS_URL": bus} if bus else {}), **workers}


def cuts(scenario: Scenario) -> set[str]:
    """Give which ways of the services it lets fail: `bus`, `api`."""
    return {step.fault.way for _, step in scenario.all_steps() if step.fault is not None and step.fault.way is not None}


def lost(scenario: Scenario) -> set[str]:
    """Give the nodes whose machine or object it takes away."""
    return {str(step.value) for _, step in scenario.all_steps() if step.kind in _DRIVEN}


def troubled(scenario: Scenario) -> set[str]:
    """Give those and the nodes whose kubelet it stops."""
    paused = [step.pause.value for _, step in scenario.all_steps() if step.pause is not None]
    return lost(scenario) | {one.node for one in paused if getattr(one, "name", None) == "runner"}


def asks_for_keys(agent: Json) -> bool:
    """Whether the bus lets in only who has a key, by the DaemonSet of the agents; an onlooker of all has none."""
    env = agent["spec"]["template"]["spec"]["containers"][0].get("env") or ()
    return any(one["name"] == _NKEY for one in env)


def assigned(wanted: Sequence[NodeSpec], there: Sequence[Json]) -> dict[str, str]:
    """Give the cluster's node for each of the scenario's: the one of that name, else the next by name.

    Raises:
        ValueError: there are too few; one sentence.
    """
    names = sorted(node["metadata"]["name"] for node in there)
    same = {spec.name: spec.name for spec in wanted if spec.name in names}
    rest = iter([name for name in names if name not in same])
    found = {spec.name: same.get(spec.name) or next(rest, "") for spec in wanted}
    if "" in found.values():
        raise ValueError(f"the scenario has {len(wanted)} nodes, the cluster {len(names)} ({', '.join(names)})")
    return found


def too_small(spec: NodeSpec, node: Json) -> str | None:
    """Say what a node of the cluster has not as the scenario means it; None where it fits."""
    has = node["status"].get("allocatable", {})
    for name, meant, parse in (("cpu", spec.cpu, parse_cpu), ("memory", spec.memory, parse_bytes)):
        exact = name in spec.model_fields_set
        there = parse(str(has.get(name, "0")))
        if there < parse(meant) or (exact and there != parse(meant)):
            whose = node["metadata"]["name"]
            return f"{spec.name} is meant to have {meant} {name}, the node {whose} has {has.get(name)}"
    return None


def gpus(node: Json) -> int:
    """Give how many GPUs a node claims to have."""
    return int(node["status"].get("allocatable", {}).get(GPU, 0))


def claim(count: int) -> dict[str, Any]:
    """Give the patch of a node's status that makes it claim GPUs."""
    amount = {GPU: str(count)}
    return {"status": {"capacity": amount, "allocatable": amount}}


def renamed(scenario: Scenario, names: Mapping[str, str]) -> Scenario:
    """Give the scenario with the cluster's names of its nodes, wherever it names one."""
    changed = {old: new for old, new in names.items() if old != new}
    if not changed:
        return scenario
    raw = scenario.model_dump(mode="json", by_alias=True, exclude_unset=True)
    raw["nodes"] = [spec.model_dump(mode="json", exclude_unset=True) for spec in scenario.nodes]  # defaults, too
    return Scenario.model_validate(_replaced(raw, changed))


def labels_of(spec: NodeSpec, node: Json) -> dict[str, str | None]:
    """Give the change that makes a node's labels those of the scenario; None removes one."""
    has = node["metadata"].get("labels") or {}
    wanted: dict[str, str | None] = {key: value for key, value in spec.labels.items() if has.get(key) != value}
    default = NodeSpec(name="any").labels
    return wanted | {key: None for key in default if key in has and key not in spec.labels}


def _lacks(step: Step, *, has_driver: bool) -> str | None:
    if step.kind in _NO_VERB:
        return _NO_VERB[step.kind]
    target = getattr(step.value, "target", step.value)
    service = getattr(getattr(target, "service", None), "name", None)
    is_runner = step.kind in {"pause", "resume"} and service == "runner"
    if (step.kind in _DRIVEN or is_runner) and not has_driver:
        return f"'{step.kind}' needs a command that handles nodes (--node-driver)"
    if service == "runner" and not is_runner:
        return "a kubelet can be paused and resumed, nothing else"
    if getattr(target, "kind", None) == "up":
        return "there is no 'kvberth up'"
    return None


def _replaced(value: Any, names: Mapping[str, str]) -> Any:  # noqa: ANN401 (any JSON)
    if isinstance(value, str):
        return _words(value, names)
    if isinstance(value, Mapping):
        return {_words(key, names): _replaced(inner, names) for key, inner in value.items()}
    return [_replaced(item, names) for item in value] if isinstance(value, list) else value


def _words(text: str, names: Mapping[str, str]) -> str:
    # All at once, so that two names that change places do not become one.
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w-])(?:{pattern})(?![\w-])", lambda found: names[found[0]], text)


def spare(there: Iterable[Json], used: Iterable[str]) -> list[str]:
    """Give the nodes that the scenario does not know, and that take engines: nothing may come there."""
    known = set(used)
    return [
        node["metadata"]["name"]
        for node in there
        if node["metadata"]["name"] not in known and not node["spec"].get("unschedulable")
    ]


def undone(former: Json, now: Json) -> dict[str, Any]:
    """Give the merge patch that brings back a node's labels, taints and cordon; empty where nothing differs."""
    labels, were = now["metadata"].get("labels") or {}, former["metadata"].get("labels") or {}
    changes: dict[str, str | None] = {key: value for key, value in were.items() if labels.get(key) != value}
    changes |= {key: None for key in labels if key not in were}
    body: dict[str, Any] = {"metadata": {"labels": changes}} if changes else {}
    spec: dict[str, Any] = {}
    if bool(now["spec"].get("unschedulable")) != bool(former["spec"].get("unschedulable")):
        spec["unschedulable"] = former["spec"].get("unschedulable")
    taints, had = (_chosen_taints(node) for node in (now, former))
    if taints != had:
        kept = [taint for taint in now["spec"].get("taints") or () if taint not in taints]
        spec["taints"] = kept + had
    return body | ({"spec": spec} if spec else {})


def _chosen_taints(node: Json) -> list[Json]:
    """Give the taints that people set; the others are Kubernetes' own."""
    return [taint for taint in node["spec"].get("taints") or () if not taint["key"].startswith("node.kubernetes.io/")]
