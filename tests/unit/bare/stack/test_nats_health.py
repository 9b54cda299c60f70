"""When a NATS server that can't store is started again."""

from kvberth.bare.stack.nats_health import AGAIN_AFTER_S, PATIENCE_S, ROOM_BYTES, Patience

FAULT = "JetStream stream 'S' write error: no space left on device"


def test_a_fault_that_lasts_although_there_is_room_ends_the_patience_once() -> None:
    patience = Patience()
    assert not patience.is_over(FAULT, ROOM_BYTES, 0.0)
    assert not patience.is_over(FAULT, ROOM_BYTES, PATIENCE_S - 0.1)
    assert patience.is_over(FAULT, ROOM_BYTES, PATIENCE_S)
    assert not patience.is_over(FAULT, ROOM_BYTES, PATIENCE_S + 0.1)
    assert not patience.is_over(FAULT, ROOM_BYTES, 2 * PATIENCE_S + 1)
    assert patience.is_over(FAULT, ROOM_BYTES, PATIENCE_S + AGAIN_AFTER_S)


def test_a_full_disk_is_waited_for_and_its_time_does_not_count() -> None:
    patience = Patience()
    assert not patience.is_over(FAULT, 0, 0.0)
    assert not patience.is_over(FAULT, 0, 100.0)
    assert not patience.is_over(FAULT, ROOM_BYTES, 101.0)
    assert patience.is_over(FAULT, ROOM_BYTES, 101.0 + PATIENCE_S)


def test_a_fault_that_goes_away_is_forgotten() -> None:
    patience = Patience()
    assert not patience.is_over(FAULT, ROOM_BYTES, 0.0)
    assert not patience.is_over(None, ROOM_BYTES, 5.0)
    assert not patience.is_over(FAULT, ROOM_BYTES, PATIENCE_S + 1)
