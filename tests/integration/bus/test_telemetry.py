"""What the bus shows of itself, and which span its callbacks run in."""

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from integration.bus.rig import SOCKETS, declaring, lost, make_bus, plain, say, socket, sockets_writer
from kvberth.service import Telemetry
from support.waiting import until


@pytest.fixture
async def telemetry():
    made = Telemetry("placement", span_exporter=InMemorySpanExporter())
    yield made
    await asyncio.to_thread(made.shutdown)


async def test_what_happened_is_in_the_metrics(server, telemetry):
    async with (
        declaring(server.url, telemetry) as bus,
        bus.view(SOCKETS) as view,
        sockets_writer(bus) as writer,
        plain(server.url) as client,
    ):
        writer.put(socket(), lost())
        writer.ready()
        await until(lambda: writer.complete)
        await client.jetstream().publish(str(socket(node="b")), b"garbage")
        await until(lambda: view.unreadable)
        text = telemetry.metrics_text().decode()
        for line in (
            "kvberth_bus_connections_total 1.0",
            'kvberth_bus_unreadable_total{reason="envelope"} 1.0',
            "kvberth_bus_published_total 1.0",
            "kvberth_bus_connected 1.0",
        ):
            assert line in text
        assert float(_value(text, "kvberth_bus_view_age_seconds")) < 2
        await server.kill()
        await until(lambda: not bus.connected)
        assert "kvberth_bus_connected 0.0" in telemetry.metrics_text().decode()
        await until(lambda: "kvberth_bus_disconnects_total 1.0" in telemetry.metrics_text().decode())


async def test_the_age_of_a_silent_view_grows(server, telemetry):
    async with declaring(server.url, telemetry) as bus, bus.view(SOCKETS) as view:
        await until(lambda: view.complete)
        server.freeze()
        await until(
            lambda: float(_value(telemetry.metrics_text().decode(), "kvberth_bus_view_age_seconds")) > 1.5, within_s=4
        )
        assert view.age_s > 1.5
        server.resume()


async def test_callbacks_do_not_run_in_the_span_of_whoever_opened_the_view(server, telemetry):
    spans: list[trace.Span] = []
    async with declaring(server.url) as bus, plain(server.url) as client:
        with telemetry.handling("start", {}, "1"):
            async with bus.view(SOCKETS) as view:
                view.add_listener(lambda _: spans.append(trace.get_current_span()))
                await until(lambda: view.complete)
                await say(client, socket(), lost(), "1")
                await until(lambda: spans)
    assert not spans[0].get_span_context().is_valid


async def test_what_is_put_belongs_to_the_span_in_which_it_was_put(server, telemetry):
    async with (
        declaring(server.url) as reader,
        make_bus(server.url, telemetry=telemetry) as agent,
        reader.view(SOCKETS) as view,
        sockets_writer(agent) as writer,
    ):
        writer.ready()
        with telemetry.handling("probe", {}, "1") as span:
            writer.put(socket(), lost())
        writer.put(socket("other"), lost("other"))
        await until(lambda: len(view.rows) == 2)
        trace_id = trace.format_trace_id(span.get_span_context().trace_id)
        assert trace_id in (view.rows[socket()].envelope.traceparent or "")
        assert view.rows[socket("other")].envelope.traceparent is None


def _value(text: str, name: str) -> str:
    return next(line.split()[-1] for line in text.splitlines() if line.startswith(name))
