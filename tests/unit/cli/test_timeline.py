"""The demo's timeline follows causes, not the order in which things were heard."""

from datetime import UTC, datetime, timedelta

from kvberth.bus import Row
from kvberth.cli.timeline import because_of, timeline
from kvberth_schemas import subjects
from kvberth_schemas.envelope import Envelope
from kvberth_schemas.events import GateResult, PodRole, PodScheduledV1, ProcessStartedV1, Resources, SocketReadyV1
from kvberth_schemas.subjects import WantKind
from kvberth_schemas.wants import DirWantV1, Why

START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def row(subject, message, event_id, cause, after_ms, who="placement"):
    time = START + timedelta(milliseconds=after_ms)
    envelope = Envelope(event_id, message.ce_type, f"/kvberth/{who}/x", time, str(subject), cause)
    return Row(subject=subject, message=message, envelope=envelope, sequence=after_ms)


def bound(event_id="e2", after_ms=0):
    pod = PodScheduledV1(
        uid="u", name="llama-1", namespace="ns", resource_version=1, role=PodRole.ENGINE, requests=Resources(), node="b"
    )
    return row(subjects.pod("ns", "u"), pod, event_id, None, after_ms, "scheduler")


def want(after_ms=8, cause="e2"):
    message = DirWantV1(term=1, state="keep", why=Why.WANTED, namespace="ns", kvcache="kv")
    return row(subjects.want(WantKind.DIR, "b", "ns", "kv"), message, "w1", cause, after_ms)


def answered(after_ms=60, cause="w1", event_id="s1"):
    message = SocketReadyV1(
        cache="kv",
        namespace="ns",
        node="b",
        path="/s",
        incarnation="i",
        instance_id=0,
        version="1",
        memory_usage=0,
        memory_limit=1,
    )
    return row(subjects.socket("b", "ns", "kv"), message, event_id, cause, after_ms, "node_agent")


def test_a_move_is_followed_over_its_causes_in_order_of_time():
    steps = timeline([answered(), want(), bound()], "e2")
    assert [(step.after_ms, step.who) for step in steps] == [(0, "scheduler"), (8, "placement"), (60, "node_agent")]
    assert "register answered on /s" in steps[-1].what


def test_what_has_another_cause_is_left_out():
    assert because_of([bound(), want(cause="e1"), answered()], "e2") == [bound()]


def test_the_timeline_ends_with_the_first_answered_socket():
    steps = timeline([bound(), want(), answered(), answered(90, event_id="s2")], "e2")
    assert [step.after_ms for step in steps] == [0, 8, 60]


def test_causes_that_name_each_other_end():
    assert because_of([want(cause="s1"), answered()], "e2") == []


def engine(after_ms, event_id, **changes):
    fields = {"node": "b", "namespace": "ns", "owner": "u", "name": "llama-1", "role": "engine", "pid": 7}
    message = ProcessStartedV1(**{**fields, "started": START, "ready": False, **changes})
    return row(subjects.process("b", "ns", "u", "engine"), message, event_id, "e2", after_ms, "runner")


def test_an_engine_behind_its_gate_is_followed_to_its_start():
    opened = GateResult(outcome="open", reason="SocketAnswered", waited_s=0.07)
    rows = [
        *(bound(), want(), answered(60)),
        engine(20, "p1", at_gate=True, message="has just begun"),
        engine(40, "p2", at_gate=True, message="SocketMissing"),
        engine(90, "p3", gate=opened, pid=8),
        engine(150, "p4", gate=opened, pid=8, ready=True),
        answered(200, event_id="s2"),
    ]
    steps = timeline(rows, "e2")
    assert [step.after_ms for step in steps] == [0, 8, 20, 60, 90]
    assert steps[-1].what == "engine llama-1 started, pid 8 after 70 ms at its gate"
