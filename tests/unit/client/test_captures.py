"""While the engine captures a graph the client's calls are exempt; afterwards each thread is as it was."""

import ctypes

import pytest

from kvberth.client import captures
from kvberth.client.captures import RELAXED, beside_captures

GLOBAL = 0


class Driver:
    """A thread's mode, as a driver of CUDA has it."""

    def __init__(self, answer=0):
        self.mode, self.answer = GLOBAL, answer

    def exchange(self, pointer):
        if not self.answer:
            self.mode, pointer._obj.value = pointer._obj.value, self.mode
        return self.answer


def test_the_mode_is_relaxed_within_the_block_and_what_it_was_after_it(monkeypatch):
    driver = Driver()
    monkeypatch.setattr(captures, "_exchange", lambda: driver.exchange)
    with beside_captures():
        assert driver.mode == RELAXED
        with beside_captures():
            assert driver.mode == RELAXED
        assert driver.mode == RELAXED
    assert driver.mode == GLOBAL


def test_a_driver_that_refuses_is_asked_once_and_none_is_asked_nothing(monkeypatch):
    driver = Driver(answer=3)
    for exchange in (driver.exchange, None):
        monkeypatch.setattr(captures, "_exchange", lambda exchange=exchange: exchange)
        with beside_captures():
            assert driver.mode == GLOBAL


@pytest.mark.parametrize("library", [None, object()])
def test_without_a_driver_or_with_an_old_one_nothing_is_asked(monkeypatch, library):
    def opened(name):
        if library is None:
            raise OSError(f"{name}: cannot open shared object file")
        return library

    monkeypatch.setattr(ctypes, "CDLL", opened)
    assert captures._exchange.__wrapped__() is None
