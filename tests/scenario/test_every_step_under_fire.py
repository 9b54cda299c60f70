"""Each service is killed, or frozen for 3 s, on all nodes at each step of a move: the move completes, and nothing else
does. No engine and no cache dies for it, neither the movers nor the bystanders.
"""

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from kvberth.cli.overview import Pod
from kvberth_schemas.events import ProcessRole
from kvberth_schemas.requests import ApplyRequest
from kvberth_schemas.subjects import Verb
from scenario import moves
from scenario.world import MANIFEST, WORKLOAD, World, world

NODES = ("l20-a", "l20-b", "l20-c")
BYSTANDER = "bystander"
FROZEN_FOR_S = 3.0
BACK_WITHIN_S = 20.0
pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]

SERVICES = {
    "scheduler": ["scheduler"],
    "placement": ["placement"],
    "runners": [f"runner-{node}" for node in NODES],
    "agents": [f"node_agent-{node}" for node in NODES],
}
EVERY_SERVICE = ("nats", *(name for names in SERVICES.values() for name in names))


@pytest.mark.parametrize("services", SERVICES)
async def test_moves_complete_and_nothing_else_ends(state: Path, services: str) -> None:
    async with world(state, NODES) as made:
        for node in ("l20-b", "l20-c"):
            await made.cordon(node)
        engine = await made.start_engine()
        await start_bystander(made)
        way = ("l20-a", "l20-b")
        for step, how in itertools.product(moves.STEPS, ("killed", "frozen")):
            print(f"{services} {how} after the {step}:", end=" ")
            engine = await move_under_fire(made, engine, way, step, Fire(made, SERVICES[services], how))
            way = (way[1], way[0])


class Fire:
    """What is done to some services while others go on."""

    def __init__(self, made: World, services: Sequence[str], how: str) -> None:
        self._made = made
        self._services = services
        self._how = how
        self._before = {name: made.service_pid(name) for name in EVERY_SERVICE}

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Kill the services at once, or freeze them at once and thaw them 3 s later, whatever happens meanwhile."""
        self._signal(signal.SIGKILL if self._how == "killed" else signal.SIGSTOP)
        async with asyncio.TaskGroup() as group:
            if self._how == "frozen":
                group.create_task(self._thaw())
            yield

    async def check(self) -> None:
        """Assert that exactly what was killed has a new life."""
        expected = set(self._services) if self._how == "killed" else set()
        await self._made.until(lambda: self._changed() >= expected, "the killed are there again", BACK_WITHIN_S)
        assert self._changed() == expected

    async def _thaw(self) -> None:
        await asyncio.sleep(FROZEN_FOR_S)  # the story itself, not a wait for something
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for name in self._services:
            self._made.signal(name, number)

    def _changed(self) -> set[str]:
        return {name for name, pid in self._before.items() if self._made.service_pid(name) not in {None, pid}}


async def move_under_fire(made: World, engine: Pod, way: tuple[str, str], step: str, fire: Fire) -> Pod:
    """Move the engine, open fire at a step, and assert what died and was born; give the new engine."""
    source, target = way
    lives = made.running_lives()
    await moves.close(made, source, target)
    condition = moves.STEPS[step]
    if condition is None:
        async with fire.opened():
            await moves.delete(made, engine)
    else:
        async with moves.seen(made, condition, target) as happened:
            await moves.delete(made, engine)
            await asyncio.wait_for(happened.wait(), 10.0)
        async with fire.opened():
            pass
    new = await moves.finish(made, engine, target)
    await fire.check()
    assert_only_the_movers_changed(made, lives, {f"{target}/{new.name}", f"{target}/{made.cache().name}"})
    return new


def assert_only_the_movers_changed(made: World, before: dict[str, tuple[int, str | None]], movers: set[str]) -> None:
    """Every process that was said to live had one life: the one before the move, or the one that the move gave it."""
    now = made.running_lives()
    for (node, _, name), said in made.lives.items():
        where = f"{node}/{name}"
        assert where in before or where in movers, f"{where} was started although nobody needed it"
        expected = now[where] if where in movers else before[where]
        assert said == {expected}, f"{where} had the lives {said} and should have had only {expected}"
    bystanders = {where: life for where, life in before.items() if where.startswith("l20-c/")}
    assert len(bystanders) == 2
    assert now == {**bystanders, **{where: now[where] for where in movers}}
    assert sorted(made.daemons()) == sorted(pid for pid, incarnation in now.values() if incarnation)


async def start_bystander(made: World) -> None:
    """Run a second engine with its cache, on a node that nothing else may use."""
    documents = list(yaml.safe_load_all(MANIFEST.read_text().replace(WORKLOAD, BYSTANDER)))
    for document in documents:
        if document["kind"] == "Deployment":
            document["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "l20-c"}
    await made.uncordon("l20-c")
    reply = await made.ask(Verb.APPLY, ApplyRequest(text=yaml.safe_dump_all(documents), source="bystander"))
    assert not reply.refused, reply

    def serves() -> bool:
        found = [one for role in ProcessRole for one in made.running(role).values() if one.node == "l20-c"]
        return len(found) == 2 and all(one.ready for one in found)

    await made.until(serves, "the bystander is served", BACK_WITHIN_S)
