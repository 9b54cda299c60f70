"""What a cache's process gets of its want."""

import pytest

from kvberth.bare.process.start import StartError
from kvberth.bare.runner.caches import cache_command
from unit.bare.runner.samples import CACHE, cache_want, record


def command(tmp_path, **env):
    return cache_command(tmp_path, record(CACHE, want=cache_want().model_copy(update={"env": env})), tmp_path / "log")


def test_a_cache_gets_the_variables_of_its_manifest(tmp_path):
    assert command(tmp_path, GLOG_v="11").env["GLOG_v"] == "11"


def test_no_variable_of_a_manifest_changes_which_programs_a_cache_finds(tmp_path):
    plain = command(tmp_path).env
    assert command(tmp_path, PATH="/usr/bin", LD_PRELOAD="x.so", HOME="/root", GLOG_logtostderr="0").env == plain


def test_a_variable_that_no_process_can_have_is_a_sentence(tmp_path):
    with pytest.raises(StartError, match="it holds a NUL"):
        command(tmp_path, A="x\0y")
