"""Which variables an engine gets, and where its socket is on the node."""

from pathlib import Path

import pytest

from kvberth.bare.runner.engines import engine_env, env_fault
from kvberth_schemas.events import SocketMount
from unit.bare.runner.samples import engine_want

ROOT = Path("/r/a")
SOCKET = "AIBRIX_LLM_KV_CACHE_SOCKET"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        pytest.param({SOCKET: "/var/run/vineyard.sock"}, "/r/a/default/kv/vineyard.sock", id="as in the samples"),
        pytest.param({SOCKET: "/var/run/sub/other.sock"}, "/r/a/default/kv/sub/other.sock", id="another name"),
        pytest.param({"AIBRIX_LLM_KV_CACHE": "1"}, "/r/a/default/kv/vineyard.sock", id="no path named"),
        pytest.param({SOCKET: ""}, "/r/a/default/kv/vineyard.sock", id="an empty path"),
        pytest.param({SOCKET: "/elsewhere/v.sock"}, "/elsewhere/v.sock", id="not in the mount"),
        pytest.param({SOCKET: "/var/run/../../etc/x"}, "/var/run/../../etc/x", id="leads out of the mount"),
        pytest.param({"OTHER": "1"}, None, id="not legacy"),
    ],
)
def test_the_socket_is_the_nodes_own_in_place_of_the_mount(env, expected):
    assert engine_env(engine_want(env=env), ROOT).get(SOCKET) == expected


def test_the_innermost_mount_counts():
    inner = SocketMount(host_path="/var/run/vineyard-kubernetes/default/inner", mount_path="/var/run/inner")
    want = engine_want(env={SOCKET: "/var/run/inner/v.sock"})
    want = want.model_copy(update={"sockets": (*want.sockets, inner)})
    assert engine_env(want, ROOT)[SOCKET] == "/r/a/default/inner/v.sock"


def test_a_host_path_outside_of_the_prefix_maps_nowhere():
    want = engine_want(env={SOCKET: "/var/run/v.sock"}, host_path="/etc")
    assert engine_env(want, ROOT)[SOCKET] == "/var/run/v.sock"


def test_variables_that_choose_code_or_belong_to_the_runner_stay_out():
    env = {"LD_PRELOAD": "x", "PYTHONPATH": "x", "PATH": "x", "HOME": "x", "KVBERTH_PROCESS": "x", "VLLM_X": "1"}
    assert engine_env(engine_want(env=env), ROOT) == {"VLLM_X": "1", "KVBERTH_CACHE_DIRECTORY": "/r/a/default/kv"}


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({"A=B": "1"}, "'A=B'"),
        ({"": "1"}, "a name is not empty"),
        ({"A\0": "1"}, "neither '=' nor NUL"),
        ({"A": "x\0y"}, "'A' with this value: it holds a NUL"),
    ],
)
def test_a_variable_that_no_process_can_have_is_named(env, sentence):
    assert sentence in env_fault({"FINE": "1", **env})


def test_an_ordinary_environment_has_no_fault():
    assert env_fault({"A": "", "B": "x=y"}) is None
