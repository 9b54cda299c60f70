"""The store of a reflector: frames in any repetition lead to the same objects."""

from hypothesis import given
from hypothesis import strategies as st

from kvberth.kube.kinds import FrameType, Seen
from kvberth.kube.objects import Entry, Key, Unreadable
from kvberth.kube.store import Store, Verb


def entry(name: str, version: int | str, uid: str = "u", value: str = "") -> Entry[str]:
    return Entry(Key("ns", name), uid, str(version), value)


def seen(type_: FrameType, item: Entry[str] | Unreadable) -> Seen[str]:
    return Seen(type_, item)


def told(changes: list) -> list[str]:
    return [f"{change.verb} {change.key.name}" for change in changes]


def test_the_same_frame_twice_is_told_once() -> None:
    store: Store[str] = Store()
    assert told(store.take(seen(FrameType.ADDED, entry("a", 5)))) == ["added a"]
    assert store.take(seen(FrameType.ADDED, entry("a", 5))) == []
    assert store.take(seen(FrameType.MODIFIED, entry("a", 4, value="old"))) == []
    assert store.entries[Key("ns", "a")].resource_version == "5"


def test_an_object_made_anew_under_its_name_is_an_end_and_a_beginning() -> None:
    store: Store[str] = Store()
    store.take(seen(FrameType.ADDED, entry("a", 5, uid="one")))
    changes = store.take(seen(FrameType.ADDED, entry("a", 9, uid="two")))
    assert told(changes) == ["deleted a", "added a"]
    assert changes[0].before is not None
    assert changes[0].before.uid == "one"
    assert store.take(seen(FrameType.DELETED, entry("a", 8, uid="one"))) == [], "the end of the first comes late"


def test_a_list_tells_only_what_differs() -> None:
    store: Store[str] = Store()
    store.replace([entry("same", 1), entry("changed", 2), entry("gone", 3), entry("again", 4, uid="one")])
    changes = store.replace([entry("same", 1), entry("changed", 7), entry("again", 8, uid="two"), entry("new", 9)])
    assert told(changes) == ["deleted gone", "modified changed", "deleted again", "added again", "added new"]


def test_a_list_counts_even_where_versions_went_back() -> None:
    store: Store[str] = Store()
    store.replace([entry("a", 100)])
    assert told(store.replace([entry("a", 7)])) == ["modified a"], "etcd was restored from a backup"


def test_versions_that_are_no_numbers_are_taken_in_the_streams_order() -> None:
    store: Store[str] = Store()
    store.take(seen(FrameType.ADDED, entry("a", "x9")))
    assert told(store.take(seen(FrameType.MODIFIED, entry("a", "x1")))) == ["modified a"]
    assert store.take(seen(FrameType.MODIFIED, entry("a", "x1"))) == []


def test_an_unreadable_object_is_neither_there_nor_absent() -> None:
    store: Store[str] = Store()
    store.take(seen(FrameType.ADDED, entry("a", 1, value="v")))
    bad = Unreadable(Key("ns", "a"), "u", "2", "spec: is no number")
    (change,) = store.take(seen(FrameType.MODIFIED, bad))
    assert (change.verb, change.now, change.before and change.before.value) == (Verb.UNREADABLE, None, "v")
    assert not store.entries
    assert store.unreadable == {Key("ns", "a"): bad}
    assert told(store.replace([bad])) == []
    assert told(store.replace([])) == ["deleted a"]
    assert not store.unreadable


FRAMES = st.lists(
    st.tuples(st.sampled_from(FrameType), st.sampled_from("ab"), st.sampled_from(["u1", "u2"])), max_size=12
)


@given(FRAMES, st.integers(0, 12))
def test_frames_told_again_from_any_point_change_nothing(frames: list, start: int) -> None:
    store: Store[str] = Store()
    history = [
        seen(type_, entry(name, version, f"{name}-{uid}")) for version, (type_, name, uid) in enumerate(frames, 1)
    ]
    for frame in history:
        store.take(frame)
    before = dict(store.entries)
    # A deleted object leaves no version behind, so repetition may show it again for a moment; at the end it is gone.
    for frame in history[start:]:
        store.take(frame)
    assert dict(store.entries) == before


@given(FRAMES, st.lists(st.sampled_from("abc"), unique=True))
def test_told_changes_alone_rebuild_the_objects(frames: list, listed: list[str]) -> None:
    store: Store[str] = Store()
    mirror: dict[Key, str] = {}
    changes = []
    for version, (type_, name, uid) in enumerate(frames, 1):
        changes += store.take(seen(type_, entry(name, version, f"{name}-{uid}")))
    changes += store.replace([entry(name, 50, f"{name}-u1") for name in listed])
    for change in changes:
        if change.verb is Verb.DELETED:
            assert mirror.pop(change.key) == change.before.uid
        else:
            assert (change.verb is Verb.ADDED) == (change.key not in mirror)
            mirror[change.key] = change.now.uid
    assert mirror == {key: kept.uid for key, kept in store.entries.items()}
