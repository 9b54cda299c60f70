"""The witness of a node: a small server in a pod of its own that says what the node's kernel and sockets say.

It knows nothing of the product but the register request of Vineyard's protocol, decides nothing, and sends the signals
and changes the files that a scenario asks for. Who asks must know its token, and comes through the API server's proxy.

Run as ``python -m kvberth.scenario.backend.kubernetes.witness``, settings from WITNESS_* in the environment.
"""

import asyncio
import hmac
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from kvberth.scenario.backend import probes
from kvberth.scenario.backend.faults import ServerProxy
from kvberth.scenario.backend.kubernetes import processes
from kvberth.scenario.backend.kubernetes.hands import Hands
from kvberth.scenario.backend.protocol import ScenarioError

PORT: Final = 8099
ONLOOKERS_PORT: Final = 4222
"""Leads to NATS, whatever its node's kubelet does, and nothing ever stands in between."""
SERVICES_PORT: Final = 4223
"""Leads to NATS, too; it fails where a scenario lets the bus fail."""
API_PORT: Final = 4224
"""Leads to the API server; it fails where a scenario lets that one fail."""
ROOT: Final = "/var/run/vineyard-kubernetes"
NATS: Final = "nats://nats:4222"
"""The Service of the witness's own namespace."""
TOKEN_VARIABLE: Final = "WITNESS_TOKEN"  # noqa: S105 (the variable's name, no secret)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Servers:
    """URLs of what kvberth's services talk to."""

    nats: str
    api: str


class Witness:
    """What one node's witness answers."""

    def __init__(self, token: str, root: Path, proc: Path = processes.PROC, servers: Servers | None = None) -> None:
        """`servers`: URLs that its ways to NATS and the API server lead to; None: it has none."""
        self._token, self._root, self._proc, self._servers = token, root, proc, servers
        self._hands = Hands(root)

    def application(self) -> web.Application:
        """Give the server."""
        application = web.Application()
        application.router.add_post("/look", self._look)
        application.router.add_post("/signal", self._signal)
        application.router.add_post("/do/{verb:files|peer|fault|fill|free}", self._do)
        application.router.add_post("/rest", self._rest)
        application.cleanup_ctx.append(self._lead)
        application.on_cleanup.append(self._end)
        return application

    async def _lead(self, _: web.Application) -> AsyncIterator[None]:
        """Lead to the servers as long as this serves."""
        if self._servers is None:
            yield
            return
        async with (
            ServerProxy("", ONLOOKERS_PORT, self._servers.nats),
            ServerProxy("", SERVICES_PORT, self._servers.nats) as bus,
            ServerProxy("", API_PORT, self._servers.api) as api,
        ):
            self._hands.ways = {"bus": bus, "api": api}
            yield

    async def _look(self, request: web.Request) -> web.Response:
        asked = await self._asked(request)
        answers = await asyncio.gather(*(self._ask(where) for where in asked.get("sockets", ())))
        paths = [asdict(probes.look_at(self._root / path)) for path in asked.get("paths", ())]
        found = await asyncio.to_thread(self._processes, asked.get("containers", ()))
        return web.json_response({"sockets": answers, "paths": paths, "processes": found})

    async def _signal(self, request: web.Request) -> web.Response:
        asked = await self._asked(request)
        pid = int(asked["pid"])
        if processes.start_of(pid, self._proc) != asked["started"]:
            return web.json_response({"sent": False})
        try:
            os.kill(pid, signal.Signals[f"SIG{asked['signal']}"])
        except ProcessLookupError:
            return web.json_response({"sent": False})
        return web.json_response({"sent": True})

    async def _do(self, request: web.Request) -> web.Response:
        asked = await self._asked(request)
        try:
            return web.json_response({"done": await self._hands.do(request.match_info["verb"], asked)})
        except ScenarioError as error:
            return web.json_response({"failed": str(error)})

    async def _rest(self, request: web.Request) -> web.Response:
        await self._asked(request)
        await self._hands.rest()
        return web.json_response({})

    async def _end(self, _: web.Application) -> None:
        await self._hands.rest()

    async def _asked(self, request: web.Request) -> Json:
        if not hmac.compare_digest(request.query.get("token", ""), self._token):
            raise web.HTTPForbidden(text="this witness answers to the scenario that started it, by its token")
        asked: Json = await request.json()
        return asked

    async def _ask(self, where: Mapping[str, Any]) -> Json:
        """Ask a socket below the node's root, or, with a pid, where that process finds it."""
        try:
            root = self._root if where.get("pid") is None else self._proc / str(where["pid"]) / "root"
            path = processes.within(root, where["path"])
        except OSError as error:
            return {"state": "other", "detail": str(error)}
        answer = await probes.ask(path)
        if answer.state == "silent":  # or this process itself got no time: one that hangs is silent again
            answer = await probes.ask(path)
        return asdict(answer)

    def _processes(self, ids: Sequence[str]) -> list[Json]:
        return [one.as_json() for one in processes.in_containers(frozenset(ids), self._proc)] if ids else []


def main() -> None:
    """Serve until a signal comes."""
    api = "https://{KUBERNETES_SERVICE_HOST}:{KUBERNETES_SERVICE_PORT}".format_map(os.environ)
    root = Path(os.environ.get("WITNESS_ROOT", ROOT))
    witness = Witness(os.environ[TOKEN_VARIABLE], root, servers=Servers(NATS, api))
    web.run_app(witness.application(), port=PORT, print=None, access_log=None)


if __name__ == "__main__":
    main()
