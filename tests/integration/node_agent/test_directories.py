"""Directories as wants ask for them, whatever happens to them."""

import asyncio
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from integration.node_agent.running_agent import K, running_agent
from kvberth.node_agent.sockets.plan import CacheKey, DirWant
from kvberth.service import Telemetry
from support.vineyardd import running_vineyardd
from support.waiting import until

pytestmark = pytest.mark.integration

NOBODY = 65534


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def as_nobody(root) -> Iterator[None]:
    """Runs the agent as a user whom permissions bind."""
    if os.geteuid() != 0:
        yield
        return
    os.chown(root, NOBODY, NOBODY)
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


async def test_a_directory_is_made_with_the_mode_and_repaired_when_it_changes(agent):
    agent.want(mode=0o2770)
    await agent.heard.until_word("lost missing")
    assert mode_of(agent.directory) == 0o2770
    agent.want(mode=0o755)
    await until(lambda: mode_of(agent.directory) == 0o755)
    agent.directory.chmod(0)
    await until(lambda: mode_of(agent.directory) == 0o755)


async def test_a_directory_that_is_removed_is_made_again_and_a_daemon_in_it_found(agent):
    agent.want()
    async with running_vineyardd(agent.socket) as daemon:
        await agent.heard.until_word(f"ready {daemon.incarnation}")
        shutil.rmtree(agent.directory)
        await agent.heard.until_word("lost missing")
        await until(agent.directory.is_dir)
    async with running_vineyardd(agent.socket) as daemon:
        await agent.heard.until_word(f"ready {daemon.incarnation}", seconds=2.0)


async def test_a_directory_that_is_replaced_is_watched_in_its_place(agent):
    agent.want()
    await agent.heard.until_word("lost missing")
    agent.directory.rename(agent.root / "old")
    await until(agent.directory.is_dir)
    async with running_vineyardd(agent.root / "old" / "vineyard.sock"), running_vineyardd(agent.socket) as daemon:
        await agent.heard.until_word(f"ready {daemon.incarnation}")


@pytest.mark.parametrize(
    ("put", "words"),
    [
        (lambda path: path.touch(), "a plain file"),
        (lambda path: path.symlink_to("/tmp"), "a symbolic link"),
    ],
)
async def test_something_in_the_place_of_the_directory_is_lost_with_a_sentence_and_heals(agent, put, words):
    agent.directory.parent.mkdir()
    put(agent.directory)
    agent.want()
    assert words in (await agent.heard.until_word("lost missing")).message
    agent.directory.unlink()
    async with asyncio.timeout(5):
        await agent.heard.until(lambda event: "no socket" in event.message)
    async with running_vineyardd(agent.socket) as daemon:
        await agent.heard.until_word(f"ready {daemon.incarnation}")


async def test_a_directory_in_the_place_of_the_socket_is_lost_with_a_sentence(agent):
    agent.socket.mkdir(parents=True)
    agent.want()
    assert "a directory" in (await agent.heard.until_word("lost missing")).message
    agent.socket.rmdir()
    async with running_vineyardd(agent.socket) as daemon:
        await agent.heard.until_word(f"ready {daemon.incarnation}")


async def test_a_socket_path_that_is_too_long_is_lost_with_its_length(root):
    name = "k" * (108 - len(str(root / "default" / "vineyard.sock")) - 1)
    assert len(str(root / "default" / name / "vineyard.sock")) == 108
    async with running_agent(root) as agent:
        agent.want(key=CacheKey("default", name))
        assert "108 bytes" in (await agent.heard.until_word("lost missing")).message


async def test_a_name_that_leads_out_of_the_root_is_lost_with_a_sentence_and_makes_nothing(agent):
    agent.want(key=CacheKey("..", "escape"))
    assert "DNS labels" in (await agent.heard.until_word("lost missing")).message
    assert not (agent.root.parent / "escape").exists()
    assert agent.keeper.looked.is_set()


async def test_a_directory_that_may_not_be_made_is_denied_and_heals(root):
    (root / "default").mkdir(mode=0o555)
    with as_nobody(root):
        async with running_agent(root) as agent:
            agent.want()
            assert "Permission denied" in (await agent.heard.until_word("lost denied")).message
            if os.geteuid() != os.getuid():
                os.seteuid(0)
            (root / "default").chmod(0o777)
            os.seteuid(NOBODY if os.getuid() == 0 else os.getuid())
            await agent.heard.until_word("lost missing")
            assert agent.directory.is_dir()


