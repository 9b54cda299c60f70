"""Which names our images must have on a cluster."""

from tests.cluster import names
from tests.cluster.settings import REPOSITORY


def test_images_of_engines_and_caches_are_found_wherever_a_scenario_writes_them() -> None:
    change = {"merge": {"spec": {"template": {"spec": {"containers": [{"image": "vllm/vllm-openai:v1"}]}}}}}
    assert list(names.images({"apply": {"change": [change]}})) == [(names.ENGINE, "vllm/vllm-openai:v1")]
    assert list(names.images({"spec": {"cacheSpec": {"image": "aibrix/vineyardd:1"}}})) == [
        (names.CACHE, "aibrix/vineyardd:1")
    ]
    assert list(names.images({"metadata": {"annotations": {"image": "next:1"}}})) == []
    assert list(names.images({"cacheSpec": {"image": ""}})) == []


def test_a_name_is_spelled_as_runtimes_do() -> None:
    assert names.whole("nginx:1.27") == "docker.io/library/nginx:1.27"
    assert names.whole("aibrix/vineyardd:1") == "docker.io/aibrix/vineyardd:1"
    assert names.whole("localhost/kvberth:1") == "localhost/kvberth:1"
    assert names.whole("quay.io/x/y:1") == "quay.io/x/y:1"


def test_the_first_reports_images_are_among_them() -> None:
    found = names.of([REPOSITORY / "tests" / "manifests"])
    registry = "aibrix-container-registry-cn-beijing.cr.volces.com/aibrix"
    assert f"{registry}/vllm-openai:v0.6.1-edb07092-20250118" in found[names.ENGINE]
    assert f"{registry}/runtime:v0.2.0" in found[names.ENGINE]
    assert f"{registry}/vineyardd:20241120" in found[names.CACHE]
