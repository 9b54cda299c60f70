"""The reflector behind a proxy that does what networks do: silence, resets, cut frames, 429, a proxy's page."""

import dataclasses
import time

from kube.rig import CONFIG, QUICK, delete, merge, put_config, watching
from kvberth.kube.client import Client
from kvberth.kube.resources import CONFIG_MAPS
from support.api_server import ControlPlane
from support.tcp_proxy import TcpProxy, http_answer
from support.waiting import seconds_until, until

LISTS = r"/configmaps\?(?!.*watch=true)"
WATCHES = r"/configmaps\?.*watch=true"
PAGE = http_answer("502 Bad Gateway", b"<html>502</html>", content_type="text/html")


async def test_a_reset_stream_goes_on_where_it_was(
    client: Client, proxied: Client, proxy: TcpProxy, namespace: str
) -> None:
    async with watching(proxied, CONFIG, namespace) as watcher:
        for number in range(5):
            await put_config(client, namespace, f"c{number}")
            await until(lambda number=number: f"c{number}" in watcher.names)
            proxy.reset()
        await delete(client, CONFIG_MAPS, namespace, "c0")
        await until(lambda: watcher.told[-1:] == ["deleted c0"])
        told = [line for line in watcher.told if "kube-root" not in line]
        assert told == [*(f"added c{number}" for number in range(5)), "deleted c0"], "each change once"
    assert proxy.count(LISTS) == 1


async def test_a_stream_that_ends_as_asked_is_opened_again_without_hurry(
    proxied: Client, proxy: TcpProxy, namespace: str
) -> None:
    settings = dataclasses.replace(QUICK, watch_least_s=1, watch_most_s=1, floor_s=2.0)
    began = time.monotonic()
    async with watching(proxied, CONFIG, namespace, settings) as watcher:
        await until(lambda: proxy.count(WATCHES) >= 3)
        assert time.monotonic() - began >= 4.0
        assert watcher.reflector.live
    assert proxy.count(LISTS) == 1


async def test_a_silent_stream_is_given_up_and_nothing_is_lost(
    client: Client, proxied: Client, proxy: TcpProxy, namespace: str
) -> None:
    async with watching(proxied, CONFIG, namespace, dataclasses.replace(QUICK, silence_s=1.0, page_s=1.0)) as watcher:
        proxy.silence()
        await put_config(client, namespace, "unheard")
        await until(lambda: not watcher.reflector.live)
        await until(lambda: "was not answered within 1 s" in watcher.reflector.trouble)
        assert watcher.reflector.age_s >= 1.0
        proxy.heal()
        await until(lambda: "unheard" in watcher.names)
        assert watcher.told.count("added unheard") == 1


async def test_a_stream_of_a_kind_that_nobody_changes_is_opened_anew_and_no_trouble(
    client: Client, proxied: Client, proxy: TcpProxy, namespace: str
) -> None:
    settings = dataclasses.replace(QUICK, silence_s=0.5)
    async with watching(proxied, CONFIG, namespace, settings) as watcher:
        await until(lambda: proxy.count(WATCHES) >= 4 or watcher.reflector.trouble)
        assert watcher.reflector.trouble == ""
        await until(lambda: watcher.reflector.live)
        await put_config(client, namespace, "first")
        assert await seconds_until(lambda: "first" in watcher.names) < 1.0
    assert proxy.count(LISTS) == 1


async def test_a_proxys_page_is_no_event_and_is_asked_for_with_a_back_off(
    client: Client, proxied: Client, proxy: TcpProxy, namespace: str
) -> None:
    async with watching(proxied, CONFIG, namespace) as watcher:
        proxy.answer(WATCHES, PAGE, times=4)
        watches = proxy.count(WATCHES)
        began = time.monotonic()
        proxy.reset()
        await until(lambda: "502" in watcher.reflector.trouble)
        assert not watcher.reflector.live
        await put_config(client, namespace, "after")
        await until(lambda: "after" in watcher.names)
        assert proxy.count(WATCHES) == watches + 5
        assert time.monotonic() - began >= 0.5, "five waits of 0.1 s at least"


async def test_a_page_of_a_proxy_in_place_of_a_list_is_no_list(
    proxied: Client, proxy: TcpProxy, namespace: str
) -> None:
    proxy.answer(LISTS, http_answer("200 OK", b"<html>log in</html>", content_type="text/html"), times=2)
    async with watching(proxied, CONFIG, namespace) as watcher:
        assert watcher.reflector.synced
    assert proxy.count(LISTS) == 3


async def test_too_many_requests_are_waited_for_as_long_as_the_server_asks(
    client: Client, proxied: Client, proxy: TcpProxy, namespace: str
) -> None:
    async with watching(proxied, CONFIG, namespace) as watcher:
        proxy.answer(WATCHES, http_answer("429 Too Many Requests", b"slow down", "Retry-After: 2"))
        proxy.reset()
        await until(lambda: "429" in watcher.reflector.trouble)
        refused = time.monotonic()
        await until(lambda: watcher.reflector.live)
        assert time.monotonic() - refused >= 1.9


async def test_a_frame_that_was_cut_is_read_again(
    client: Client, proxied: Client, proxy: TcpProxy, namespace: str
) -> None:
    async with watching(proxied, CONFIG, namespace) as watcher:
        proxy.cut_after = 40
        await put_config(client, namespace, "cut", text="x" * 5000)
        await until(lambda: proxy.cut_after == 0)
        proxy.cut_after = None
        await until(lambda: "cut" in watcher.names)
        await merge(client, CONFIG_MAPS, namespace, "cut", {"data": {"text": "y"}})
        await until(lambda: watcher.told[-2:] == ["added cut", "modified cut"])


async def test_an_api_server_that_dies_and_comes_back_is_followed_again(
    plane: ControlPlane, client: Client, namespace: str
) -> None:
    async with watching(client, CONFIG, namespace) as watcher:
        await put_config(client, namespace, "before")
        await until(lambda: "before" in watcher.names)
        plane.end("kube-apiserver")
        await until(lambda: not watcher.reflector.live)
        assert "before" in watcher.names, "a dead server deletes nothing"
        plane.start_api_server()
        await until(lambda: watcher.reflector.live)
        await put_config(client, namespace, "after")
        await until(lambda: "after" in watcher.names)
        assert watcher.told.count("added before") == 1
