"""Wants and records for the tests of what is decided by them."""

from datetime import UTC, datetime

from kvberth.bare.runner.decide import Snapshot, Wanted
from kvberth.bare.runner.record import Key, Record, State
from kvberth_schemas.events import ProcessRole, SocketMount
from kvberth_schemas.wants import CacheWantV1, EngineWantV1, RestartPolicy, Why

CACHE = Key(ProcessRole.CACHE, "default", "kv")
ENGINE = Key(ProcessRole.ENGINE, "default", "u1")
DIRECTORY = "/var/run/vineyard-kubernetes/default/kv"
NOW = 1000.0


def cache_want(state="run", why=Why.WANTED, **changes):
    fields = {"namespace": "default", "kvcache": "kv", "kvcache_uid": "k1", "size_bytes": 1, **changes}
    return CacheWantV1(term=1, state=state, why=why, **fields)


def engine_want(state="run", policy=RestartPolicy.ALWAYS, host_path=DIRECTORY, **changes):
    return EngineWantV1(
        term=1,
        state=state,
        why=changes.pop("why", Why.WANTED),
        namespace="default",
        pod_uid="u1",
        pod_name="llama-0",
        model="llama",
        sockets=(SocketMount(host_path=host_path, mount_path="/var/run"),),
        grace_s=30.0,
        restart_policy=policy,
        **changes,
    )


def wanted(want):
    return Wanted(want, "w1")


def record(key=CACHE, state=State.RUNNING, **changes):
    fields = {
        "key": key,
        "life": "l1",
        "state": state,
        "boot_id": "b",
        "want": cache_want() if key.role is ProcessRole.CACHE else engine_want(),
        "pid": 42,
        "start_ticks": 7,
        "started": datetime(2026, 1, 1, tzinfo=UTC),
        "started_at": NOW - 100,
        "incarnation": "i1" if key.role is ProcessRole.CACHE else None,
        "ended_at": NOW - 1 if state is State.ENDED else None,
        **changes,
    }
    return Record(**fields)


def snapshot(wants=(), records=(), **changes):
    """`wants`: pairs of key and want."""
    fields = {
        "wants": {key: wanted(want) for key, want in wants},
        "records": {found.key: found for found in records},
        "now": NOW,
        "node": "a",
        "engine_backoff_s": 10.0,
        "wants_known": True,
        **changes,
    }
    return Snapshot(**fields)
