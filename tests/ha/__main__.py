"""`make test-ha`: kvberth on a cluster of three nodes while its own processes are hit, upgraded and removed.

Each part is a story of its own, told in this order; KVBERTH_TEST_PARTS names some of them. What is missing is said and
skipped. Exit status: 0 when nothing went wrong.
"""

import asyncio
import math
import os
import sys
from collections.abc import AsyncIterator, Awaitable
from typing import Final

from tests.cluster.__main__ import bring_images, say
from tests.cluster.settings import Settings
from tests.ha import table, versions, writers
from tests.ha.audit import Audit
from tests.ha.install import BEFORE, NOW, Install, bring_earlier
from tests.ha.world import World, brought_up
from tests.ha.writers import Told

from kvberth.kube import KubeError
from kvberth.scenario.backend.kubernetes.api import Api, open_client

PARTS: Final = ("upgrade", "default", "ha", "writers", "keys", "uninstall")
FAILS: Final = (TimeoutError, RuntimeError, KubeError)
"""What ends one row or story, and no other."""


def main() -> int:
    """Do all of it."""
    settings = Settings.read()
    if settings is None:
        say("SKIPPED: make test-ha: KUBECONFIG names no cluster")
        return 0
    parts = os.environ.get("KVBERTH_TEST_PARTS", " ".join(PARTS)).split()
    if unknown := set(parts) - set(PARTS):
        sys.exit(f"KVBERTH_TEST_PARTS: there are no parts {', '.join(sorted(unknown))}, only {', '.join(PARTS)}")
    earlier = os.environ.get("KVBERTH_TEST_EARLIER", "")
    if settings.load:
        bring_images(settings)
    else:
        say("SKIPPED: building and loading images, since KVBERTH_TEST_LOAD names no command; they must be there")
    if "upgrade" in parts and not (earlier and settings.load):
        say("SKIPPED: upgrade: KVBERTH_TEST_EARLIER names no earlier revision to build, or images can't be loaded")
        parts.remove("upgrade")
    if "writers" in parts and settings.audit is None:
        say("SKIPPED: writers: KVBERTH_TEST_AUDIT names no audit log")
        parts.remove("writers")
    if "upgrade" in parts:
        bring_earlier(settings, earlier)
    failed = asyncio.run(_tell(settings, Install(settings), parts))
    say(f"{failed or 'nothing'} went wrong")
    return 1 if failed else 0


async def _tell(settings: Settings, install: Install, parts: list[str]) -> int:
    """Tell the parts; how many rows and stories went wrong."""
    first = "default" if {"upgrade", "default"} & set(parts) else "ha"
    failed = 0
    await asyncio.to_thread(install.apply, first, BEFORE if "upgrade" in parts else NOW)
    try:
        async with (
            open_client(settings.kubeconfig) as client,
            brought_up(Api(client), settings.kubeconfig) as world,
        ):
            await world.rested()
            async for one in _stories(world, install, settings, parts, first):
                say(str(one))
                failed += bool(one.wrong)
    finally:
        if left := await asyncio.to_thread(_away, install):
            say(f"the uninstall left behind: {left}")
            failed += 1
    return failed


def _away(install: Install) -> str:
    return install.remove() or install.purge()


async def _stories(
    world: World, install: Install, settings: Settings, parts: list[str], overlay: str
) -> AsyncIterator[table.Row | Told]:
    if "upgrade" in parts:
        yield await _story(world, "upgrade", versions.upgraded(world, install, overlay))
        await asyncio.to_thread(install.apply, overlay, NOW)
    if "default" in parts:
        async for row in _table(world, "default"):
            yield row
    if overlay == "default" and {"ha", "writers", "keys"} & set(parts):
        yield await versions.changed(world, install, "default", "ha")
    if "ha" in parts:
        async for row in _table(world, "ha"):
            yield row
    async for told in _writers(world, settings, parts):
        yield told
    if "keys" in parts:
        yield await versions.keyed(world, install)
    if "uninstall" in parts:
        yield await versions.removed(world, install)


async def _writers(world: World, settings: Settings, parts: list[str]) -> AsyncIterator[Told]:
    if "writers" not in parts or settings.audit is None:
        return
    audit = Audit(settings.audit)
    for story in (writers.stopped, writers.cut_off, writers.without_its_bus):
        await world.renew()
        yield await _story(world, story.__name__, story(world, audit))


async def _story(world: World, name: str, telling: Awaitable[Told]) -> Told:
    """Have a story told; one that fails is wrong, and ends no other, unless the cluster does not come to rest."""
    try:
        return await telling
    except FAILS as error:
        await world.renew()
        return Told(name, wrong=[f"{type(error).__name__}: {error}"])


async def _table(world: World, overlay: str) -> AsyncIterator[table.Row]:
    say(f"each process of overlay {overlay}\n{table.HEAD}")
    for process, fault in table.rows(overlay):
        try:
            yield await table.tell(world, process, fault)
        except FAILS as error:  # as with a story
            await world.renew()
            yield table.Row(process, fault, math.nan, None, [f"{type(error).__name__}: {error}"])


if __name__ == "__main__":
    sys.exit(main())
