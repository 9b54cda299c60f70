"""Ends everything of a stack by its records, and removes its directories. Needs no running `up`, bus or service."""

import contextlib
import os
import signal
import time

from kvberth.bare.process import locks, procfs
from kvberth.bare.process.endings import end, forget, recorded, unrecorded
from kvberth.bare.scheduler.store import kept_manifests
from kvberth.bare.stack.errors import StackError
from kvberth.bare.stack.layout import NATS, Address, Layout
from kvberth.bare.stack.ownership import remove_all

SERVICE_GRACE_S = 5.0
PROCESS_GRACE_S = 3.0
"""For engines and caches: `down` is the user's word, so an engine's own longer grace does not hold it."""

UP_WITHIN_S = 30.0


def end_services(layout: Layout) -> None:
    """End the services and NATS that a killed `up` left behind; engines and caches run on.

    Raises:
        StackError: one can't be ended.
    """
    left = end(recorded(layout.records), SERVICE_GRACE_S) + unrecorded(layout.records)
    if left:
        raise StackError(f"what an earlier 'kvberth up' left behind has not ended: {'; '.join(left)}")


def take_down(layout: Layout) -> list[str]:
    """End services, engines, caches and NATS, remove the directories; give the manifests that are forgotten.

    Raises:
        StackError: something did not end (its record, and so the state directory, is kept for another try), or
            something can't be removed.
    """
    forgotten = kept_manifests(layout.state / "scheduler")
    services = recorded(layout.records)
    nats = [one for one in services if one.stem == NATS]
    faults = end([one for one in services if one not in nats], SERVICE_GRACE_S)
    faults += end_processes(layout)
    faults += end(nats, SERVICE_GRACE_S) + unrecorded(layout.records)
    if faults:
        raise StackError(f"not everything ended, so {layout.state} is kept: {'; '.join(faults)}")
    left = remove_all(layout)
    if left:
        raise StackError(f"everything has ended, but not everything is removed: {'; '.join(left)}")
    return forgotten


def end_processes(layout: Layout) -> list[str]:
    """End the engines and caches of every node, and remove their records; give a sentence for each that lives on."""
    directories = layout.process_records()
    found = [one for directory in directories for one in recorded(directory)]
    faults = end(found, PROCESS_GRACE_S) + forget(found)
    return faults + [fault for directory in directories for fault in unrecorded(directory)]


def stop_up(layout: Layout) -> bool:
    """Ask a living `up` to end and wait until it has; False when none lives.

    Raises:
        StackError: it does not end, or something of it does not.
    """
    address = Address.read(layout)
    if address is None:
        return False
    if not locks.is_held(layout.lock):
        return False
    if procfs.start_ticks(address.pid) == address.start_ticks:  # its pid is nobody else's by now
        with contextlib.suppress(ProcessLookupError):
            os.kill(address.pid, signal.SIGTERM)
    deadline = time.monotonic() + UP_WITHIN_S
    while locks.is_held(layout.lock):
        if time.monotonic() > deadline:
            raise StackError(
                f"'kvberth up' (pid {address.pid}) did not end within {UP_WITHIN_S:g} s; end it with kill -9 first"
            )
        time.sleep(0.05)
    if layout.used:  # it ended, but could not end or remove all that is its own
        take_down(layout)
    return True
