"""Which engines are remembered as ended for good."""

from concurrent.futures import ThreadPoolExecutor

from kvberth.bare.runner import graves as graves_module
from kvberth.bare.runner import restarts
from kvberth.bare.runner.graves import Graves
from kvberth.bare.runner.record import Key, State
from kvberth_schemas.events import ProcessRole
from kvberth_schemas.wants import RestartPolicy
from unit.bare.runner.samples import CACHE, ENGINE, engine_want, record


def engine(number):
    return Key(ProcessRole.ENGINE, "default", f"u{number}")


def test_graves_are_there_for_the_next_runner_and_the_oldest_give_way(tmp_path, monkeypatch):
    monkeypatch.setattr(graves_module, "MOST", 3)
    first = Graves(tmp_path / "ended.json")
    first.load()
    for number in range(5):
        first.dig(engine(number))
    second = Graves(tmp_path / "ended.json")
    second.load()
    assert list(second.keys) == list(first.keys) == [engine(2), engine(3), engine(4)]


def test_many_engines_are_remembered_at_once(tmp_path):
    graves = Graves(tmp_path / "ended.json")
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(graves.dig, map(engine, range(64))))
    found = Graves(tmp_path / "ended.json")
    found.load()
    assert set(found.keys) == set(map(engine, range(64)))


def test_a_file_that_cannot_be_read_is_said_and_ends_nothing(tmp_path, capsys):
    (tmp_path / "ended.json").write_text("{")
    graves = Graves(tmp_path / "ended.json")
    graves.load()
    assert list(graves.keys) == []
    assert "ended engines are forgotten" in "".join(capsys.readouterr())


def test_only_engines_that_may_not_run_again_get_a_grave():
    ended = {"state": State.ENDED, "exit_code": 0}
    assert restarts.is_final(record(ENGINE, stopped=True, **ended))
    assert restarts.is_final(record(ENGINE, want=engine_want(policy=RestartPolicy.NEVER), **ended))
    assert not restarts.is_final(record(ENGINE, **ended))
    assert not restarts.is_final(record(CACHE, stopped=True, **ended))
