"""A runner that can't fail is a defect: each kind of expectation fails with the right sentence, and so does each verb.

One stack serves all of them; what they expect is wrong, not what the stack does.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from kvberth.scenario.backend.bare import BareBackend
from kvberth.scenario.backend.bare.world import BareWorld
from kvberth.scenario.backend.protocol import Setting
from kvberth.scenario.durations import Timing
from kvberth.scenario.format import parse
from kvberth.scenario.result import Failure, Outcome
from kvberth.scenario.teller import Teller

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = Path(__file__).parent
KV, LLAMA = "aibrix-kvcache-llama-3-8b-instruct", "llama-3-8b-instruct"
START = f"""
nodes: [{{name: l20-a, gpus: 2}}, l20-b]
steps:
  - apply: ../../../examples/llama-3-8b-l20/engine-and-kvcache.yaml
  - wait:
      - caches: {{kvcache: {KV}, nodes: [l20-a]}}
      - engines: {{workload: {LLAMA}, ready: 1}}
      - condition: {{kvcache: {KV}, type: Ready, status: "True"}}
"""


@dataclass(frozen=True)
class Wrong:
    """Steps that must fail, and what the failure must say."""

    steps: str
    expected: str
    seen: str


def expects(kind: str, expected: str, seen: str) -> Wrong:
    """Expect something that is not so."""
    return Wrong(f"[{{mark: m}}, {{expect: {{{kind}}}, within: 50ms}}]", expected, seen)


EXPECTATIONS = [
    expects(
        f"caches: {{kvcache: {KV}, nodes: [l20-b]}}",
        f"caches of {KV} answer on exactly l20-b within 0.05 s",
        r"they answer on l20-a\. The last events: .*kvcache\.status",
    ),
    expects(f"caches: {{kvcache: {KV}, nodes: []}}", "on exactly no node", "they answer on l20-a"),
    expects(f"caches: {{kvcache: {KV}, nodes: [l20-a, l20-b]}}", "on exactly l20-a, l20-b", "they answer on l20-a"),
    expects(f"engines: {{workload: {LLAMA}, count: 2}}", "has 2 engines", f"{LLAMA}-.* on l20-a, ready, 0 restarts"),
    expects(f"engines: {{workload: {LLAMA}, restarts: {{at_least: 1}}}}", "at least 1 restarts", "0 restarts"),
    expects(f"engines: {{workload: {LLAMA}, nodes: [l20-b]}}", "engines on l20-b", "on l20-a"),
    expects(f"engines: {{workload: {LLAMA}, waiting: 1}}", "1 waiting", "on l20-a"),
    expects(
        f"condition: {{kvcache: {KV}, type: Ready, status: 'False', reason: Nope, message: what}}",
        f"{KV} has the condition Ready with status False, reason Nope, message 'what'",
        "Ready=True, reason",
    ),
    expects(
        f"condition: {{kvcache: {KV}, type: Healthy, status: 'False'}}",
        "the condition Healthy",
        "Healthy=(True|Unknown), reason",
    ),
    expects("condition: {kvcache: nobody, type: Ready}", "nobody has the condition", "nobody has no status"),
    expects(f"status: {{kvcache: {KV}, served: 0}}", "has no served", "1 of 1 engines served, l20-a serving"),
    expects(f"status: {{kvcache: {KV}, nodes: [l20-b]}}", "rows for l20-b", "l20-a serving"),
    expects(f"status: {{kvcache: {KV}, exists: false}}", f"{KV} has no status", "1 of 1 engines served"),
    expects(f"status: {{kvcache: {KV}, mentions: l20-z}}", "'l20-z' somewhere", "l20-a serving"),
    expects("node: {name: l20-a, ready: false}", "the node l20-a is not ready", "^ready, labels"),
    expects("node: {name: l20-z}", "the node l20-z is known", "l20-z is not known"),
    expects("node: {name: l20-a, exists: false}", "the node l20-a is not known", "^ready"),
    expects("event: {type: cache.placed, count: 2}", "2 x cache.placed", "^1 of them: .* cache.placed"),
    expects("event: {type: cache.placed, since: m}", "at least 1 x cache.placed since 'm'", "^0 of them"),
    expects("event: {type: cache.placed, fields: {to: l20-b}}", "with to = 'l20-b'", "^0 of them"),
    expects(
        "order: {events: [{type: socket.ready}, {type: cache.placed}]}",
        "in this order: socket.ready; then cache.placed",
        "no cache.placed after .* socket.ready",
    ),
    expects(
        f"start_order: {{workload: {LLAMA}, kvcache: nobody}}",
        f"each engine of {LLAMA} started after a cache of nobody answered on its node",
        f"engine {LLAMA}-.* started on l20-a at .*; no cache answered",
    ),
    expects(
        f"start_order: {{workload: {LLAMA}, kvcache: {KV}, since: m}}", "each engine", "no engine of .* was started"
    ),
    expects(f"lives: {{cache: {{kvcache: {KV}}}, count: 2}}", "2 lives of the cache", "^1: pid .* on l20-a"),
    expects(f"lives: {{engine: {{workload: {LLAMA}}}, count: 1, since: m}}", "1 lives of the engine", "^0"),
    expects(
        f"changed: {{since: m, of: {{cache: {{kvcache: {KV}}}}}}}",
        f"the cache of {KV} is another process as at 'm'",
        f"cache {KV} on l20-a was pid .*, is pid",
    ),
    expects(
        "same: {since: m, of: {cache: {kvcache: other}}}", "the cache of other is the same", "none of them lived at 'm'"
    ),
    expects("process: {role: cache, node: l20-b}", "1 running cache process", "^0"),
    expects("process: {role: engine, count: 2}", "2 running engine process", f"^1: engine {LLAMA}-.* on l20-a .pid"),
    expects(f"socket: {{kvcache: {KV}, node: l20-a, state: stale}}", "on l20-a is: stale", r"^answers\. The last"),
    expects(f"socket: {{kvcache: {KV}, node: l20-b, state: answers}}", "is: answers", "^missing"),
    expects("path: {node: l20-a, path: default, state: missing}", "default on l20-a is: missing", "^directory, mode 0"),
    expects(
        f"path: {{node: l20-a, path: default/{KV}, state: directory, mode: '0123'}}",
        "mode 0123",
        "^directory, mode 0700",
    ),
    expects(
        "metric: {of: placement, name: kvberth_bus_connected, value: 7}",
        "kvberth_bus_connected of the placement == 7",
        r"^1\. ",
    ),
    expects(
        "metric: {of: placement, name: kvberth_bus_nope, value: 7}", "nope", "no such series; there are kvberth_bus_"
    ),
    expects("metric: {of: placement, name: kvberth_bus_connected, value: 1, since: m}", "grown since 'm'", "^0"),
    expects("log: {of: placement, line: not in there}", "at least 1 lines 'not in there'", "^0; the last lines: "),
    expects("log: {of: placement, line: '.', count: 1, since: m}", "since 'm'", "^0; the last lines: "),
    expects("memory: {of: placement, at_most: 1Mi}", "memory of the placement is at most 1Mi", r"^[\d.]+Mi"),
    expects(
        f"reaches: {{workload: {LLAMA}, kvcache: other}}",
        "the daemon of other on its node",
        "given .*; the daemon of other there is missing",
    ),
    expects(f"not: {{caches: {{kvcache: {KV}, nodes: [l20-a]}}}}", "not: caches of", "they answer on l20-a"),
    expects(
        "any_of: [{node: {name: l20-z}}, {process: {role: cache, count: 0}}]",
        "any of: the node l20-z is known | no running cache",
        "l20-z is not known | 1: cache",
    ),
]

VERBS = [
    Wrong("[{apply: nowhere.yaml}]", "apply nowhere.yaml", "nothing is applied: .*nowhere.yaml"),
    Wrong("[{apply: {text: '{'}}]", "apply text", "refused: "),
    Wrong(
        "[{apply: {objects: [{apiVersion: v1, kind: Service, metadata: {name: x}}], refused: {x: sorry}}}]",
        "apply Service/x",
        "'x' should have been refused with 'sorry', but was not",
    ),
    Wrong("[{delete: {kind: KVCache, name: nobody}}]", "delete KVCache nobody", "KVCache/nobody: "),
    Wrong(
        "[{delete: {engine: {workload: nobody}}}]",
        "delete the pod of",
        "is 0 engines, where one is meant; there are: engine",
    ),
    Wrong(
        "[{patch: {kind: KVCache, name: x, merge: {}}}]",
        "patch KVCache x",
        "applied no KVCache x that could be patched",
    ),
    Wrong("[{kill: {cache: {kvcache: nobody}}}]", "kill the cache of nobody", "is 0 processes, .*; there are: cache"),
    Wrong("[{kill: {service: runner}}]", "kill the runner", "is 2 processes, where one is meant"),
    Wrong(
        f"[{{stop: {{cache: {{kvcache: {KV}}}}}}}]", "stop the cache", "can't be stopped, its runner starts it again"
    ),
    Wrong("[{start: nats}]", "start NATS", "NATS was not stopped; 'start' ends a 'stop'"),
    Wrong("[{disk: free}]", "the disk of NATS is free", "is not full; 'disk: free' ends a 'disk: full'"),
    Wrong("[{node_up: l20-a}]", "the node l20-a boots again", "the node l20-a is not down"),
    Wrong("[{node_down: l20-z}]", "the node l20-z is lost", "no runner and no agent of a node l20-z"),
    Wrong("[{node_add: l20-a}]", "add the node l20-a", "the node l20-a is there already"),
    Wrong("[{cordon: l20-z}]", "cordon l20-z", "l20-z"),
    Wrong(
        "[{publish: {again: {event: {type: transfer.completed}}}}]",
        "publish again",
        "nothing was heard like: transfer.completed",
    ),
    Wrong("[{publish: {text: x}}]", "publish text", "'publish' needs a 'subject'"),
    Wrong("[{files: {node: l20-a, remove: ../../x}}]", "remove", "does not lie below the node's root"),
    Wrong(
        f"[{{during: {{for: 10s, never: {{caches: {{kvcache: {KV}, nodes: [l20-a]}}}}}}}}]",
        "never: caches of",
        "they answer on l20-a",
    ),
    Wrong("[{during: {for: 10s, always: {process: {role: cache, count: 2}}}}]", "always: 2 running cache", "^1: cache"),
    Wrong(
        "[{during: {steps: [{expect: {process: {role: cache, count: 0}}, within: 100ms}]}}]",
        "no running cache process.* within 0.1 s",
        "^1: cache",
    ),
    Wrong("[{wait: {node: {name: l20-z}}, within: 200ms}]", "l20-z is known within 0.2 s", "not known"),
    Wrong(
        "[{expect: {node: {name: l20-a}}, within: 300ms, after: {type: transfer.completed}}]",
        "the node l20-a is known within 0.3 s after transfer.completed",
        "ready",
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world() -> AsyncIterator[BareWorld]:
    """A stack with an engine and its cache on l20-a."""
    scenario = parse(START, "start")
    async with BareBackend().world(Setting(scenario, HERE, Timing())) as made:
        assert await tell(made, START) == []
        yield made


async def tell(world: BareWorld, text: str) -> list[Failure]:
    """Tell a scenario in a world that is there already."""
    outcome = Outcome("x", "x")
    await Teller(parse(text, "x"), Timing(), BareBackend.abilities, world, outcome, lambda line: None).tell()
    return outcome.failures


@pytest.mark.timeout(180)
async def test_every_expectation_and_verb_fails_with_its_sentence_when_it_is_wrong(world: BareWorld) -> None:
    faults = []
    for wrong in [*EXPECTATIONS, *VERBS]:
        failures = await tell(world, f"nodes: [l20-a, l20-b, l20-z]\nsteps: {wrong.steps}")
        said = [f"expected: {failure.expected} | seen: {failure.seen}" for failure in failures]
        right = (
            len(failures) == 1
            and (wrong.expected in failures[0].expected or re.search(wrong.expected, failures[0].expected))
            and re.search(wrong.seen, failures[0].seen, re.DOTALL)
        )
        if not right:
            faults.append(
                f"{wrong.steps}\n   should have failed with: {wrong.expected} | {wrong.seen}\n   said: {said}"
            )
    assert not faults, "\n".join(faults)


@pytest.mark.timeout(180)
async def test_a_scenario_that_takes_too_long_fails_and_names_the_step(world: BareWorld) -> None:
    (failure,) = await tell(
        world, "{deadline: 300ms, nodes: [l20-b, l20-z], steps: [{cordon: l20-b}, {wait: {node: {name: l20-z}}}]}"
    )
    assert failure.expected == "the scenario is told within 0.3 s"
    assert failure.step == "2: wait the node l20-z is known"
