"""Follow one engine move by its causes: pod bound → wants → processes started → socket answered, with times.

Needs only nats-py (`pip install nats-py`). Start it, then move an engine (`kvberth node drain l20-a`):

    python follow_a_move.py --nats nats://127.0.0.1:4222 --within 60

Exit code: 0 the socket answered, 1 no engine was bound, its cache did not answer in time, or NATS did not.
"""

import argparse
import asyncio
import json
import os
import sys
from dataclasses import dataclass
from datetime import datetime

import nats
from nats.aio.msg import Msg
from nats.js.api import DeliverPolicy

MAX_MESSAGES = 10_000
STREAMS = {"KVBERTH_EVENTS": "kvberth.evt.v1.>", "KVBERTH_WANTS": "kvberth.want.v1.>"}


@dataclass
class Said:
    """One message: its envelope, and the body's fields."""

    id: str
    type: str
    source: str
    time: datetime
    cause: str | None
    body: dict

    @classmethod
    def of(cls, message: Msg) -> "Said":
        """Read the CloudEvents headers and the JSON body."""
        headers = message.headers
        time = datetime.fromisoformat(headers["ce-time"])
        cause = headers.get("kvberth-cause")
        return cls(headers["ce-id"], headers["ce-type"], headers["ce-source"], time, cause, json.loads(message.data))

    @property
    def binds_an_engine(self) -> bool:
        """Whether an engine's pod was bound to a node just now; what is said of it again, at its gate, has a cause."""
        scheduled = self.type == "kvberth.pod.scheduled.v1" and self.cause is None
        return scheduled and self.body["role"] == "engine" and not self.body["deleting"]

    def text(self) -> str:
        """Say it in a line."""
        body, kind = self.body, self.type.removeprefix("kvberth.").removesuffix(".v1")
        name = body.get("pod_name") or body.get("name") or body.get("kvcache") or body.get("cache")
        more = [body.get("node") or body.get("to"), body.get("state") or body.get("reason"), body.get("incarnation")]
        if kind == "process.started":
            state = "at its gate" if body["at_gate"] else "answering" if body["ready"] else ""
            more += [f"pid {body['pid']}", state]
        return f"{kind:17} {name} {' '.join(part for part in more if part)}"


def because_of(root: Said, known: dict[str, Said]) -> list[Said]:
    """Everything that names `root` as its cause, directly or over others, in order of time.

    A message may arrive before its cause (there are two streams), so the whole chain is looked at each time. One that
    was made in the same moment as `root` stands behind it.
    """

    def leads_to_root(said: Said) -> bool:
        passed = set()
        while said.id != root.id:
            passed.add(said.id)
            if said.cause not in known or said.cause in passed:
                return False
            said = known[said.cause]
        return True

    return sorted(filter(leads_to_root, known.values()), key=lambda said: (said.time, said.id != root.id))


async def follow(messages: "asyncio.Queue[Msg]", known: dict[str, Said]) -> list[Said]:
    """Read until the socket beside the next engine has answered; give the chain, as far as it is known by then."""
    root = None
    while len(known) < MAX_MESSAGES:
        said = Said.of(await messages.get())
        known[said.id] = said
        if root is None and said.binds_an_engine:
            root = said
            print(f"{said.body['name']} was bound to {said.body['node']}", flush=True)
        if root is not None:
            chain = because_of(root, known)
            if any(said.type == "kvberth.socket.ready.v1" for said in chain):
                return chain
    raise RuntimeError(f"{MAX_MESSAGES} messages without an end of the move")


async def run(url: str, within_s: float) -> int:
    """Listen to both streams from now on, and print the first move."""
    messages: asyncio.Queue[Msg] = asyncio.Queue(MAX_MESSAGES)
    known: dict[str, Said] = {}
    # A try or two, then it fails: by itself nats-py would try for ever.
    connection = await nats.connect(url, error_cb=complain, max_reconnect_attempts=1, reconnect_time_wait=0.1)
    try:
        for stream, subjects in STREAMS.items():
            await connection.jetstream().subscribe(
                subjects, stream=stream, cb=messages.put, ordered_consumer=True, deliver_policy=DeliverPolicy.NEW
            )
        print(f"listening on {url}; now move an engine, within {within_s:g} s", flush=True)
        async with asyncio.timeout(within_s):
            chain = await follow(messages, known)
    except TimeoutError:
        bound = [said.body["name"] for said in known.values() if said.binds_an_engine]
        what = f"no socket answered because of {', '.join(bound)}" if bound else "no engine was bound to a node"
        print(f"{what} within {within_s:g} s", file=sys.stderr)
        return 1
    finally:
        await connection.close()
    for said in chain:
        after_ms = (said.time - chain[0].time).total_seconds() * 1000
        print(f"{after_ms:8.1f} ms  {said.source.split('/')[2]:11} {said.text()}")
    return 0


async def complain(error: Exception) -> None:
    """Say what went wrong on the connection."""
    print(error or type(error).__name__, file=sys.stderr)


def main() -> int:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description="Follow the next engine move by its causes.")
    parser.add_argument("--nats", default=os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), help="NATS server")
    parser.add_argument("--within", type=float, default=60.0, metavar="SECONDS", help="how long to wait")
    options = parser.parse_args()
    try:
        return asyncio.run(run(options.nats, options.within))
    except (OSError, nats.errors.Error) as error:
        print(f"{options.nats}: {error or type(error).__name__}; is kvberth running there?", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
