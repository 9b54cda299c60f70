"""Wrong arguments raise before anything is taken in; where there is no cache everything else is a counted refusal."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kvberth.client import Client, Outcome
from kvberth.store.errors import CopyFailed
from support.descriptors import open_descriptors


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """An engine of eight blocks beside no worker."""
    with Client(tmp_path, [np.zeros((8, 64), dtype=np.uint8)], {"model": "m"}) as made:
        yield made


def test_keys_and_blocks_of_unequal_number_are_refused_before_any_is_taken_in(client: Client) -> None:
    for keys, blocks in ((3, [0, 1]), (1, [0, 1])):
        with pytest.raises(ValueError, match="each key names one block"):
            client.offload([bytes(32)] * keys, blocks)
    assert client.counts() == (0, {})


def test_without_a_worker_what_is_offered_is_dropped_and_counted(client: Client) -> None:
    ticket = client.offload([bytes(32)] * 2, [0, 1])
    assert ticket.wait(1)
    assert ticket.outcomes == [Outcome.NO_CACHE] * 2
    assert client.counts() == (2, {Outcome.NO_CACHE: 2})


def test_a_device_that_fails_leaves_the_engine_without_a_cache_and_says_so(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise CopyFailed("the GPU's copies have failed (an illegal address)")

    monkeypatch.setattr(client._regions, "mark", fail)
    assert client.offload([bytes(32)], [0]).outcomes == [Outcome.NO_CACHE]
    client._half._thread.join(5)
    assert not client._half._thread.is_alive()
    assert client.why == "the GPU's copies have failed (an illegal address)"
    assert client.offload([bytes(32)], [0]).outcomes == [Outcome.NO_CACHE]
    assert not client.wait_connected(0.01)


def test_a_client_that_is_closed_leaves_no_descriptor(tmp_path: Path) -> None:
    before = open_descriptors()
    for _ in range(3):
        client = Client(tmp_path, [np.zeros((8, 64), dtype=np.uint8)], {"model": "m"})
        client.close()
        client.close()
        assert client.offload([bytes(32)], [0]).outcomes == [Outcome.NO_CACHE]
    assert open_descriptors() == before


def test_a_forked_child_keeps_no_bell_of_its_parents_client(client: Client) -> None:
    bell = client._desk.bell
    os.fstat(bell)
    child = os.fork()
    if not child:
        try:
            os.fstat(bell)
        except OSError:
            os._exit(client._desk.bell != -1)
        os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
