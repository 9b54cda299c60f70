"""What `make test-cluster` calls left behind: whatever came and did not go, and files where no cache was."""

from tests.cluster import left


class Cluster:
    """A kubectl whose cluster has these objects, one answer after the other."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)

    def __call__(self, *arguments: str) -> str:
        if arguments[0] == "api-resources":
            return "pods\nevents\nevents.events.k8s.io\nnodes\n"
        assert arguments[:2] == ("get", "nodes,pods")  # what expires by itself is not looked at
        return self.answers.pop(0)


def test_objects_are_told_by_kind_namespace_and_name() -> None:
    found = left.objects(Cluster("Node   <none>    a\nPod    default   x\n\n"))
    assert found == {"Node <none> a", "Pod default x"}


def test_what_goes_a_moment_later_is_not_left_and_what_stays_is(monkeypatch) -> None:
    monkeypatch.setattr(left, "_POLL_S", 0.0)
    before = frozenset({"Node <none> a"})
    assert left.more_than(Cluster("Node <none> a\nPod default x\n", "Node <none> a\n"), before) == []
    monkeypatch.setattr(left, "GONE_WITHIN_S", 0.0)
    both = "Node <none> a\nPod default x\n"
    assert left.more_than(Cluster(both, both), before) == ["Pod default x"]


def test_directories_of_caches_and_what_is_in_them_may_stay_on_nodes() -> None:
    lines = ["d default", "d default/kv", "f default/kv/gate.json", "s default/kv/vineyard.sock", "f default/x", "f y"]
    assert left.no_cache_was_there(lines) == ["f default/x", "f y"]
