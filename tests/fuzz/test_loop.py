"""The loop itself: it finds planted faults of each kind, ends in time, and makes the same inputs of the same seed."""

import json
import os
import random
import signal
import time

from tests.fuzz import loop
from tests.fuzz.apart import apart, noting
from tests.fuzz.loop import Bounds, Parser, fuzz
from tests.fuzz.mutate import Mutator

SEEDS = (b'{"name": "a", "size": 3}', b"plain text")


def ok(data):
    return "read" if data[:1] == b"{" else "no JSON"


def test_an_exception_is_found_with_the_input_that_made_it(tmp_path):
    def read(data):
        if json.loads(data.decode("utf-8", "replace") if data[:1] == b"{" else "{}").get("size") is None:
            raise KeyError("size")
        return "read"

    report = fuzz(Parser("planted", (SEEDS[0],), read), Bounds(2000, 20), seed=1)
    keys = [failure for failure in report.failures if "KeyError" in failure.what]
    assert keys
    assert keys[0].keep(tmp_path).read_bytes() == keys[0].data


def test_a_hang_is_ended_and_found(monkeypatch):
    monkeypatch.setattr(loop, "HANG_S", 0.2)

    def read(data):
        while data == SEEDS[1]:
            try:
                time.sleep(0.01)
            except Exception:  # noqa: BLE001 - as a parser that catches everything would
                continue
        return "read"

    report = fuzz(Parser("planted", SEEDS, read), Bounds(5, 20), seed=1)
    assert ["no end within" in failure.what for failure in report.failures] == [True]
    assert report.inputs == 5


def test_a_slow_input_is_found(monkeypatch):
    monkeypatch.setattr(loop, "SLOW_S", 0.05)

    def read(data):
        until = time.process_time() + (0.1 if data == SEEDS[1] else 0)
        while time.process_time() < until:
            pass
        return "read"

    report = fuzz(Parser("planted", SEEDS, read), Bounds(5, 20), seed=1)
    assert ["s of CPU" in failure.what for failure in report.failures] == [True]


def test_memory_that_grows_is_found():
    kept = []

    def read(data):
        kept.append(bytearray(256 * 1024))
        return "read"

    report = fuzz(Parser("planted", SEEDS, read), Bounds(400, 20), seed=1)
    assert ["memory grew" in failure.what for failure in report.failures] == [True]


def test_a_descriptor_that_stays_open_is_found_with_the_input_that_opened_it():
    kept = []

    def read(data):
        if data == SEEDS[1]:
            kept.append(os.open("/dev/null", os.O_RDONLY))
        return "read"

    report = fuzz(Parser("planted", SEEDS, read), Bounds(5, 20), seed=1)
    for descriptor in kept:
        os.close(descriptor)
    assert [(failure.data, failure.what) for failure in report.failures] == [(SEEDS[1], "it left a descriptor open")]


def dying(name, bounds, seed, note):
    def read(data):
        if data == SEEDS[1]:
            os.kill(os.getpid(), signal.SIGKILL)
        return "read"

    return fuzz(Parser(name, SEEDS, read), bounds, seed, noting(note))


def dead_at_once(name, bounds, seed, note):
    os._exit(3)


def test_a_process_that_dies_is_a_failure_with_the_input_at_which_it_died():
    (failure,) = apart(dying, "planted", Bounds(5, 20), 1).failures
    assert (failure.parser, failure.data) == ("planted", SEEDS[1])
    assert "died" in failure.what
    (failure,) = apart(dead_at_once, "planted", Bounds(5, 20), 1).failures
    assert failure.what == "its process died before the first input"


def test_a_parser_without_a_fault_has_none_and_its_run_ends_by_inputs_or_by_time():
    assert fuzz(Parser("good", SEEDS, ok), Bounds(500, 60), seed=1).inputs == 500
    began = time.monotonic()
    report = fuzz(Parser("good", SEEDS, ok), Bounds(10**9, 0.2), seed=1)
    assert report.failures == []
    assert report.inputs > 100
    assert time.monotonic() - began < 5


def test_one_seed_makes_the_same_bounded_inputs_and_another_makes_others():
    def made(seed):
        mutator = Mutator(random.Random(seed), SEEDS, 9000)
        return [mutator.next() for _ in range(3000)]

    assert made(1) == made(1)
    assert made(1) != made(2)
    assert len(set(made(1))) > 2000
    assert max(map(len, made(1))) <= 9000


def test_inputs_with_new_outcomes_are_kept_to_start_from():
    seen = set()

    def read(data):  # only somebody who builds upon "2" finds "3"
        depth = data.count(b"[") if data[:1] == b"[" else 0
        seen.add(min(depth, 50))
        return "x" * min(depth, 50)

    report = fuzz(Parser("steps", (b"[1]",), read), Bounds(5000, 20), seed=3)
    assert report.outcomes == len(seen) > 10
