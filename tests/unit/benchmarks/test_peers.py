"""How other stores are measured beside ours: rounds in turn, by drivers of which any may fail."""

import sys
from pathlib import Path

import pytest
from benchmarks.peers import __main__ as peers

DRIVER = """
import sys
sys.path.insert(0, "@HERE@")
from driver import serve

class Store:
    def __init__(self, memory):
        self.memory, self.held = memory, {}
        print("what a store prints is not an answer")
        @BEGIN@

    def put(self, tokens, first, last):
        self.held.update({at: self.memory.source[at].copy() for at in range(first, last)})

    def get(self, tokens, first, last):
        for at in range(first, last):
            self.memory.target[at] = self.held[at]
        @THEN@

    def forget(self, tokens):
        self.held.clear()

    def close(self):
        pass

serve(Store)
""".replace("@HERE@", str(Path(peers.__file__).parent))


@pytest.fixture
def driven(tmp_path, monkeypatch):
    """Rounds of drivers whose stores do something else when they begin, or after a get."""
    monkeypatch.setattr(peers, "HERE", tmp_path)
    monkeypatch.setenv("PEER_BLOCKS", "2")

    def run(**stores):
        for name, (begin, then) in stores.items():
            (tmp_path / f"drive_{name}.py").write_text(DRIVER.replace("@BEGIN@", begin).replace("@THEN@", then))
        (tmp_path / "drive_kvberth.py").write_text(DRIVER.replace("@BEGIN@", "").replace("@THEN@", ""))
        return peers.in_turns({"kvberth": "unused"}, dict.fromkeys(stores, sys.executable))

    return run


def test_each_store_is_measured_in_each_round(driven):
    found = driven(other=("", ""))
    assert set(found) == {"kvberth", "other"}
    names = {"put_ratio", "get_ratio", "put_cpu_ratio", "get_cpu_ratio"}
    assert all(set(ratios) == names for ratios in found.values())
    assert all(
        len(values) == peers.ROUNDS and min(values) > 0 for ratios in found.values() for values in ratios.values()
    )
    lines = list(peers.table(found))
    assert [line.split()[0] for line in lines[2:]] == ["kvberth", "other"]


def test_a_store_that_does_not_start_fails_or_gives_other_bytes_is_left_out_with_a_word(driven, capsys):
    found = driven(
        absent=('raise OSError("no such server")', ""),
        fails=("", 'raise OSError("it has ended")'),
        wrong=("", "self.memory.target[0, 5] ^= 1"),
    )
    assert set(found) == {"kvberth"}
    said = capsys.readouterr().out
    assert "absent does not start: " in said
    assert "OSError: no such server" in said
    assert "OSError: it has ended" in said
    assert "wrong has failed: other bytes came back than went in" in said


def test_what_is_not_installed_is_passed_over_with_a_word(tmp_path, monkeypatch, capsys):
    python = tmp_path / "aibrix" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    monkeypatch.setenv("KVBERTH_PEERS", str(tmp_path))
    assert peers.pythons() == {"aibrix": str(python)}
    assert f"lmcache is passed over: {tmp_path}/lmcache/bin/python" in capsys.readouterr().out
    monkeypatch.delenv("KVBERTH_PEERS")
    assert peers.pythons() == {}
    assert "aibrix is passed over: KVBERTH_PEERS names no folder" in capsys.readouterr().out
