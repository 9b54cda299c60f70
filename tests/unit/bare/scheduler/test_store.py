"""The state directory: what is committed is there after a kill, and what can't be read harms nothing else."""

import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from kvberth.bare.scheduler.commands import cordon
from kvberth.bare.scheduler.state import State
from kvberth.bare.scheduler.store import Store
from kvberth.bare.scheduler.turn import Limits, Seen, turn
from kvberth.service import ServiceError

NOW_S = 1_700_000_000.0

KILLED_WHILE_WRITING = """
import os, sys
from pathlib import Path
from kvberth.bare.scheduler.commands import cordon
from kvberth.bare.scheduler.store import Store

store = Store(Path(sys.argv[1]), 1.0)
Path.replace = lambda self, target: os.kill(os.getpid(), 9)
store.commit(store.state, cordon(store.state, "l20-a", True)[0])
"""


@pytest.fixture
def filled(make, build, moment):
    """A state with manifests, a bound pod and two nodes."""
    state = build(make.node("l20-a"), make.node("ip-10-0-0-1.ec2.internal"), make.engine(), make.kvcache())
    return turn(state, Seen(), Limits(), moment).state


def test_a_committed_state_is_read_back_as_it_was(tmp_path, filled):
    with Store(tmp_path, NOW_S) as store:
        stored = store.commit(State(), filled)
    with Store(tmp_path, NOW_S) as store:
        assert store.state == stored
        assert not store.problems
        assert store.commit(store.state, store.state) == stored


def test_every_change_gets_a_higher_version_over_restarts_too(tmp_path, filled):
    with Store(tmp_path, NOW_S) as store:
        stored = store.commit(State(), filled)
        versions = [pod.resource_version for pod in stored.pods.values()]
        assert len(set(versions)) == len(versions)
    with Store(tmp_path, NOW_S) as store:
        after = store.commit(store.state, cordon(store.state, "l20-a", cordoned=True)[0])
        assert after.nodes["l20-a"].resource_version > max(versions)
        assert after.pods == stored.pods


def test_more_versions_than_were_reserved_are_still_unique_after_a_restart(tmp_path, filled):
    with Store(tmp_path, NOW_S) as store:
        stored, last = State(), 0
        for _ in range(600):  # a commit reserves at least one version for each of the two nodes
            stored = store.commit(stored, stored if stored.nodes else filled)
            last = [store.next_version() for _ in stored.nodes][-1]
    with Store(tmp_path, NOW_S) as store:
        assert store.next_version() > last


def test_versions_for_what_is_said_of_a_commit_cost_no_write(tmp_path, build, make):
    with Store(tmp_path, NOW_S) as store:
        many = build(*(make.node(f"n{number}") for number in range(1500)))
        store.commit(State(), many)
        with no_room(0):
            versions = [store.next_version() for _ in many.nodes]
    assert len(set(versions)) == 1500
    with Store(tmp_path, NOW_S) as store:
        assert store.next_version() > max(versions)


def test_a_full_disk_changes_nothing_on_it_and_gives_no_version_twice(tmp_path, filled):
    with Store(tmp_path, NOW_S) as store:
        stored = store.commit(State(), filled)
        files = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
        changed = cordon(stored, "l20-a", cordoned=True)[0]
        (pod,) = changed.pods.values()
        changed = changed.put(pod.model_copy(update={"waiting_for": "x" * 10_000}))
        with no_room(5_000), pytest.raises(OSError, match="File too large"):
            store.commit(stored, changed)
        assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == files
        assert not list(tmp_path.rglob("*.new"))
        after = store.commit(stored, changed)
        assert after.nodes["l20-a"].cordoned
    with Store(tmp_path, NOW_S) as store:
        assert store.state == after


def test_a_counter_that_cannot_be_written_lets_no_version_out(tmp_path, filled):
    with Store(tmp_path, NOW_S) as store:
        stored = store.commit(State(), filled)
        given = []
        with no_room(0):
            for _ in range(2000):
                try:
                    given.append(store.next_version())
                except RuntimeError:
                    break
            for _ in range(2):  # the second try must not take the first one's reservation for made
                with pytest.raises(OSError, match="File too large"):
                    store.commit(stored, stored)
    with Store(tmp_path, NOW_S) as store:
        assert store.next_version() > max(given)


