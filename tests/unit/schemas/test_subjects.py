"""Subjects name every entity, are spelt once, and parse back."""

import pytest

from kvberth_schemas import subjects
from kvberth_schemas.subjects import AliveSubject, Entity, EventSubject, Service, WantKind, WantSubject

EVENT_SUBJECTS = {
    "kvberth.evt.v1.-.default.7c1e.pod": subjects.pod("default", "7c1e"),
    "kvberth.evt.v1.-.-.ip-10-0-0-1=2Eec2=2Einternal.node": subjects.node("ip-10-0-0-1.ec2.internal"),
    "kvberth.evt.v1.-.default.k.spec": subjects.spec("default", "k"),
    "kvberth.evt.v1.-.default.k.status": subjects.status("default", "k"),
    "kvberth.evt.v1.l20-a.default.k=3Dcache.process": subjects.process("l20-a", "default", "k", "cache"),
    "kvberth.evt.v1.l20-a.default.k.socket": subjects.socket("l20-a", "default", "k"),
    "kvberth.evt.v1.l20-a.default.k.health": subjects.health("l20-a", "default", "k"),
    "kvberth.evt.v1.-.default.k.cache": subjects.cache("default", "k"),
}


@pytest.mark.parametrize(("text", "subject"), EVENT_SUBJECTS.items())
def test_event_subjects_are_spelt_as_the_contract_says_and_parse_back(text, subject):
    assert str(subject) == text
    assert EventSubject.parse(text) == subject


def test_a_want_is_spelt_as_the_contract_says_and_parses_back():
    subject = subjects.want(WantKind.DIR, "l20-a", "default", "k")
    assert str(subject) == "kvberth.want.v1.l20-a.default.k.dir"
    assert WantSubject.parse(str(subject)) == subject


@pytest.mark.parametrize("node", [None, "l20-a", "-"])
def test_a_sign_of_life_parses_back(node):
    subject = AliveSubject(Service.NODE_AGENT, "host-1-ab", node)
    assert AliveSubject.parse(str(subject)) == subject


def test_patterns_cover_one_node_or_all():
    assert subjects.events_of(Entity.POD) == "kvberth.evt.v1.*.*.*.pod"
    assert subjects.events_of(Entity.SOCKET, "a.b") == "kvberth.evt.v1.a=2Eb.*.*.socket"
    assert subjects.wants_of(WantKind.DIR, "l20-a") == "kvberth.want.v1.l20-a.*.*.dir"


def test_the_owner_of_a_process_may_hold_an_equals_sign():
    assert subjects.process_owner(subjects.process("n", "ns", "a=b", "engine")) == ("a=b", "engine")


def test_a_process_without_a_role_is_refused():
    with pytest.raises(ValueError, match="<owner>=<role>"):
        subjects.process_owner(EventSubject(Entity.PROCESS, "k", "default", "n"))


@pytest.mark.parametrize("parse", [EventSubject.parse, WantSubject.parse, AliveSubject.parse])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "foo",
        "kvberth.evt.v1.-.default.k",
        "kvberth.evt.v2.-.default.k.pod",
        "kvberth.evt.v1.-.default.k.nothing",
        "kvberth.evt.v1.-.default..pod",
        "kvberth.evt.v1.-.default.k.pod.more",
        "kvberth.want.v1.n.default.k.nothing",
        "kvberth.want.v1.-.default.k.dir",
        "kvberth.alive.v1.-.nobody.i",
        "kvberth.alive.v1.-.runner.-",
    ],
)
def test_what_is_no_subject_is_refused(parse, text):
    with pytest.raises(ValueError, match=r"."):
        parse(text)


def test_every_entity_has_a_writer_and_every_want_too():
    assert subjects.WRITERS.keys() == set(Entity)
    assert subjects.WANT_WRITERS.keys() == set(WantKind)
