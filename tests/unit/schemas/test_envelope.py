"""The envelope travels in headers and comes back; a broken one is refused with the header's name."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kvberth_schemas.envelope import CAUSE, MESSAGE_ID, TRACEPARENT, Envelope, EnvelopeError

ENVELOPE = Envelope(
    id="4b0c",
    type="kvberth.socket.ready.v1",
    source="/kvberth/node_agent/l20 a, 100 %",
    time=datetime(2026, 11, 30, 4, 40, 0, 250, tzinfo=UTC),
    subject="l20-a/default/Käche",
    cause="e1",
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
)


def test_an_envelope_comes_back_from_its_headers():
    assert Envelope.from_headers(ENVELOPE.headers()) == ENVELOPE


def test_cause_and_trace_are_optional():
    bare = Envelope(ENVELOPE.id, ENVELOPE.type, ENVELOPE.source, ENVELOPE.time, ENVELOPE.subject)
    headers = bare.headers()
    assert CAUSE not in headers
    assert TRACEPARENT not in headers
    assert Envelope.from_headers(headers) == bare


def test_headers_are_cloud_events_in_binary_mode_and_carry_the_message_id():
    headers = ENVELOPE.headers()
    assert headers["ce-specversion"] == "1.0"
    assert headers["ce-time"] == "2026-11-30T04:40:00.000250Z"
    assert headers["ce-datacontenttype"] == "application/json"
    assert headers["ce-id"] == headers[MESSAGE_ID] == "4b0c"


def test_headers_are_printable_ascii():
    assert all(value.isascii() and value.isprintable() for value in ENVELOPE.headers().values())


def test_time_is_written_in_utc():
    east = Envelope("i", "t", "s", datetime(2026, 11, 30, 6, tzinfo=timezone(timedelta(hours=2))), "x")
    assert east.headers()["ce-time"] == "2026-11-30T04:00:00.000000Z"


@pytest.mark.parametrize("header", ["ce-id", "ce-type", "ce-source", "ce-time"])
def test_a_missing_header_is_named(header):
    headers = ENVELOPE.headers()
    del headers[header]
    with pytest.raises(EnvelopeError, match=f"{header} is missing"):
        Envelope.from_headers(headers)


def test_no_headers_at_all_are_refused():
    with pytest.raises(EnvelopeError, match="is missing"):
        Envelope.from_headers(None)


@pytest.mark.parametrize("time", ["", "yesterday", "2026-11-30", "2026-11-30T04:40:00"])
def test_a_time_without_a_zone_or_sense_is_refused(time):
    with pytest.raises(EnvelopeError, match="ce-time"):
        Envelope.from_headers(ENVELOPE.headers() | {"ce-time": time})
