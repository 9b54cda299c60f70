"""A transfer worker follows its cache: what is wanted of it, when it ends, and what it is told."""

from kvberth.bare.runner.decide import Step, Verb, decide
from kvberth.bare.runner.record import Key, State
from kvberth.bare.runner.transfer import transfer_command
from kvberth.bare.runner.wantbook import WantBook, worker_of, workers_of
from kvberth_schemas.events import ProcessRole
from kvberth_schemas.wants import Why
from unit.bare.runner.samples import CACHE, ENGINE, NOW, cache_want, engine_want, record, snapshot, wanted

WORKER = Key(ProcessRole.TRANSFER, "default", "kv")
WITH = cache_want(block_bytes=1 << 25)


def decided(want, *records, **changes):
    wants = {CACHE: wanted(want)}
    pairs = [(key, one.want) for key, one in (wants | workers_of(wants)).items()]
    return decide(snapshot([*pairs, *changes.pop("more", ())], records, **changes))


def worker(state=State.RUNNING, **changes):
    return record(WORKER, state, **{"want": WITH, **changes})


def test_a_cache_with_a_block_store_and_its_worker_are_started_together():
    decisions = decided(WITH)
    assert [decisions[key].steps for key in (CACHE, WORKER)] == [
        (Step(Verb.START, CACHE),),
        (Step(Verb.START, WORKER),),
    ]


def test_nothing_is_said_of_the_worker_of_a_cache_without_a_block_store():
    decision = decided(cache_want())[WORKER]
    assert (decision.steps, decision.report) == ((), None)


def test_a_worker_ends_when_its_cache_has_no_block_store_any_more():
    assert decided(cache_want(), worker())[WORKER].steps == (Step(Verb.TERMINATE, WORKER, for_good=True),)


def test_a_worker_of_a_store_of_another_size_is_started_anew():
    old = worker(want=cache_want(block_bytes=1 << 24))
    assert decided(WITH, old)[WORKER].steps == (Step(Verb.TERMINATE, WORKER, for_good=False),)
    assert decided(WITH, worker())[WORKER].steps == ()


def test_a_worker_goes_on_when_its_daemon_begins_anew():
    restarted = WITH.model_copy(update={"not_incarnation": "i1"})
    decisions = decided(restarted, record(want=WITH), worker())
    assert decisions[CACHE].steps == (Step(Verb.TERMINATE, CACHE, for_good=False),)
    assert decisions[WORKER].steps == ()


def test_a_cache_ends_after_its_worker():
    stop = WITH.model_copy(update={"state": "stop", "why": Why.MOVED})
    first = decided(stop, record(want=WITH), worker())
    assert (first[CACHE].steps, first[WORKER].steps) == ((), (Step(Verb.TERMINATE, WORKER, for_good=True),))
    assert first[CACHE].report.event.message == "ends when its transfer worker has ended"
    then = decided(stop, record(want=WITH), worker(State.ENDED, stopped=True))
    assert then[CACHE].steps == (Step(Verb.TERMINATE, CACHE, for_good=True),)


def test_no_worker_ends_under_an_engine_that_uses_the_directory():
    stop = WITH.model_copy(update={"state": "stop", "why": Why.MOVED})
    engine = (ENGINE, engine_want())
    decisions = decided(stop, record(want=WITH), worker(), record(ENGINE), more=[engine])
    assert (decisions[CACHE].steps, decisions[WORKER].steps) == ((), ())


def test_a_worker_that_crashes_comes_back_as_a_cache_does():
    decisions = decided(WITH, record(want=WITH), worker(State.ENDED, ended_at=NOW, crashes=1))
    assert decisions[WORKER].steps == (Step(Verb.START, WORKER),)


def test_a_worker_counts_for_nothing_in_what_its_node_is_asked_for():
    want = WITH.model_copy(update={"memory_bytes": 7, "cpu_millis": 3})
    decisions = decided(want, record(want=want), worker(want=want))
    told = [
        (decisions[key].report.event.memory_bytes, decisions[key].report.event.cpu_millis) for key in (CACHE, WORKER)
    ]
    assert told == [(7, 3), (0, 0)]


def test_until_the_bus_can_be_read_a_worker_is_wanted_as_its_cache_is():
    made = WantBook()
    made.adopt([record(want=WITH), worker()])
    assert made.wants[WORKER].want == WITH
    assert worker_of(CACHE) == WORKER


def test_a_worker_is_told_its_directory_its_size_and_whose_cache_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("KVBERTH_NATS_URL", "nats://127.0.0.1:1")
    monkeypatch.setenv("KVBERTH_INSTANCE", "the runner's own")
    command = transfer_command(tmp_path, worker(port=7), tmp_path / "transfer.default.kv.log")
    told = {name: command.env.get(f"KVBERTH_{name}") for name in ("DIRECTORY", "BLOCK_BYTES", "NAMESPACE", "KVCACHE")}
    assert told == {
        "DIRECTORY": str(tmp_path / "default" / "kv"),
        "BLOCK_BYTES": str(1 << 25),
        "NAMESPACE": "default",
        "KVCACHE": "kv",
    }
    assert (command.env["KVBERTH_HTTP_PORT"], command.env["KVBERTH_NATS_URL"]) == ("7", "nats://127.0.0.1:1")
    assert "KVBERTH_INSTANCE" not in command.env
