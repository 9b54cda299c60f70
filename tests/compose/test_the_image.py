"""What the image is, whatever runs in it."""

import json

import pytest

from compose.containers import run

pytestmark = pytest.mark.timeout(900)


def in_image(image: str, script: str) -> str:
    return run("podman", "run", "--rm", "--network", "none", image, "sh", "-c", script, within_s=60)


def test_the_image_runs_as_a_plain_user_who_owns_only_its_state_and_sockets(image: str) -> None:
    assert in_image(image, "id -u").strip() == "10001"
    writable = in_image(image, "find / -xdev -type d -writable 2>/dev/null; true").split()
    assert set(writable) <= {
        "/var/lib/kvberth",
        "/run/vineyard-kubernetes",
        "/tmp",
        "/var/tmp",
        "/run/lock",
        "/dev/shm",
    }


def test_the_image_holds_no_compiler(image: str) -> None:
    assert in_image(image, "for x in cc gcc g++ c++ clang ld as make; do command -v $x; done; true") == ""


def test_the_image_holds_the_real_servers(image: str) -> None:
    assert in_image(image, "nats-server --version").startswith("nats-server: v")
    find = "python -c 'from kvberth.vineyard import find_vineyardd; print(find_vineyardd())'"
    assert "vineyardd" in in_image(image, f"$({find}) --version")


def test_the_image_says_what_it_is(image: str) -> None:
    (described,) = json.loads(run("podman", "image", "inspect", image, within_s=30))
    labels = described["Config"]["Labels"]
    assert labels["org.opencontainers.image.title"] == "kvberth"
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert (
        labels["org.opencontainers.image.version"]
        == in_image(image, "python -c 'import kvberth; print(kvberth.__version__)'").strip()
    )
