"""A shortage of this process is never told as the state of a daemon."""

import pytest

from kvberth.vineyard import CannotAsk, SocketMissing, probe
from support.shortage import no_descriptors


async def test_without_a_descriptor_nothing_is_said_about_the_daemon(tmp_path) -> None:
    path = tmp_path / "vineyard.sock"
    with no_descriptors(), pytest.raises(CannotAsk, match="no socket can be made"):
        await probe(path, timeout_s=1.0)
    with pytest.raises(SocketMissing):
        await probe(path, timeout_s=1.0)
