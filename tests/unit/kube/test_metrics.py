"""What the Kubernetes edge shows of itself, as Prometheus scrapes it."""

from kvberth.kube.client import Client
from kvberth.kube.kinds import whole
from kvberth.kube.metrics import Metrics
from kvberth.kube.objects import KubeObject
from kvberth.kube.queue import WorkQueue
from kvberth.kube.reflector import Reflector
from kvberth.kube.resources import NODES, PODS
from kvberth.kube.settings import ClientSettings
from kvberth.service import Telemetry


async def test_ages_depths_and_counts_carry_their_label() -> None:
    telemetry = Telemetry("test")
    metrics = Metrics(telemetry)
    client = Client(ClientSettings())
    for resource in (PODS, NODES):
        Reflector(client, whole(resource, KubeObject), metrics=metrics)
    queue: WorkQueue[str] = WorkQueue("caches", metrics=metrics)
    queue.add("a")
    queue.add("b")
    metrics.count("watch_ends", resource="pods", reason="silent")
    text = telemetry.metrics_text().decode()
    telemetry.shutdown()
    assert 'kvberth_kube_event_age_seconds{resource="pods"} ' in text
    assert 'kvberth_kube_event_age_seconds{resource="nodes"} ' in text
    assert 'kvberth_kube_queue_depth{queue="caches"} 2.0' in text
    assert 'kvberth_kube_watch_ends_total{reason="silent",resource="pods"} 1.0' in text


def test_without_a_telemetry_nothing_is_counted_and_nothing_fails() -> None:
    Metrics().count("lists", resource="pods")
