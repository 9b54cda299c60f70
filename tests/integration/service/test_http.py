"""Probes and metrics over a real socket, with clients good and bad."""

import asyncio
import json
import socket

import pytest

from kvberth.service import ServiceError, ServiceSettings, Telemetry, open_context
from kvberth.service import http as http_module
from kvberth.service.http import MAX_CONNECTIONS, MAX_HEADER_BYTES

pytestmark = pytest.mark.integration


@pytest.fixture
async def telemetry():
    made = Telemetry("sample")
    yield made
    made.shutdown()


@pytest.fixture
async def context(telemetry):
    async with open_context("sample", ServiceSettings(), telemetry) as opened:
        yield opened


async def connect(context):
    host, port = context.http_address.rsplit(":", 1)
    return await asyncio.open_connection(host, int(port))


async def send(context, request):
    """The whole answer to these bytes."""
    async with asyncio.timeout(10):
        reader, writer = await connect(context)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer


async def get(context, path, method="GET"):
    """Status, headers as text and body of one request."""
    answer = await send(context, f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode(), body


async def test_healthz_is_200_until_something_fatal_is_declared(context):
    assert (await get(context, "/healthz"))[0::2] == (200, b"ok\n")
    context.checks.fail("The bus client closed for good.")
    assert (await get(context, "/healthz"))[0::2] == (503, b"The bus client closed for good.\n")


async def test_readyz_names_each_check_with_its_sentence(context):
    bus = {"sentence": "Not connected to nats://127.0.0.1:4222 for 3 s."}
    context.checks.register("bus", lambda: bus["sentence"])
    status, head, body = await get(context, "/readyz")
    assert status == 503
    assert "application/json" in head
    assert json.loads(body) == {"ready": False, "checks": {"stopping": "ok", "bus": bus["sentence"]}}
    bus["sentence"] = None
    status, _, body = await get(context, "/readyz")
    assert (status, json.loads(body)) == (200, {"ready": True, "checks": {"stopping": "ok", "bus": "ok"}})


async def test_a_stopping_service_is_not_ready_and_still_healthy(context):
    context.stopping.set()
    assert (await get(context, "/readyz"))[0] == 503
    assert (await get(context, "/healthz"))[0] == 200


async def test_something_fatal_is_not_ready(context):
    context.checks.fail("The bus client closed for good.")
    status, _, body = await get(context, "/readyz")
    assert status == 503
    assert json.loads(body)["fatal"] == "The bus client closed for good."


async def test_metrics_hold_seconds_buckets_and_the_process(context):
    with context.telemetry.handling("pod.scheduled", None, "e1"):
        pass
    status, head, body = await get(context, "/metrics")
    assert status == 200
    assert "text/plain; version=0.0.4" in head
    assert b'messaging_process_duration_seconds_bucket{le="0.005",' in body
    assert b"process_resident_memory_bytes" in body
    assert b"process_cpu_seconds_total" in body
    assert b"process_open_fds" in body


async def test_the_lag_of_the_loop_is_scraped_in_seconds(context):
    async with asyncio.timeout(5):
        while b'kvberth_loop_lag_seconds_bucket{le="0.005"}' not in (await get(context, "/metrics"))[2]:
            pass


async def test_head_gets_the_headers_alone(context):
    status, head, body = await get(context, "/healthz", "HEAD")
    assert (status, body) == (200, b"")
    assert "Content-Length: 3" in head


async def test_a_query_is_ignored(context):
    assert (await get(context, "/healthz?verbose=1"))[0] == 200


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /healthz HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 405),
        (b"GET /nothing HTTP/1.1\r\n\r\n", 404),
        (b"nonsense\r\n\r\n", 400),
        (b"\x00\xff\r\n\r\n", 400),
        (b"GET /healthz HTTP/2\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 3 * MAX_HEADER_BYTES + b"\r\n\r\n", 431),
    ],
)
async def test_a_bad_request_gets_its_status_and_harms_nobody(context, request_, status):
    assert (await send(context, request_)).split()[1] == str(status).encode()
    assert (await get(context, "/healthz"))[0] == 200


async def test_a_path_that_breaks_answers_500_and_harms_nobody(context, monkeypatch):
    def broken():
        raise RuntimeError("disk on fire")

    monkeypatch.setattr(context.telemetry, "metrics_text", broken)
    assert (await get(context, "/metrics"))[0] == 500
    assert (await get(context, "/healthz"))[0] == 200


async def test_clients_that_dawdle_do_not_hold_the_server(context):
    slow = [await connect(context) for _ in range(3 * MAX_CONNECTIONS)]
    for _, writer in slow:
        writer.write(b"GET /healthz HTTP/1.1\r\n")
    async with asyncio.timeout(2):
        assert (await get(context, "/healthz"))[0] == 200
    ended = sum(reader.at_eof() or reader.exception() is not None for reader, _ in slow)
    assert ended >= 2 * MAX_CONNECTIONS
    for _, writer in slow:
        writer.transport.abort()


async def test_a_request_that_is_never_finished_is_ended(context, monkeypatch):
    monkeypatch.setattr(http_module, "REQUEST_TIMEOUT_S", 0.2)
    reader, writer = await connect(context)
    writer.write(b"GET /heal")
    async with asyncio.timeout(3):
        assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_a_client_that_goes_away_harms_nobody(context):
    for request in (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n"):
        _, writer = await connect(context)
        writer.write(request)
        writer.transport.abort()
    assert (await get(context, "/healthz"))[0] == 200


async def test_closing_ends_open_connections(telemetry):
    async with open_context("sample", ServiceSettings(), telemetry) as context:
        reader, writer = await connect(context)
        await get(context, "/healthz")
    async with asyncio.timeout(2):
        assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_a_taken_port_is_one_sentence_that_names_address_and_setting(telemetry):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServiceError, match=rf"127\.0\.0\.1:{port} is taken .* KVBERTH_HTTP_PORT"):
            async with open_context("sample", ServiceSettings(http_port=port), telemetry):
                pass


async def test_an_address_of_another_machine_is_one_sentence(telemetry):
    with pytest.raises(ServiceError, match="192\\.0\\.2\\.1:0 can't be bound"):
        async with open_context("sample", ServiceSettings(http_host="192.0.2.1"), telemetry):
            pass
