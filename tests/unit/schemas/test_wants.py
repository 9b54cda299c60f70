"""What a want may not hold."""

import pytest
from pydantic import ValidationError

from kvberth_schemas.wants import CacheWantV1


def _want(env):
    return CacheWantV1(
        term=1, state="run", why="wanted", namespace="a", kvcache="kv", kvcache_uid="u", size_bytes=1, env=env
    )


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "x\0y"}])
def test_an_environment_that_no_process_can_have_is_no_want(env):
    with pytest.raises(ValidationError, match="env"):
        _want(env)


def test_other_characters_of_an_environment_pass():
    env = {"A B": "x=y\nz", "É": "", "a.b-c": "ü"}
    assert _want(env).env == env
