"""How long the supervisor waits before it starts a service again, and where a stack's folders are."""

import asyncio
from pathlib import Path

import pytest

from kvberth.bare.process.endings import end, recorded
from kvberth.bare.stack import Layout, StackError, read_nodes
from kvberth.bare.stack.supervisor import TAKEN_OVER_PAUSE_S, Program, Supervisor, pause_after
from kvberth.service import EXIT_TAKEN_OVER


def test_pauses_double_from_a_fifth_of_a_second_to_five_seconds():
    pauses = []
    pause = None
    for _ in range(7):
        pause = pause_after(0.1, pause)
        pauses.append(pause)
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_service_that_lived_long_starts_again_soon():
    assert pause_after(11, 5.0) == 0.2


def test_a_service_that_was_taken_over_is_started_again_at_leisure():
    assert pause_after(0.1, 0.2, EXIT_TAKEN_OVER) == TAKEN_OVER_PAUSE_S


async def test_a_start_that_is_cancelled_is_finished_so_that_its_process_can_be_found(tmp_path: Path):
    layout = Layout(tmp_path, tmp_path / "root")
    supervisor = Supervisor(Program("one", ("/bin/sleep", "1000")), layout)
    supervisor.start()
    watching = asyncio.create_task(supervisor.watch())
    try:
        supervisor.end_life()
        async with asyncio.timeout(10.0):
            while supervisor.restarts == 0:  # noqa: ASYNC110 - no event tells that a start has just begun
                await asyncio.sleep(0)  # to be there at that very moment
            watching.cancel()
            await asyncio.wait({watching})
        (found,) = recorded(layout.records)
        assert found.alive
        assert found.record.pid is not None
    finally:
        assert end(recorded(layout.records), 1.0) == []
        handle = supervisor._handle  # nobody else could reap the child
        assert handle is not None
        assert handle.child is not None
        handle.child.wait()


def test_a_note_about_a_service_holds_for_a_while(tmp_path: Path):
    layout = Layout(tmp_path, tmp_path / "root")
    assert layout.notes(0.0) == []
    layout.records.mkdir()
    layout.note("placement").write_text("it was taken over")
    written = layout.note("placement").stat().st_mtime
    assert layout.notes(written + 1) == ["it was taken over"]
    assert layout.notes(written + 1000) == []


def test_the_same_state_directory_always_has_the_same_socket_root(tmp_path: Path):
    assert Layout.of(tmp_path) == Layout.of(Path(f"{tmp_path}/"))
    assert Layout.of(tmp_path).root != Layout.of(tmp_path / "other").root


def test_the_default_nodes_are_two_l20(tmp_path: Path):
    assert list(read_nodes(None)) == ["l20-a", "l20-b"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", "holds only objects of kind Node"),
        ("", "holds no node"),
        ("kind: [", "nodes.yaml, document 1"),
    ],
)
def test_a_nodes_file_that_is_none_is_said_in_one_sentence(tmp_path: Path, text: str, sentence: str):
    file = tmp_path / "nodes.yaml"
    file.write_text(text)
    with pytest.raises(StackError, match=sentence):
        read_nodes(file)
