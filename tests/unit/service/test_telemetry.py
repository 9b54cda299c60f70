"""Traces that continue from one event to the next, and metrics in seconds."""

import asyncio
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import structlog
from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind, StatusCode

from kvberth.service import SECONDS_BUCKETS, Telemetry
from kvberth.service.run import TEARDOWN_S


def value_of(telemetry, prefix):
    (line,) = [line for line in telemetry.metrics_text().decode().splitlines() if line.startswith(prefix)]
    return float(line.rsplit(" ", 1)[1])


def test_two_events_linked_by_an_injected_header_share_one_trace(telemetry, spans):
    headers = {}
    with telemetry.handling("pod.scheduled", None, "e1"):
        telemetry.inject(headers)
    with telemetry.handling("want", headers, "e2"):
        pass
    first, second = spans.get_finished_spans()
    assert first.context.trace_id == second.context.trace_id
    assert second.parent.span_id == first.context.span_id
    assert (first.kind, second.kind) == (SpanKind.CONSUMER, SpanKind.CONSUMER)


def test_a_trace_passes_through_services_that_export_nothing(telemetry, spans):
    silent = Telemetry("silent")
    first, second = {}, {}
    with telemetry.handling("a", None, "e1"):
        telemetry.inject(first)
    with silent.handling("b", first, "e2") as span:
        assert not span.is_recording()
        silent.inject(second)
    with telemetry.handling("c", second, "e3"):
        pass
    silent.shutdown()
    begin, end = spans.get_finished_spans()
    assert begin.context.trace_id == end.context.trace_id
    assert first != second


def test_the_header_is_found_whatever_its_case(telemetry, spans):
    headers = {}
    with telemetry.handling("a", {}, "e1"):
        telemetry.inject(headers)
    with telemetry.handling("b", {"Traceparent": headers["traceparent"]}, "e2"):
        pass
    assert len({span.context.trace_id for span in spans.get_finished_spans()}) == 1


@pytest.mark.parametrize("headers", [None, {}, {"traceparent": "nonsense"}])
def test_an_event_without_a_sender_begins_a_trace_even_inside_another_span(telemetry, spans, headers):
    with telemetry.handling("outer", None, "e1"), telemetry.handling("inner", headers, "e2"):
        pass
    inner, outer = spans.get_finished_spans()
    assert inner.parent is None
    assert inner.context.trace_id != outer.context.trace_id


def test_outside_a_span_nothing_is_injected(telemetry):
    headers = {}
    telemetry.inject(headers)
    assert headers == {}


def test_logs_inside_a_handled_event_carry_its_id_and_trace(telemetry):
    with telemetry.handling("a", None, "e1") as span:
        bound = structlog.contextvars.get_contextvars()
        assert bound == {"cause": "e1", "trace_id": format(span.get_span_context().trace_id, "032x")}
    assert structlog.contextvars.get_contextvars() == {}


def test_a_failure_is_recorded_and_goes_on(telemetry, spans):
    with pytest.raises(LookupError), telemetry.handling("a", None, "e1", {"kvberth.node": "l20-a"}):
        raise LookupError("no such pod")
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "LookupError"
    assert span.attributes["kvberth.node"] == "l20-a"
    assert span.attributes["messaging.message.id"] == "e1"
    assert value_of(telemetry, 'messaging_process_duration_seconds_count{error_type="LookupError"') == 1


async def test_a_cancelled_handler_is_recorded_and_stays_cancelled(telemetry, spans):
    async def handle():
        with telemetry.handling("a", None, "e1"):
            await asyncio.Event().wait()

    task = asyncio.create_task(handle())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert spans.get_finished_spans()[0].attributes["error.type"] == "CancelledError"


async def test_tasks_that_handle_at_once_keep_their_own_cause(telemetry):
    async def handle(event_id):
        with telemetry.handling("a", None, event_id):
            await asyncio.sleep(0)
            return structlog.contextvars.get_contextvars()["cause"]

    assert await asyncio.gather(*map(handle, ["e1", "e2", "e3"])) == ["e1", "e2", "e3"]


def test_histograms_in_seconds_have_buckets_in_seconds(telemetry):
    telemetry.histogram("kvberth.plan.duration", "Time of a plan.").record(0.003)
    text = telemetry.metrics_text().decode()
    bounds = [line for line in text.splitlines() if line.startswith("kvberth_plan_duration_seconds_bucket")]
    assert len(bounds) == len(SECONDS_BUCKETS) + 1
    assert value_of(telemetry, 'kvberth_plan_duration_seconds_bucket{le="0.0025"}') == 0
    assert value_of(telemetry, 'kvberth_plan_duration_seconds_bucket{le="0.005"}') == 1


def test_other_units_bring_their_own_buckets(telemetry):
    telemetry.histogram("kvberth.plan.size", "Actions of a plan.", "", [1, 10]).record(4)
    assert value_of(telemetry, 'kvberth_plan_size_bucket{le="10.0"}') == 1


@pytest.mark.parametrize(("unit", "buckets"), [("s", [1.0]), ("By", None)])
def test_a_histogram_without_a_fitting_scale_is_refused(telemetry, unit, buckets):
    with pytest.raises(ValueError, match="exactly when"):
        telemetry.histogram("kvberth.x", "", unit, buckets)


def test_counters_and_gauges_are_scraped_by_their_prometheus_names(telemetry):
    telemetry.counter("kvberth.actions", "Actions taken.").add(2, {"kind": "add"})
    telemetry.gauge("kvberth.pods", "Pods in view.").set(7)
    telemetry.observe("kvberth.view.age", "Age of the view.", lambda: 1.5, "s")
    assert value_of(telemetry, 'kvberth_actions_total{kind="add"}') == 2
    assert value_of(telemetry, "kvberth_pods ") == 7
    assert value_of(telemetry, "kvberth_view_age_seconds ") == 1.5


def test_the_process_itself_is_measured(telemetry):
    assert value_of(telemetry, "process_resident_memory_bytes ") > 1e6
    assert value_of(telemetry, "process_open_fds ") > 0


def test_two_telemetries_share_nothing_and_no_global_is_set(telemetry):
    other = Telemetry("other")
    other.counter("kvberth.only.here", "").add(1)
    assert b"only_here" in other.metrics_text()
    assert b"only_here" not in telemetry.metrics_text()
    assert not hasattr(trace.get_tracer_provider(), "add_span_processor")
    assert not hasattr(metrics.get_meter_provider(), "force_flush")
    other.shutdown()


def test_spans_reach_a_collector_by_setting_only():
    received = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        exporting = Telemetry("sample", otlp_endpoint=f"http://127.0.0.1:{server.server_port}/")
        with exporting.handling("pod.scheduled", None, "e1"):
            pass
        exporting.shutdown()
        server.shutdown()
        thread.join()
    ((path, body),) = received
    assert path == "/v1/traces"
    assert b"pod.scheduled" in body


def test_a_collector_that_never_answers_holds_the_shutdown_for_seconds_only():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        exporting = Telemetry("sample", otlp_endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}")
        with exporting.handling("pod.scheduled", None, "e1"):
            pass
        began = time.monotonic()
        exporting.shutdown()
    assert time.monotonic() - began < TEARDOWN_S
