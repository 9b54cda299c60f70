"""Small parts of the command line: kinds, events as lines, where the bus is, what a Ctrl-C does."""

import asyncio
import io
import json
import os
import re
import signal
from datetime import UTC, datetime

import pytest
from rich.console import Console

from kvberth.bus import Row
from kvberth.cli.connection import layout_of, nats_url
from kvberth.cli.console import NO_TERMINAL_WIDTH, output
from kvberth.cli.errors import CommandError
from kvberth.cli.events import about, json_line, line
from kvberth.cli.objects import kind_of
from kvberth.cli.signals import on_signals, until_signal
from kvberth_schemas import subjects
from kvberth_schemas.envelope import Envelope
from kvberth_schemas.events import NodeGoneV1, PodRole, PodScheduledV1, PodWaitingV1, Resources, SocketGoneV1

POD = {
    "uid": "u",
    "name": "llama-1",
    "namespace": "team-a",
    "resource_version": 1,
    "role": PodRole.ENGINE,
    "requests": Resources(),
}


def row(subject, message, cause=None):
    envelope = Envelope(
        id="e2",
        type=message.ce_type,
        subject=str(subject),
        source="/kvberth/scheduler/vm-1-2",
        time=datetime(2026, 1, 2, tzinfo=UTC),
        cause=cause,
    )
    return Row(subject=subject, message=message, envelope=envelope, sequence=7)


@pytest.mark.parametrize("word", ["deployment", "Deployments", "deploy", "DEPLOYMENT"])
def test_kinds_are_known_as_people_write_them(word):
    assert kind_of(word) == "Deployment"


def test_an_unkind_of_is_answered_with_the_known_ones():
    with pytest.raises(CommandError, match="it knows deployment, statefulset, kvcache and pod"):
        kind_of("service")


def test_an_event_is_about_a_thing_on_a_node():
    pod = subjects.pod("team-a", "u")
    assert about(row(pod, PodScheduledV1(**POD, node="l20-a"))) == "team-a/llama-1 on l20-a"
    assert about(row(pod, PodWaitingV1(**POD, why="no GPU"))) == "team-a/llama-1: no GPU"
    assert about(row(subjects.node("l20-a"), NodeGoneV1(name="l20-a", why="deleted"))) == "l20-a: deleted"
    gone = SocketGoneV1(cache="kv", namespace="team-a", node="l20-a")
    assert about(row(subjects.socket("l20-a", "team-a", "kv"), gone)) == "team-a/kv on l20-a"


def test_a_line_names_the_event_and_its_cause_and_takes_no_markup_from_others():
    out = io.StringIO()
    pod = PodWaitingV1(**POD, why="[/] nodes")
    Console(file=out, width=200).print(line(row(subjects.pod("team-a", "u"), pod, cause="e1")))
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d\.000 pod\.waiting +team-a/llama-1: \[/\] nodes e2 because of e1", out.getvalue().rstrip()
    )


def test_a_json_line_holds_envelope_and_data():
    told = json.loads(json_line(row(subjects.node("l20-a"), NodeGoneV1(name="l20-a", why="deleted"), cause="e1")))
    assert told.pop("data") == {"name": "l20-a", "why": "deleted"}
    assert told == {
        "subject": "kvberth.evt.v1.-.-.l20-a.node",
        "sequence": 7,
        "id": "e2",
        "type": "kvberth.node.gone.v1",
        "time": "2026-01-02T00:00:00+00:00",
        "source": "/kvberth/scheduler/vm-1-2",
        "cause": "e1",
    }


def test_the_state_directory_is_the_option_else_the_variable_else_the_default(monkeypatch, tmp_path):
    monkeypatch.setenv("KVBERTH_STATE", str(tmp_path / "variable"))
    assert layout_of(tmp_path / "option").state == tmp_path / "option"
    assert layout_of(None).state == tmp_path / "variable"
    monkeypatch.delenv("KVBERTH_STATE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert layout_of(None).state == tmp_path / ".local" / "state" / "kvberth"


def test_the_bus_is_the_variable_else_what_up_wrote_else_unknown(monkeypatch, tmp_path):
    monkeypatch.delenv("KVBERTH_NATS_URL", raising=False)
    with pytest.raises(CommandError, match="start one with 'kvberth up'"):
        nats_url(layout_of(tmp_path))
    (tmp_path / "kvberth.json").write_text('{"nats_url": "nats://a:1", "pid": 1, "start_ticks": 1, "nodes": []}')
    assert nats_url(layout_of(tmp_path)) == "nats://a:1"
    monkeypatch.setenv("KVBERTH_NATS_URL", "nats://b:2")
    assert nats_url(layout_of(tmp_path)) == "nats://b:2"


def test_where_there_is_no_terminal_no_line_is_wrapped():
    assert output().width == NO_TERMINAL_WIDTH  # pytest holds the output


async def test_a_signal_ends_the_work_and_says_so():
    ended = []

    async def work():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async with asyncio.timeout(5):
        assert await until_signal(on_signals(), work())
    assert ended == [True]


async def test_work_that_ends_or_fails_by_itself_is_not_a_signal():
    async def fine():
        return None

    async def broken():
        raise CommandError("no")

    signalled = asyncio.Event()
    assert not await until_signal(signalled, fine())
    with pytest.raises(CommandError, match="no"):
        await until_signal(signalled, broken())