async def test_a_socket_that_may_not_be_reached_is_denied_and_heals(root):
    path = root / "default" / "k" / "vineyard.sock"
    async with running_vineyardd(path) as daemon:
        if os.geteuid() == 0:
            for directory in (path.parent.parent, path.parent):
                os.chown(directory, NOBODY, NOBODY)
        path.chmod(0)
        with as_nobody(root):
            async with running_agent(root) as agent:
                agent.want()
                await agent.heard.until_word("lost denied")
                if os.geteuid() != os.getuid():
                    os.seteuid(0)
                path.chmod(0o777)
                os.seteuid(NOBODY if os.getuid() == 0 else os.getuid())
                await agent.heard.until_word(f"ready {daemon.incarnation}")


async def test_a_drop_says_gone_and_empties_the_directory_later_but_keeps_it(root):
    async with running_agent(root, empty_after_s=0.3) as agent:
        agent.want()
        await agent.heard.until_word("lost missing")
        (agent.directory / "clients").mkdir()
        cause = agent.want("drop")
        await agent.heard.until_word("gone")
        assert agent.heard.causes[-1][0] == cause
        assert (agent.directory / "clients").exists()
        await until(lambda: not list(agent.directory.iterdir()))
        assert agent.directory.is_dir()
        async with running_vineyardd(agent.socket):
            assert agent.heard.words[-1] == "gone"


async def test_a_dropped_directory_where_somebody_answers_is_left_alone_until_he_ends_and_that_is_said_once(root):
    with capture_logs() as said:
        await _drop_while_somebody_answers(root)
    reasons = [entry["reason"] for entry in said if "left as it is" in entry["event"]]
    assert reasons[0] == "a daemon answers there"
    ended = [reason for reason in reasons[1:] if "the daemon is gone" in reason]  # a look may meet its very end
    assert reasons[1:] == ended[:1]


async def _drop_while_somebody_answers(root):
    async with running_agent(root, empty_after_s=0.1) as agent:
        agent.want()
        async with running_vineyardd(agent.socket) as daemon:
            await agent.heard.until_word(f"ready {daemon.incarnation}")
            agent.want("drop")
            await agent.heard.until_word("gone")
            with pytest.raises(TimeoutError):
                await until(lambda: not agent.socket.exists(), within_s=0.5)
            await daemon.kill()
            await until(lambda: not agent.socket.exists())


async def test_a_new_keep_in_time_leaves_everything_as_it_was(root):
    async with running_agent(root, empty_after_s=0.2) as agent:
        agent.want()
        await agent.heard.until_word("lost missing")
        (agent.directory / "kept").touch()
        agent.want("drop")
        await agent.heard.until_word("gone")
        agent.want("keep")
        await agent.heard.until_word("lost missing")
        with pytest.raises(TimeoutError):
            await until(lambda: not (agent.directory / "kept").exists(), within_s=0.5)


async def test_wants_that_vanish_change_nothing(agent):
    agent.want()
    async with running_vineyardd(agent.socket) as daemon:
        await agent.heard.until_word(f"ready {daemon.incarnation}")
        agent.keeper.apply({})
        await daemon.kill()
        await agent.heard.until_word("lost stale")


async def test_a_directory_of_an_earlier_life_is_watched_on_without_a_want_but_not_changed(agent):
    assert not agent.keeper.adopt(K)
    agent.directory.mkdir(parents=True)
    agent.directory.chmod(0o711)
    assert agent.keeper.adopt(K)
    async with running_vineyardd(agent.socket) as daemon:
        await agent.heard.until_word(f"ready {daemon.incarnation}")
        assert agent.heard.causes[-1] == (None, None)
        assert mode_of(agent.directory) == 0o711
        agent.keeper.apply({K: DirWant("1", "keep", 0o700, None)})
        await until(lambda: mode_of(agent.directory) == 0o700)


async def test_a_want_is_handled_in_the_trace_that_brought_it_and_what_comes_later_is_not(root):
    exporter = InMemorySpanExporter()
    telemetry = Telemetry("node_agent", span_exporter=exporter)
    async with running_agent(root, handling=telemetry.handling) as agent:
        trace = "0af7651916cd43dd8448eb211c80319c"
        agent.keeper.apply({K: DirWant("1", "keep", 0o700, None, f"00-{trace}-b7ad6b7169203331-01")})
        await agent.heard.until_word("lost missing")
        spans = [(span.name, f"{span.context.trace_id:032x}") for span in exporter.get_finished_spans()]
        assert spans == [("directory keep", trace)]
        assert agent.heard.spans == [0]
        agent.want("drop")
        await agent.heard.until_word("gone")
        assert exporter.get_finished_spans()[-1].name == "directory drop"
        assert agent.heard.spans[-1] == exporter.get_finished_spans()[-1].context.span_id
