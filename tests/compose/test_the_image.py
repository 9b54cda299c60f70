"""What the images are, whatever runs in them."""

import json
from collections.abc import Callable

import pytest

from compose.containers import run

pytestmark = pytest.mark.timeout(900)

PLAIN = ("bare", "kvberth", "vineyardd")


def in_image(image: str, script: str) -> str:
    command = ("podman", "run", "--rm", "--network", "none", "--entrypoint", "/bin/sh", image, "-c", script)
    return run(*command, within_s=60)


@pytest.mark.parametrize("target", PLAIN)
def test_it_runs_as_a_plain_user_who_owns_only_his_state_and_sockets(build: Callable[[str], str], target: str) -> None:
    image = build(target)
    assert in_image(image, "id -u").strip() == "10001"
    writable = set(in_image(image, "find / -xdev -type d -writable 2>/dev/null; true").split())
    assert writable <= {"/var/lib/kvberth", "/run/vineyard-kubernetes", "/tmp", "/var/tmp", "/run/lock"}


@pytest.mark.parametrize("target", PLAIN)
def test_it_holds_no_compiler(build: Callable[[str], str], target: str) -> None:
    assert in_image(build(target), "for x in cc gcc g++ c++ clang ld as make; do command -v $x; done; true") == ""


def test_it_holds_the_real_servers(build: Callable[[str], str]) -> None:
    find = "python -c 'from kvberth.vineyard import find_vineyardd; print(find_vineyardd())'"
    assert "vineyardd version" in in_image(build("bare"), f"$({find}) --version")
    assert "nats-server: v" in in_image(build("bare"), "nats-server --version")
    assert "vineyardd version" in in_image(build("vineyardd"), "vineyardd --version")
    assert "nats-server: v" in run(
        "podman", "run", "--rm", "--network", "none", build("nats"), "--version", within_s=60
    )


def test_it_says_what_it_is(build: Callable[[str], str]) -> None:
    (described,) = json.loads(run("podman", "image", "inspect", build("kvberth"), within_s=30))
    labels = described["Config"]["Labels"]
    assert labels["org.opencontainers.image.title"] == "kvberth"
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    version = in_image(build("kvberth"), "python -c 'import kvberth; print(kvberth.__version__)'")
    assert labels["org.opencontainers.image.version"] == version.strip()


def test_the_stand_in_takes_the_command_lines_of_what_it_stands_for(build: Callable[[str], str]) -> None:
    ask = "import urllib.request as u, sys; sys.exit(u.urlopen(sys.argv[1], timeout=2).status != 200)"
    wait = "for i in 1 2 3 4 5 6 7 8 9 10; do python3 -c '{}' http://127.0.0.1:{}{} && exit 0; sleep 1; done; exit 1"
    engine = "python3 -m vllm.entrypoints.openai.api_server --port 8001 --model x --dtype bfloat16 &"
    image = build("engine-stand-in")
    in_image(image, f"{engine} {wait.format(ask, 8001, '/health')}")
    in_image(image, f"aibrix_runtime --port 8002 & {wait.format(ask, 8002, '/ready')}")
    in_image(image, "aibrix_download --model-uri tos://x --local-dir /models/")
