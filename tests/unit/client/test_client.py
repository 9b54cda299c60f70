"""Wrong arguments raise before anything is taken in; where there is no cache everything else is a counted refusal."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kvberth.client import Client, Outcome


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
