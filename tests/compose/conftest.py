"""The image and the containers of docker-compose.yml, made once for all tests of this folder."""

import functools
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compose.containers import REPOSITORY, Containers, run

BUILD_WITHIN_S = 900.0


@pytest.fixture(scope="session")
def podman_compose() -> Path:
    """Give the podman-compose beside this Python; skips where containers can't be run."""
    program = Path(sys.executable).with_name("podman-compose")
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed")
    if os.geteuid() != 0:
        pytest.skip("containers with a network of their own need root here")
    if not program.exists():
        pytest.skip("podman-compose is not installed")
    return program


@pytest.fixture(scope="session")
def build(podman_compose: Path) -> Callable[[str], str]:
    """Build a target as a user does; `KVBERTH_TEST_BUILD_FLAGS` adds what this machine's podman needs."""
    assert podman_compose
    flags = shlex.split(os.environ.get("KVBERTH_TEST_BUILD_FLAGS", ""))

    @functools.cache
    def one(target: str) -> str:
        name = f"localhost/kvberth-test-{target}:latest"
        run("podman", "build", *flags, "--target", target, "--tag", name, REPOSITORY, within_s=BUILD_WITHIN_S)
        return name

    return one


@pytest.fixture(scope="session")
def image(build: Callable[[str], str]) -> str:
    """Give the image that docker-compose.yml runs."""
    return build("bare")


@pytest.fixture(scope="module")
def containers(podman_compose: Path, image: str) -> Iterator[Containers]:
    """Give the containers, made and not started; nothing of them may be left afterwards."""
    made = Containers(podman_compose, image)
    try:
        made("up", "--no-build", "--no-start")
        yield made
    finally:
        made("down", "--volumes", "--timeout", "5", within_s=180)
    assert made.left() == []
