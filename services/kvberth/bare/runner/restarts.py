"""When an ended process is started again, if at all. Pure."""

from kvberth.bare.runner.record import Record
from kvberth_schemas.events import ProcessRole
from kvberth_schemas.wants import EngineWantV1, RestartPolicy

CACHE_SHORT_LIFE_S = 10.0
"""A cache that lived so long did not crash in a loop."""
CACHE_FREE_RESTARTS = 5
CACHE_BACKOFF_S = 1.0
CACHE_BACKOFF_MAX_S = 30.0
ENGINE_SHORT_LIFE_S = 600.0
"""As the kubelet: after ten good minutes the back-off begins anew."""
ENGINE_BACKOFF_GROWTH = 30.0


def short_life_s(role: ProcessRole) -> float:
    """Give below which age an end counts as a crash in a row."""
    return ENGINE_SHORT_LIFE_S if role is ProcessRole.ENGINE else CACHE_SHORT_LIFE_S


def crashes_after(record: Record, now: float) -> int:
    """Count the crashes in a row after a life that ends now; one that was told to end, or an opened gate, is none."""
    if record.terminated_at is not None or _let_through(record):
        return 0
    lived = now - record.started_at if record.started is not None else 0.0
    return 1 if lived >= short_life_s(record.key.role) else record.crashes + 1


def delay_s(record: Record, engine_backoff_s: float) -> float:
    """Give the seconds between the end of a life and the next one's start."""
    if record.key.role is not ProcessRole.ENGINE:
        steps = record.crashes - CACHE_FREE_RESTARTS
        return _doubled(CACHE_BACKOFF_S, steps, CACHE_BACKOFF_MAX_S)
    return _doubled(engine_backoff_s, record.crashes - 2, engine_backoff_s * ENGINE_BACKOFF_GROWTH)


def is_over(want: EngineWantV1, record: Record) -> bool:
    """Tell whether an engine's restart policy leaves an ended one as it is."""
    if want.restart_policy is RestartPolicy.ALWAYS or record.started is None or record.terminated_at is not None:
        return False
    if record.at_gate:  # an init container that failed is restarted by both other policies but Never
        return want.restart_policy is RestartPolicy.NEVER and not record.gate_open
    return want.restart_policy is RestartPolicy.NEVER or record.exit_code == 0


def is_final(record: Record) -> bool:
    """Tell whether an ended engine must never run again, whatever a want says later."""
    return isinstance(record.want, EngineWantV1) and (record.stopped or is_over(record.want, record))


def _let_through(record: Record) -> bool:
    return record.at_gate and record.gate_open


def _doubled(first: float, steps: int, most: float) -> float:
    """Give nothing below zero steps, then `first` doubled with each step up to `most`."""
    return 0.0 if steps < 0 else float(min(first * 2 ** min(steps, 30), most))
