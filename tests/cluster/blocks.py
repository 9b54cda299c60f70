"""Who pays for blocks on a real cluster, and what is not killed for them: `python -m tests.cluster.blocks`.

A cache pod of 2 GiB, an engine and an agent of 256 MiB each, 1.5 GiB of blocks. Then vineyardd is killed while the
engine maps the store, and the cache's pod is deleted twice: under an engine that runs, and under one that is stopped.
Works where KUBECONFIG's cluster has kvberth and the images of the stories; `make test-cluster` does so.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tests.cluster.settings import REPOSITORY, Settings

MIB = 1 << 20
BLOCKS = 24576  # of 64 KiB: 1.5 GiB
LEAST_CACHE, MOST_OTHER = 1434 * MIB, 200 * MIB
LIMIT = "256Mi"
MANIFEST = REPOSITORY / "tests" / "scenarios" / "manifests" / "blocks.yaml"
ALL = f"loaded {BLOCKS} of {BLOCKS} blocks, 0 with other bytes"
_WITHIN_S = 180.0
_EACH = "for p in /proc/[0-9]*; do grep -qs {word} $p/cmdline && kill -{signal} ${{p#/proc/}}; done; true"
_USAGE = "cat /sys/fs/cgroup/memory/memory.usage_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.current"

Json = dict[str, Any]
T = TypeVar("T")


class Failed(Exception):  # noqa: N818 -- what it says is the whole sentence
    """Something is not as it should be."""


class Case:
    """The pods of one run."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def kubectl(self, *words: str, text: str | None = None) -> str:
        """Raises Failed."""
        command = ["kubectl", "--kubeconfig", str(self._settings.kubeconfig), *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise Failed(f"kubectl {' '.join(words[:5])} … ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def pods(self, label: str, namespace: str = "default") -> list[Json]:
        """Those that are not about to go."""
        found = json.loads(self.kubectl("-n", namespace, "get", "pods", "-l", label, "-o", "json"))["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def cache(self) -> Json | None:
        """The cache's pod, once all of it runs."""
        return next((pod for pod in self.pods("kvberth.dev/kvcache=blocks-kv") if _runs(pod)), None)

    def engine(self) -> Json | None:
        return next((pod for pod in self.pods("model.aibrix.ai/name=blocks") if _runs(pod)), None)

    def agent(self) -> Json:
        return self.pods("app.kubernetes.io/name=kvberth-node", "kvberth")[0]

    def log(self, pod: Json, container: str, since: str | None = None) -> str:
        """What a container wrote, since a moment."""
        where = ("-n", pod["metadata"]["namespace"], "logs", _name(pod), "-c", container)
        return self.kubectl(*where, *(("--since-time", since) if since else ()))

    def run(self, pod: Json, container: str, script: str) -> str:
        where = ("-n", pod["metadata"]["namespace"], "exec", _name(pod), "-c", container)
        return self.kubectl(*where, "--", "sh", "-c", script)

    def signal(self, pod: Json, container: str, word: str, number: str) -> None:
        """Signals the processes of a container with a word in their command line."""
        self.run(pod, container, _EACH.format(word=f"[{word[0]}]{word[1:]}", signal=number))

    def usage(self, pod: Json) -> int:
        """Bytes that a pod's containers are charged with."""
        return sum(int(self.run(pod, one["name"], _USAGE)) for one in pod["spec"]["containers"])


def main() -> int:
    """Do all of it; 0 when it is as it should be."""
    settings = Settings.read()
    if settings is None:
        say("SKIPPED: blocks on a cluster: KUBECONFIG names no cluster")
        return 0
    case = Case(settings)
    try:
        run(case)
    except Failed as error:
        say(f"FAILED: {error}")
        return 1
    finally:
        case.kubectl("delete", "-f", str(MANIFEST), "--ignore-not-found", "--wait=false")
    say("blocks on a cluster: as they should be")
    return 0


def run(case: Case) -> None:
    """Raises Failed."""
    began = now()
    case.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects(case)}))
    engine = until("an engine and a cache run", lambda: case.engine() if case.cache() else None)
    until("all blocks are stored and read", lambda: ALL in case.log(engine, "vllm", began))
    charged(case, engine)

    say("vineyardd is killed while the engine maps the store")
    moment = now()
    case.signal(_there(case.cache()), "vineyardd", "--deployment", "KILL")
    until("all blocks are stored anew", lambda: f"blocks: {ALL}" in case.log(engine, "vllm", moment))
    charged(case, engine)

    say("the cache's pod is deleted while the engine runs")
    moment = now()
    delete_cache(case)
    until("all blocks are in the new pod", lambda: f"blocks: {ALL}" in case.log(engine, "vllm", moment))
    charged(case, engine)

    say("the cache's pod is deleted while the engine is stopped")
    case.signal(engine, "vllm", "block_user", "STOP")
    delete_cache(case)
    worker = until("a new cache runs", case.cache)
    until("its worker says for whom it waits", lambda: "Waiting for 1 client " in case.log(worker, "transfer-worker"))
    small = case.usage(worker)
    say(f"while it waits, the new cache's pod is charged with {small // MIB} MiB")
    if small > MOST_OTHER:
        raise Failed(f"a worker that waits has touched the new store: {small // MIB} MiB")
    moment = now()
    case.signal(engine, "vllm", "block_user", "CONT")
    until("all blocks are in the third pod", lambda: f"blocks: {ALL}" in case.log(engine, "vllm", moment))
    charged(case, engine)


