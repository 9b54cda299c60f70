"""What counts as wanted while the bus says it, and while it does not."""

from dataclasses import dataclass

from kvberth.bare.runner.record import State
from kvberth.bare.runner.wantbook import WantBook, worker_of
from kvberth_schemas import subjects
from kvberth_schemas.subjects import WantKind
from unit.bare.runner.samples import CACHE, ENGINE, cache_want, engine_want, record

CACHE_SUBJECT = subjects.want(WantKind.CACHE, "a", "default", "kv")
ENGINE_SUBJECT = subjects.want(WantKind.ENGINE, "a", "default", "u1")


@dataclass
class Envelope:
    id: str = "e1"
    traceparent: str | None = None


@dataclass
class Row:
    subject: object
    message: object
    envelope: Envelope


CACHE_ROW = Row(CACHE_SUBJECT, cache_want(), Envelope())


def book():
    made = WantBook()
    made.update([CACHE_ROW], (), complete=True)
    return made


def test_a_want_is_known_with_the_id_of_its_envelope():
    assert book().wants[CACHE].id == "e1"


def test_an_incomplete_view_takes_nothing_back():
    made = book()
    made.update([], (), complete=False)
    assert CACHE in made.wants
    made.update([], (), complete=True)
    assert CACHE not in made.wants


def test_a_want_that_cannot_be_read_counts_as_it_was():
    made = book()
    made.update([], [CACHE_SUBJECT, "nonsense", ENGINE_SUBJECT], complete=True)
    assert set(made.wants) == {CACHE, worker_of(CACHE)}


def test_living_processes_are_wanted_as_they_were_until_the_bus_can_be_read():
    made = WantBook()
    made.adopt([record(CACHE), record(ENGINE, State.ENDED)])
    assert set(made.wants) == {CACHE, worker_of(CACHE)}
    assert not made.read
    made.update([Row(ENGINE_SUBJECT, engine_want(), Envelope())], (), complete=True)
    assert list(made.wants) == [ENGINE]
    assert made.read
