"""Reading stored messages: whatever they hold, it is a row or a reason."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvberth.bus import decode
from kvberth.bus.decode import Reason, Row, Unreadable, says_gone
from kvberth_schemas import registry, subjects
from kvberth_schemas.envelope import MAX_BODY_BYTES
from kvberth_schemas.registry import encode
from unit.bus.sample import SUBJECT, envelope, gone, lost

HEADERS = envelope(lost()).headers()
BODY = encode(lost())


def test_a_message_is_read():
    row = decode.read(str(SUBJECT), HEADERS, BODY, 7)
    assert row == Row(SUBJECT, lost(), envelope(lost()), 7)


@pytest.mark.parametrize(
    ("subject", "headers", "body", "reason"),
    [
        (str(SUBJECT), HEADERS, b"{", Reason.BODY),
        (str(SUBJECT), HEADERS, b"{}", Reason.BODY),
        (str(SUBJECT), HEADERS, b"\xff\xfe", Reason.BODY),
        (str(SUBJECT), HEADERS, b"x" * (MAX_BODY_BYTES + 1), Reason.OVERSIZED),
        (str(SUBJECT), {}, BODY, Reason.ENVELOPE),
        (str(SUBJECT), HEADERS | {"ce-time": "yesterday"}, BODY, Reason.ENVELOPE),
        (str(SUBJECT), HEADERS | {"ce-type": "kvberth.socket.lost.v2"}, BODY, Reason.UNKNOWN_TYPE),
        (str(subjects.pod("default", "u1")), HEADERS, BODY, Reason.FOREIGN),
        (str(SUBJECT).replace(".default.", ".other."), HEADERS, BODY, Reason.FOREIGN),
        (str(replace(SUBJECT, node="other")), HEADERS, BODY, Reason.FOREIGN),
        (str(replace(SUBJECT, object="other")), HEADERS, BODY, Reason.FOREIGN),
        ("kvberth.evt.v1.a.default.k.socket.more", HEADERS, BODY, Reason.SUBJECT),
        ("kvberth.evt.v1.a.default.=zz.socket", HEADERS, BODY, Reason.SUBJECT),
    ],
)
def test_what_cannot_be_read_has_a_reason(subject, headers, body, reason):
    found = decode.read(subject, headers, body, 1)
    assert isinstance(found, Unreadable)
    assert found.reason is reason
    assert found.sentence
    if reason is not Reason.SUBJECT:
        assert str(found.subject) == subject


@given(st.text(max_size=60), st.dictionaries(st.sampled_from(sorted(HEADERS)), st.text(max_size=20)), st.binary())
def test_no_message_raises(subject, headers, body):
    for text in (subject, str(SUBJECT)):
        assert isinstance(decode.read(text, HEADERS | headers, body, 1), Row | Unreadable)


def test_the_end_of_a_thing_is_told_by_its_type():
    ends = {cls.__name__ for name, cls in registry.EVENTS.items() if says_gone(name)}
    assert ends == {
        "PodGoneV1",
        "NodeGoneV1",
        "KVCacheGoneV1",
        "KVCacheStatusGoneV1",
        "ProcessGoneV1",
        "SocketGoneV1",
        "CacheHealthGoneV1",
    }
    assert says_gone(gone().ce_type)