@contextmanager
def no_room(most_bytes):
    """Let no file of this process grow above a size, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_the_term_grows_with_each_start_and_begins_at_the_clock(tmp_path):
    terms = []
    for _ in range(3):
        with Store(tmp_path, NOW_S) as store:
            terms.append(store.term)
    assert terms == [1_700_000_000, 1_700_000_001, 1_700_000_002]


def test_what_is_removed_from_the_state_is_removed_from_the_disk(tmp_path, filled):
    with Store(tmp_path, NOW_S) as store:
        stored = store.commit(State(), filled)
        store.commit(stored, stored.without_node("l20-a").without(pods=list(stored.pods)))
    with Store(tmp_path, NOW_S) as store:
        assert list(store.state.nodes) == ["ip-10-0-0-1.ec2.internal"]
        assert not store.state.pods
        assert len(store.state.manifests) == 2


def test_a_second_scheduler_refuses_with_the_pid_of_the_first(tmp_path):
    with Store(tmp_path, NOW_S), pytest.raises(ServiceError, match=rf"\(pid {os.getpid()}\).*KVBERTH_STATE"):
        Store(tmp_path, NOW_S)
    with Store(tmp_path, NOW_S):
        pass


def test_a_file_that_cannot_be_read_is_set_aside_and_said_and_the_others_are_read(tmp_path, filled):
    with Store(tmp_path, NOW_S) as store:
        store.commit(State(), filled)
    (pod,) = (tmp_path / "pods").glob("*.json")
    pod.write_bytes(b'{"uid": "\xff')
    with Store(tmp_path, NOW_S) as store:
        assert not store.state.pods
        assert len(store.state.nodes) == 2
        assert pod.name in store.problems[0]
    assert pod.with_name(f"{pod.name}.corrupt").read_bytes() == b'{"uid": "\xff'
    with Store(tmp_path, NOW_S) as store:
        assert not store.problems


def test_a_workload_that_an_earlier_version_let_in_and_this_one_cannot_read_is_set_aside_alone(tmp_path, filled):
    with Store(tmp_path, NOW_S) as store:
        store.commit(State(), filled)
    (manifest,) = [path for path in (tmp_path / "manifests").glob("*.json") if '"Deployment"' in path.read_text()]
    manifest.write_text(manifest.read_text().replace('"name":"AIBRIX_LLM_KV_CACHE_SOCKET"', '"name":"NO=NAME"'))
    with Store(tmp_path, NOW_S) as store:
        assert manifest.name in store.problems[0]
        assert not list(store.state.workloads())
        assert store.state.pods, "its pods are left alone"
    assert manifest.with_name(f"{manifest.name}.corrupt").exists()


def test_a_lost_counter_is_replaced_by_the_clock_and_a_jump_of_versions(tmp_path, filled):
    with Store(tmp_path, NOW_S) as store:
        stored = store.commit(State(), filled)
    (tmp_path / "counter.json").write_text("{}")
    with Store(tmp_path, NOW_S + 60) as store:
        assert store.term == NOW_S + 60
        assert store.next_version() > max(node.resource_version for node in stored.nodes.values()) + 1000


def test_a_kill_between_write_and_rename_leaves_the_old_state_readable(tmp_path, filled):
    with Store(tmp_path, NOW_S) as store:
        stored = store.commit(State(), filled)
    script = [sys.executable, "-c", KILLED_WHILE_WRITING, str(tmp_path)]
    assert subprocess.run(script, check=False, timeout=30).returncode == -signal.SIGKILL
    assert list((tmp_path / "nodes").glob("*.new"))
    with Store(tmp_path, NOW_S) as store:
        assert store.state == stored
        assert not store.problems
    assert not list(tmp_path.rglob("*.new"))
