"""Keys: the same block of the same model has the same one, and nothing else has."""

import pytest

from kvberth.client.keys import Namespace, chain, fingerprint_of

KEY = bytes(range(32))


def test_a_key_depends_on_all_that_the_bytes_depend_on() -> None:
    facts = {"model": "m", "dtype": "bfloat16", "tp": 2}
    base = fingerprint_of(facts)
    assert base == fingerprint_of(dict(reversed(facts.items())))
    keys = {
        Namespace(base, (10, 20)).stored(KEY),
        Namespace(base, (20, 10)).stored(KEY),
        Namespace(base, (10, 20), b"reset").stored(KEY),
        Namespace(fingerprint_of(facts | {"dtype": "float16"}), (10, 20)).stored(KEY),
        Namespace(base, (10, 20)).stored(bytes(32)),
    }
    assert len(keys) == 5
    assert Namespace(base, [10, 20]).stored(KEY) in keys
    with pytest.raises(ValueError, match="32 bytes"):
        Namespace(base, (1,)).stored(b"short")


def test_equal_beginnings_have_equal_keys_and_nothing_after_a_difference_has() -> None:
    one, two = chain([1, 2, 3, 4, 5, 6, 7], 2), chain([1, 2, 3, 9, 5, 6], 2)
    assert len(one) == 3
    assert one[0] == two[0]
    assert one[1] != two[1]
    assert one[2] != two[2], "the same tokens after others are another block"
    assert chain([12, 3], 2) != chain([1, 23], 2)
    assert chain([1, 2], 2, salt=b"tenant") != chain([1, 2], 2)
