"""Whatever comes in whatever order, what the index says is what a fresh look at the same objects would say."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kvberth.kube import Key
from kvberth.pod_watcher.index import Index
from kvberth.pod_watcher.pods import Pod
from kvberth_schemas import subjects
from kvberth_schemas.events import NodeChangedV1, PodGoneV1, PodReadyV1, PodRole, PodState, Resources
from unit.pod_watcher.live import live

NODES = ["a", "b"]
SUBJECT = live("pod-bound").subject
NODE: NodeChangedV1 = live("node-ready")

pods = st.builds(
    Pod,
    node=st.sampled_from([None, *NODES]),
    requests=st.builds(Resources, cpu_millis=st.integers(0, 9), gpus=st.integers(0, 2)),
    finished=st.sampled_from(["", "", "its phase is Failed"]),
    subject=st.booleans(),
)
steps = st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 1), st.none() | pods), max_size=40)


def outline(name: str, uid: str, ready: bool) -> PodState:
    return PodState(
        uid=uid,
        name=name,
        namespace="default",
        resource_version=1,
        role=PodRole.ENGINE,
        requests=Resources(),
        ready=ready,
    )


class Story:
    """Feeds an index, and remembers what is there."""

    def __init__(self) -> None:
        self.index = Index()
        self.there: dict[str, tuple[str, Pod]] = {}
        self.spoken: set[subjects.EventSubject] = set()

    def see_nodes(self) -> None:
        for name in NODES:
            self.index.see_node(NODE.model_copy(update={"name": name}))

    def tell(self, name: str, life: int, pod: Pod | None) -> None:
        """A pod of this name and life is there, or none is."""
        uid = f"{name}{life}"
        if name in self.there and (pod is None or self.there[name][0] != uid):
            self.index.lose_pod(Key("default", name))
            del self.there[name]
        if pod is None:
            return
        subject = replace(SUBJECT, controller=None, state=outline(name, uid, life == 1)) if pod.subject else None
        self.there[name] = uid, replace(pod, subject=subject)
        self.index.see_pod(Key("default", name), *self.there[name])
        if subject:
            self.spoken.add(subjects.pod("default", uid))


@given(steps, st.booleans())
def test_sums_and_states_are_those_of_what_is_there(told: list[tuple[str, int, Pod | None]], nodes_first: bool) -> None:
    story = Story()
    if nodes_first:
        story.see_nodes()
    for step in told:
        story.tell(*step)
    story.see_nodes()
    for node in NODES:
        counted = [pod.requests for _, pod in story.there.values() if pod.node == node and not pod.finished]
        event = story.index.event(subjects.node(node))
        assert isinstance(event, NodeChangedV1)
        assert event.requested.cpu_millis == sum(one.cpu_millis for one in counted)
        assert event.requested.gpus == sum(one.gpus for one in counted)
    alive = {subjects.pod("default", uid): pod for uid, pod in story.there.values() if pod.subject and not pod.finished}
    for subject in story.spoken:
        event = story.index.event(subject)
        assert isinstance(event, PodGoneV1) == (subject not in alive)
        if subject in alive and alive[subject].node and alive[subject].subject.state.ready:
            assert isinstance(event, PodReadyV1)
    assert set(story.index.take_touched()) >= story.spoken
    assert story.index.whole
