"""Runs one service as a process: sets it up, waits for its end or a signal, and makes sure that it ends.

Exit codes: 0 stopped by a signal or finished; 1 failed, or had to be ended by force; 2 wrong settings, nothing was
started. SIGTERM or SIGINT sets `stopping`; `main` then has `shutdown_timeout_s` before it is cancelled, a second
signal cancels it at once, and a few seconds later the process is ended whatever its tasks do. Children are left
alone: they outlive their service by design.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn, TypeVar

import structlog

from kvberth.service.address_file import AddressFile, address_path
from kvberth.service.context import ServiceContext, open_context
from kvberth.service.deadline import ExitDeadline
from kvberth.service.errors import ServiceError, SettingsError
from kvberth.service.logs import configure_logging
from kvberth.service.settings import ServiceSettings, load_settings
from kvberth.service.telemetry import Telemetry

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_SETTINGS = 2

CANCEL_GRACE_S = 2.0
"""Seconds that a cancelled `main` gets to clean up."""

TEARDOWN_S = 5.0
"""Seconds for the rest: probes, left-over tasks and threads, spans that wait for the collector."""

S = TypeVar("S", bound=ServiceSettings)
Main = Callable[[ServiceContext[S]], Coroutine[object, object, None]]

_log = structlog.get_logger(__name__)


def serve(service: str, settings_class: type[S], main: Main[S]) -> NoReturn:
    """Load the settings, run the service, exit: what a service's `__main__` calls."""
    try:
        settings = load_settings(settings_class)
    except SettingsError as error:
        sys.stderr.write(f"{service}: {error}\n")
        sys.exit(EXIT_SETTINGS)
    sys.exit(run_service(service, settings, main))


def run_service(service: str, settings: S, main: Main[S], *, telemetry: Telemetry | None = None) -> int:
    """Run `main` until it ends or a signal stops it, and return the exit code. Call it on the main thread.

    `telemetry` replaces what the settings ask for; either way it is shut down at the end.
    """
    configure_logging(settings, service)
    telemetry = telemetry or Telemetry.of(service, settings)
    file = AddressFile(address_path(settings.state, service, settings.node)) if settings.state_given else None
    with asyncio.Runner() as runner:
        deadline = ExitDeadline(runner.get_loop(), EXIT_FAILED, file.remove if file else lambda: None)
        try:
            return runner.run(_run(service, settings, main, _Process(telemetry, file, deadline)))
        finally:
            deadline.start(TEARDOWN_S)
            runner.close()  # cancels and awaits what main left behind, under the deadline
            telemetry.shutdown()
            if file:
                file.remove()
            deadline.cancel()


@dataclass(frozen=True)
class _Process:
    """What belongs to the process, and outlives the loop."""

    telemetry: Telemetry
    file: AddressFile | None
    deadline: ExitDeadline


async def _run(service: str, settings: S, main: Main[S], process: _Process) -> int:
    try:
        async with open_context(service, settings, process.telemetry) as context:
            _announce(context, process.file)
            task = asyncio.create_task(main(context), name=f"main of {service}")
            with _stop_on_signals(context, task, process.deadline):
                await _wait_for_end(context, task, process.deadline)
            return _exit_code(context, task)
    except ServiceError as error:
        _log.error(str(error))
        return EXIT_FAILED


def _announce(context: ServiceContext[S], file: AddressFile | None) -> None:
    if file is not None:
        try:
            file.write(context.http_address)
        except OSError as error:
            _log.warning("the address file can't be written, so no command will find this service", reason=str(error))
    _log.info("service started", http=context.http_address)


@contextmanager
def _stop_on_signals(context: ServiceContext[S], task: "asyncio.Task[None]", deadline: ExitDeadline) -> Iterator[None]:
    """Stop on the first SIGTERM or SIGINT, cancel on the second.

    Plain signal handlers, not the loop's: those would never run while a call blocks the loop, and then nothing would
    start the deadline.
    """
    loop = asyncio.get_running_loop()

    def stop(name: str) -> None:
        if context.stopping.is_set():
            task.cancel()
            return
        _log.info("service is stopping", signal=name)
        context.stopping.set()

    def handle(number: int, _frame: FrameType | None) -> None:
        deadline.start(_longest_end_s(context.settings))
        loop.call_soon_threadsafe(stop, signal.Signals(number).name)

    old = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        # Until the process has ended a further signal changes nothing: the deadline is running, or about to.
        for number, handler in old.items():
            signal.signal(number, handler)


def _longest_end_s(settings: ServiceSettings) -> float:
    return settings.shutdown_timeout_s + CANCEL_GRACE_S + TEARDOWN_S


async def _wait_for_end(context: ServiceContext[S], task: "asyncio.Task[None]", deadline: ExitDeadline) -> None:
    """Return when `main` has ended, by itself or when it is told to; end the process if it doesn't."""
    stopping = asyncio.create_task(context.stopping.wait(), name="wait for a signal")
    await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    deadline.start(_longest_end_s(context.settings))
    if await _ends_within(task, context.settings.shutdown_timeout_s):
        return
    _log.warning("service did not stop in time and is cancelled", waited_s=context.settings.shutdown_timeout_s)
    task.cancel()
    if not await _ends_within(task, CANCEL_GRACE_S):
        deadline.expire("service ignores its cancellation and is ended by force")


async def _ends_within(task: "asyncio.Task[None]", seconds: float) -> bool:
    done, _ = await asyncio.wait({task}, timeout=seconds)
    return bool(done)


def _exit_code(context: ServiceContext[S], task: "asyncio.Task[None]") -> int:
    if task.cancelled():
        if context.stopping.is_set():
            return EXIT_OK
        _log.error("service failed: its main was cancelled although nobody asked it to stop")
        return EXIT_FAILED
    error = task.exception()
    if error is None:
        _log.info("service ended")
        return EXIT_OK
    sentences = _sentences(error)
    if sentences is None:
        _log.error("service failed", exc_info=error)
    else:
        _log.error(" ".join(sentences))
    return EXIT_FAILED


def _sentences(error: BaseException) -> list[str] | None:
    """The sentences of an error that consists of `ServiceError`s only, alone or grouped; else None."""
    if isinstance(error, ServiceError):
        return [str(error)]
    if not isinstance(error, BaseExceptionGroup):
        return None
    parts = [_sentences(part) for part in error.exceptions]
    known = [sentence for part in parts if part is not None for sentence in part]
    return None if None in parts else known
