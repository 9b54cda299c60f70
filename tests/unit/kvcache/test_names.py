"""Names of children: what they are, which are too long, which two KVCaches both want."""

from typing import Any

from kvberth.kvcache import cache_set_name, children, etcd_service_name, name_complaints, rpc_service_name


def pools(*names: str) -> dict[str, Any]:
    return {"cacheSpec": {"image": "v:1"}, "pools": [{"name": name} for name in names]}


def test_children_have_the_names_that_engines_know() -> None:
    assert (rpc_service_name("a"), etcd_service_name("a")) == ("a-rpc", "a-etcd-service")
    assert (cache_set_name("a"), cache_set_name("a", "t4")) == ("a", "a-t4")


def test_a_kvcache_has_one_set_of_caches_per_pool(spec_of: Any) -> None:
    assert [(child.kind, child.name) for child in children(spec_of("a"))] == [
        ("DaemonSet", "a"),
        ("Service", "a-rpc"),
        ("Service", "a-etcd-service"),
    ]
    assert [child.name for child in children(spec_of("a", pools("x", "y")))][:2] == ["a-x", "a-y"]


def test_the_younger_of_two_that_want_one_name_is_told_and_both_are_named(spec_of: Any) -> None:
    found = name_complaints([spec_of("a-b"), spec_of("a", pools("b", "c"))])
    assert list(found) == ["a"]
    assert [item.sentence() for item in found["a"]] == [
        "spec.pools[0].name: makes the DaemonSet a-b, which is KVCache a-b's; rename a or a-b"
    ]
    assert list(name_complaints([spec_of("a", pools("b")), spec_of("a-b")])) == ["a-b"]


def test_names_that_only_look_alike_do_not_collide(spec_of: Any) -> None:
    assert name_complaints([spec_of("llama-kv"), spec_of("llama-kv-etcd"), spec_of("llama-kv-rpc")]) == {}


def test_a_pool_named_like_the_own_kvcache_does_not_collide_with_itself(spec_of: Any) -> None:
    assert name_complaints([spec_of("a", pools("a")), spec_of("b", pools("a"))]) == {}


def test_a_name_is_too_long_when_a_child_of_it_is(spec_of: Any) -> None:
    fits, over = "k" * 50, "k" * 51  # "-etcd-service" has 13
    assert name_complaints([spec_of(fits)]) == {}
    found = name_complaints([spec_of(over)])[over]
    assert [item.field for item in found] == ["metadata.name"]
    assert found[0].sentence().endswith("of 64 characters; 63 are allowed; shorten the name by 1")


def test_a_pool_can_make_a_name_too_long(spec_of: Any) -> None:
    name = "k" * 40
    found = name_complaints([spec_of(name, pools("p", "q" * 23))])[name]
    assert [item.field for item in found] == ["spec.pools[1].name"]
