"""What a story on a cluster makes of nodes whose witness does not answer: unknown where it matters, and only there."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from kvberth.kube import KubeError
from kvberth.kube.resources import NODES, PODS
from kvberth.scenario.backend.asked import StatusAsked
from kvberth.scenario.backend.kubernetes import eyes as eyes_module
from kvberth.scenario.backend.kubernetes.eyes import NAME, Eyes, Question, Told
from kvberth.scenario.backend.kubernetes.look import Looker
from kvberth.scenario.backend.kubernetes.processes import Process
from kvberth.scenario.facts import Answer
from kvberth.scenario.format import Expectation

STORY, READY, LOST = "l20-a", "control", "lost"
SOCKET = "/var/run/vineyard.sock"


def node(name: str, *, ready: bool) -> dict[str, Any]:
    """Make a node."""
    condition = {"type": "Ready", "status": "True" if ready else "Unknown"}
    return {
        "metadata": {"name": name, "resourceVersion": "1"},
        "spec": {},
        "status": {"conditions": [condition]},
    }


def engine(workload: str, on: str) -> dict[str, Any]:
    """Make an engine's pod that runs."""
    owner = {"kind": "StatefulSet", "name": workload, "uid": "s", "controller": True}
    labels = {"model.aibrix.ai/name": workload}
    meta = {"name": f"{workload}-0", "namespace": "default", "uid": workload, "resourceVersion": "1", "labels": labels}
    status = {"name": "vllm", "containerID": f"containerd://{workload}", "restartCount": 0, "state": {"running": {}}}
    return {
        "metadata": {**meta, "ownerReferences": [owner]},
        "spec": {"nodeName": on, "containers": [{"name": "vllm"}]},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }


class Lists:
    """An API server that lists these, and whose witnesses answer one after the other."""

    def __init__(self, pods: Sequence[Any] = (), answers: Sequence[Exception | None] = ()) -> None:
        self.pods, self.answers, self.sent = pods, list(answers), list[str]()

    async def list(self, resource: object, namespace: str | None = None, labels: str = "") -> Sequence[Any]:
        if labels:
            return [{"metadata": {"name": f"{NAME}-{on}"}, "spec": {"nodeName": on}} for on in (STORY, READY)]
        nodes = [node(STORY, ready=False), node(READY, ready=True), node(LOST, ready=False)]
        return {PODS: self.pods, NODES: nodes}[resource]

    async def proxy(self, namespace: str, pod: str, port: int, path: str, body: object) -> bytes:
        self.sent.append(f"{pod.removeprefix(f'{NAME}-')} {path.partition('?')[0]}")
        if self.answers and (error := self.answers.pop(0)) is not None:
            raise error
        return json.dumps({"done": "it is"}).encode()


class Silent:
    """Witnesses of which some do not answer, and some only for processes."""

    def __init__(self, *nodes: str, given: bool = False) -> None:
        self.nodes, self.given = nodes, given

    async def ask(self, on: str, question: Question) -> Told:
        of_an_engine = any(pid is not None for pid, _ in question.sockets)
        if on in self.nodes and of_an_engine == self.given:
            raise KubeError("no answer")
        rest = {"started": 1, "began": 1.0, "state": "S", "rss_bytes": 1, "socket": SOCKET}
        process = Process(container="llama", pid=7, inner_pid=1, argv=("python3",), **rest)
        return Told(dict.fromkeys(question.sockets, Answer("answers")), {}, [process])


async def never() -> str:
    raise AssertionError("nobody asks for a status here")


async def unseen(silent: Silent, pods: Sequence[Any], expectation: dict[str, Any]) -> frozenset[str]:
    looker = Looker(Lists(pods), silent, [STORY], [], StatusAsked(never))  # type: ignore[arg-type]
    return (await looker.look([Expectation.model_validate(expectation)])).unseen


@pytest.mark.parametrize(
    ("on", "workload", "hidden"),
    [(STORY, "llama", True), (READY, "other", True), (LOST, "llama", True), (LOST, "other", False)],
)
async def test_a_lost_node_of_strangers_hides_nothing_unless_the_rule_is_about_what_it_holds(
    on: str, workload: str, hidden: bool
) -> None:
    rule = {"process": {"role": "engine", "workload": "llama"}}
    assert await unseen(Silent(on), [engine(workload, on)], rule) == (frozenset({on}) if hidden else frozenset())


async def test_a_socket_that_an_engine_was_given_and_nobody_could_ask_is_unknown() -> None:
    rule = {"reaches": {"workload": "llama", "kvcache": "kv"}}
    assert await unseen(Silent(STORY, given=True), [engine("llama", STORY)], rule) == {STORY}
    assert await unseen(Silent(), [engine("llama", STORY)], rule) == frozenset()


async def test_only_witnesses_that_did_something_take_it_back_and_they_are_asked_again() -> None:
    api = Lists(answers=[None, None, KubeError("busy"), None])
    eyes = Eyes(api, "kvberth", "secret")  # type: ignore[arg-type]
    await eyes.do("files", STORY, {})
    await eyes.do("fault", READY, {})
    assert await eyes.rest() == []
    assert api.sent == [f"{STORY} /do/files", f"{READY} /do/fault", f"{READY} /rest", f"{READY} /rest"]
    assert await eyes.rest() == []
    assert len(api.sent) == 4


async def test_what_was_not_taken_back_in_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eyes_module, "REST_WITHIN_S", 0.3)
    eyes = Eyes(Lists(answers=[None, *[KubeError("busy")] * 9]), "kvberth", "secret")  # type: ignore[arg-type]
    await eyes.do("peer", STORY, {})
    assert await eyes.rest() == [f"faults and peers on {STORY}: busy"]


@pytest.mark.parametrize(("restarts", "lines"), [(0, ["now"]), (1, ["before", "now"])])
async def test_the_log_of_what_was_started_again_holds_the_life_before_as_well(restarts: int, lines: list[str]) -> None:
    class Logs(Lists):
        async def log(self, namespace: str, pod: str, container: str, *, previous: bool = False) -> list[str]:
            return ["before"] if previous else ["now"]

    pod = engine("llama", STORY)
    pod["status"]["containerStatuses"][0]["restartCount"] = restarts
    looker = Looker(Logs([pod]), Silent(), [STORY], [], StatusAsked(never))  # type: ignore[arg-type]
    rule = Expectation.model_validate({"log": {"of": {"engine": {"workload": "llama"}}, "line": "now"}})
    assert list((await looker.look([rule])).logs.values()) == [lines]