def objects(case: Case) -> list[Json]:
    """The story's engine and KVCache, of this size."""
    shown = case.kubectl("create", "--dry-run=client", "-o", "json", "-f", str(MANIFEST))
    decoder, items, at = json.JSONDecoder(), [], 0
    while at < len(shown.rstrip()):
        item, at = decoder.raw_decode(shown, at)
        items += item.get("items", [item])
        at += len(shown[at:]) - len(shown[at:].lstrip())
    for item in items:
        if item["kind"] == "KVCache":
            item["spec"] = {**item["spec"], "blockStore": {"size": "1664Mi"}}
            item["spec"]["cacheSpec"]["memory"] = "2Gi"
        else:
            container = item["spec"]["template"]["spec"]["containers"][0]
            container["env"] = [{"name": "STAND_IN_BLOCKS", "value": str(BLOCKS)}]
            container["resources"] = {"limits": {"memory": LIMIT}}
    return items


def charged(case: Case, engine: Json) -> None:
    """The cache's pod pays for all of it, and nobody was killed. Raises Failed."""
    cache, agent = _there(case.cache()), case.agent()
    amounts = {"cache": case.usage(cache), "engine": case.usage(engine), "agent": case.usage(agent)}
    say("charged with MiB: " + ", ".join(f"{name} {amount // MIB}" for name, amount in amounts.items()))
    if amounts["cache"] < LEAST_CACHE:
        raise Failed(f"the cache's pod is charged with {amounts['cache'] // MIB} MiB only")
    for name in ("engine", "agent"):
        if amounts[name] > MOST_OTHER:
            raise Failed(f"the {name} is charged with {amounts[name] // MIB} MiB")
    for pod in (cache, _there(case.engine()), case.agent()):
        for status in pod["status"]["containerStatuses"]:
            if status["restartCount"]:
                raise Failed(f"{status['name']} of {_name(pod)} was restarted: {status.get('lastState')}")
    if _name(_there(case.engine())) != _name(engine):
        raise Failed("the engine was replaced")


def delete_cache(case: Case) -> None:
    """Deletes the cache's pod and waits until it is gone."""
    name = _name(_there(case.cache()))
    case.kubectl("delete", "pod", name, "--wait=true", "--timeout=60s")


def until(what: str, look: Callable[[], T | None]) -> T:
    """What `look` gives once it is true. Raises Failed."""
    began = time.monotonic()
    while not (found := look()):
        if time.monotonic() - began > _WITHIN_S:
            raise Failed(f"it did not come to it within {_WITHIN_S:g} s that {what}")
        time.sleep(0.5)
    say(f"{what}: after {time.monotonic() - began:.0f} s")
    return found


def now() -> str:
    """The moment as kubectl takes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def say(sentence: str) -> None:
    print(sentence, flush=True)


def _runs(pod: Json) -> bool:
    statuses = pod["status"].get("containerStatuses") or []
    return bool(statuses) and all("running" in status["state"] for status in statuses)


def _there(pod: Json | None) -> Json:
    if pod is None:
        raise Failed("a pod is not there, or not all of it runs")
    return pod


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])


if __name__ == "__main__":
    sys.exit(main())
