"""A node's clock runs only while the scheduler hears itself."""

from kvberth.bare.scheduler.clock import Heard, listen


def test_silence_grows_with_time_and_ends_with_a_sign_of_life():
    silence = listen({}, 0.5, Heard(0.3, {"a": None, "b": 0.2}), 3)
    assert silence == {"a": 0.5, "b": 0.2}
    silence = listen(silence, 0.5, Heard(0.3, {"a": None, "b": 0.7}), 3)
    assert silence == {"a": 1.0, "b": 0.7}
    assert listen(silence, 0.5, Heard(0.3, {"a": 0.1, "b": 1.2}), 3) == {"a": 0.1, "b": 1.2}


def test_a_scheduler_that_does_not_hear_itself_counts_no_silence_and_keeps_the_lost_lost():
    for own_s in (None, 2.5):
        assert listen({"a": 1.0, "b": 200.0}, 0.5, Heard(own_s, {"a": 40.0, "b": 240.0}), 3) == {"a": 0.0, "b": 200.0}


def test_a_scheduler_that_did_not_run_counts_no_silence():
    assert listen({"a": 1.0}, 3600.0, Heard(0.1, {"a": 3600.0}), 3) == {"a": 0.0}


def test_after_a_dead_bus_every_node_gets_the_whole_time_to_come_back():
    silence = {"a": 2.5}
    for _ in range(100):
        silence = listen(silence, 0.5, Heard(60.0, {"a": 60.0}), 3)
    assert listen(silence, 0.5, Heard(0.1, {"a": 60.0}), 3) == {"a": 0.5}


def test_a_deleted_node_is_forgotten():
    assert listen({"a": 1.0, "b": 1.0}, 0.5, Heard(0.1, {"b": 0.1}), 3) == {"b": 0.1}
