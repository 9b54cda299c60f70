"""The index against a dictionary, with keys that want the same places."""

from hypothesis import given
from hypothesis import strategies as st

from kvberth.store.index import PROBES, Index
from kvberth.store.layout import entries
from kvberth.store.layout.entries import Entry
from kvberth.store.memory import INDEX_SEQUENCE
from support.store_memory import key_of, small_memory


def crowded_key(home: int, number: int) -> bytes:
    """A key whose search begins at `home`."""
    return home.to_bytes(8, "little") + number.to_bytes(24, "little")


steps = st.lists(st.tuples(st.booleans(), st.sampled_from([254, 255, 0, 1, 2, 9]), st.integers(0, 9)), max_size=80)


@given(steps)
def test_the_index_finds_what_a_dictionary_finds(steps: list[tuple[bool, int, int]]) -> None:
    memory = small_memory()
    index, model = Index(memory), dict[bytes, Entry]()
    for adds, home, number in steps:
        key = crowded_key(home, number)
        if adds and key not in model:
            entry = Entry(key, number * 2 + 1, number, 1)
            room = index.look(key)[1] >= 0
            assert index.insert(entry) == room
            if room:
                model[key] = entry
        elif not adds:
            assert index.remove(key) == (model.pop(key, None) is not None)
    for home in (254, 255, 0, 1, 2, 9):
        for number in range(10):
            assert index.find(crowded_key(home, number)) == model.get(crowded_key(home, number))
    assert {entry.key for _, entry, right in index.all() if right} == set(model)


def test_a_crowd_is_refused_and_not_lost() -> None:
    index = Index(small_memory())
    assert all(index.insert(Entry(crowded_key(7, number), 1, number, 1)) for number in range(PROBES))
    assert index.look(crowded_key(7, 99)) == (None, -1)
    assert not index.insert(Entry(crowded_key(7, 99), 1, 99, 1))
    assert index.remove(crowded_key(7, 0))
    assert index.insert(Entry(crowded_key(7, 99), 1, 99, 1))
    assert all(index.find(crowded_key(7, number)) for number in (*range(1, PROBES), 99))


def test_a_rebuilt_index_holds_what_it_was_given_and_nothing_older() -> None:
    memory = small_memory()
    index = Index(memory)
    index.insert(Entry(key_of(1), 1, 1, 1))
    new = [Entry(key_of(number), 3, number, 1) for number in range(2, 50)]
    assert index.rebuild(new) == []
    assert memory.worker_words[INDEX_SEQUENCE] == 2
    assert not index.rebuilding
    assert index.find(key_of(1)) is None
    assert all(index.find(entry.key) == entry for entry in new)


def test_the_check_word_shows_a_damaged_entry() -> None:
    memory = small_memory()
    index = Index(memory)
    index.insert(Entry(key_of(1), 1, 5, 1))
    [(place, _, right)] = index.all()
    assert right
    memory.entry_words[place * 8 + entries.GENERATION] ^= 1
    assert [right for _, _, right in index.all()] == [False]
