"""Traces and metrics of one process, kept in objects of its own.

Metrics are pulled by Prometheus from a registry that belongs to this object; spans leave by OTLP only where an
endpoint is set. No process-wide provider is touched, so a test may make as many as it likes. A span per handled event
continues the trace of the event's sender: one move of an engine is one trace. The bus stays unknown here: headers are
plain mappings.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

from opentelemetry.context import Context
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Observation
from opentelemetry.metrics import _Gauge as Gauge
from opentelemetry.sdk.metrics import Histogram as SdkHistogram
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from kvberth.service.logs import bound_cause
from kvberth.service.settings import ServiceSettings

SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds for every histogram in seconds: OpenTelemetry's own are meant for milliseconds."""

_EXPORT_TIMEOUT_S = 1.5  # shutdown() waits for the request that is under way and for one more
_EXPORT_QUEUE = 1024  # spans that wait for the collector; one request takes them all, which bounds shutdown()


class Telemetry:
    """The tracer, the meter and the Prometheus registry of one process."""

    def __init__(
        self,
        service: str,
        *,
        instance: str = "",
        node: str | None = None,
        otlp_endpoint: str | None = None,
        span_exporter: SpanExporter | None = None,
    ) -> None:
        """`span_exporter` gets every span at once and is meant for tests; `otlp_endpoint` is a collector's base URL."""
        names = {"service.namespace": "kvberth", "service.name": service, "service.instance.id": instance}
        resource = Resource.create(names | ({"k8s.node.name": node} if node else {}))
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._metrics = MeterProvider(
            metric_readers=[PrometheusMetricReader(registry=self.registry, scope_info_enabled=False)],
            resource=resource,
            shutdown_on_exit=False,
            views=[
                View(
                    instrument_type=SdkHistogram,
                    instrument_unit="s",
                    aggregation=ExplicitBucketHistogramAggregation(SECONDS_BUCKETS),
                )
            ],
        )
        processors = _span_processors(otlp_endpoint, span_exporter)
        # Unsampled spans still have ids, so traces and log lines connect, at a fraction of the cost.
        sampler = ALWAYS_ON if processors else ALWAYS_OFF
        self._traces = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
        for processor in processors:
            self._traces.add_span_processor(processor)
        self._tracer = self._traces.get_tracer("kvberth")
        self._meter = self._metrics.get_meter("kvberth")
        self._propagator = TraceContextTextMapPropagator()
        self._process_duration = self.histogram("messaging.process.duration", "Time to handle one event.")

    @classmethod
    def of(cls, service: str, settings: ServiceSettings) -> Self:
        """The telemetry that the settings ask for."""
        return cls(service, instance=settings.instance, node=settings.node, otlp_endpoint=settings.otlp_endpoint)

    @contextmanager
    def handling(
        self,
        name: str,
        headers: Mapping[str, str] | None,
        cause_id: str,
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> Iterator[Span]:
        """One consumer span around the handling of one event, as a child of the span that its headers name.

        `name` also labels the duration metric, so it must come from a small set: never a node's or a pod's name.
        Whatever the block raises is recorded and goes on.
        """
        labels: dict[str, AttributeValue] = {"messaging.system": "nats", "messaging.operation.name": name}
        span_attributes = {
            **labels,
            "messaging.operation.type": "process",
            "messaging.message.id": cause_id,
            **(attributes or {}),
        }
        start = time.perf_counter()
        with self._tracer.start_as_current_span(
            name, context=self._parent(headers), kind=SpanKind.CONSUMER, attributes=span_attributes
        ) as span:
            try:
                with bound_cause(cause_id, format_trace_id(span.get_span_context().trace_id)):
                    yield span
            except BaseException as error:
                labels["error.type"] = type(error).__qualname__
                span.set_attribute("error.type", type(error).__qualname__)
                raise
            finally:
                self._process_duration.record(time.perf_counter() - start, labels)

    def inject(self, headers: dict[str, str]) -> None:
        """Write the current span into `headers` as `traceparent`; outside a span they stay as they are."""
        self._propagator.inject(headers)

    def _parent(self, headers: Mapping[str, str] | None) -> Context:
        # From an empty context: a callback inherits the span of whoever subscribed. Names in lower case: the propagator
        # compares exactly, and other senders may write Traceparent.
        carrier = {name.lower(): value for name, value in (headers or {}).items()}
        return self._propagator.extract(carrier, context=Context())

    def counter(self, name: str, description: str, unit: str = "") -> Counter:
        """A sum that only grows. Names are dotted; `kvberth.actions` is scraped as `kvberth_actions_total`."""
        return self._meter.create_counter(name, unit, description)

    def histogram(
        self, name: str, description: str, unit: str = "s", buckets: Sequence[float] | None = None
    ) -> Histogram:
        """A distribution. Seconds use `SECONDS_BUCKETS`, so that all can be compared; other units bring their own."""
        if (unit == "s") == (buckets is not None):
            raise ValueError(f"histogram {name}: give buckets exactly when the unit is not s, which has its own scale")
        bounds = None if buckets is None else [float(bound) for bound in buckets]  # le="10.0", as the others write it
        return self._meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)

    def gauge(self, name: str, description: str, unit: str = "") -> Gauge:
        """A value that is set."""
        return self._meter.create_gauge(name, unit, description)

    def observe(self, name: str, description: str, read: Callable[[], float], unit: str = "") -> None:
        """A gauge that is read at each scrape, on the loop: `read` must be quick."""

        def callback(_options: CallbackOptions) -> Iterable[Observation]:
            return [Observation(read())]

        self._meter.create_observable_gauge(name, [callback], unit, description)

    def observe_each(
        self, name: str, description: str, label: str, read: Callable[[], Mapping[str, float]], unit: str = ""
    ) -> None:
        """The same with one label: `read` gives a value for each of its values, which come from a small set."""

        def callback(_options: CallbackOptions) -> Iterable[Observation]:
            return [Observation(value, {label: key}) for key, value in read().items()]

        self._meter.create_observable_gauge(name, [callback], unit, description)

    def metrics_text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def shutdown(self) -> None:
        """Send the spans that wait and stop. Blocks for a few seconds at most, so call it outside the loop."""
        self._traces.shutdown()
        self._metrics.shutdown()


def _span_processors(otlp_endpoint: str | None, span_exporter: SpanExporter | None) -> list[SpanProcessor]:
    processors: list[SpanProcessor] = []
    if span_exporter is not None:
        processors.append(SimpleSpanProcessor(span_exporter))
    if otlp_endpoint is not None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # 20 MB that few need

        url = otlp_endpoint.rstrip("/") + "/v1/traces"
        exporter = OTLPSpanExporter(endpoint=url, timeout=_EXPORT_TIMEOUT_S)
        processors.append(
            BatchSpanProcessor(exporter, max_queue_size=_EXPORT_QUEUE, max_export_batch_size=_EXPORT_QUEUE)
        )
    return processors
