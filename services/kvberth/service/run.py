"""Runs one service as a process: sets it up, waits for its end or a signal, and makes sure that it ends.

Exit codes: 0 stopped by a signal or finished; 1 failed, or had to be ended by force; 2 wrong settings, nothing was
started; 3 another writer has taken over. SIGTERM or SIGINT sets `stopping`; `main` then has `shutdown_timeout_s` before
it is cancelled, the same signal again cancels it at once, and a few seconds later the process is ended whatever its
tasks do. Children are left alone: they outlive their service by design.
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
from kvberth.service.errors import ServiceError, SettingsError, TakenOverError
from kvberth.service.logs import configure_logging
from kvberth.service.settings import ServiceSettings, load_settings
from kvberth.service.telemetry import Telemetry

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_SETTINGS = 2
EXIT_TAKEN_OVER = 3

CANCEL_GRACE_S = 2.0
"""Seconds that a cancelled `main` gets to clean up."""

TEARDOWN_S = 5.0
"""Seconds for the rest: probes, left-over tasks and threads, spans that wait for the collector."""

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

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
    with _signal_handlers_restored(), asyncio.Runner() as runner:
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
            task = asyncio.create_task(main(context), name=f"main of {service}")
            _stop_on_signals(context, task, process.deadline)
            _announce(context, process.file)
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


def _stop_on_signals(context: ServiceContext[S], task: "asyncio.Task[None]", deadline: ExitDeadline) -> None:
    """Stop on SIGTERM and SIGINT; cancel when the same one comes again.

    The same one, because Ctrl-C reaches a whole process group, and a supervisor in it then sends its SIGTERM too. Plain
    signal handlers, not the loop's: those would never run while a call blocks the loop, and nothing would start the
    deadline. They stay until the process ends, so that a late signal doesn't kill it half torn down.
    """
    loop = asyncio.get_running_loop()
    seen: set[int] = set()

    def stop(number: int) -> None:
        if number in seen:
            task.cancel()
            return
        seen.add(number)
        _log.info("service is stopping", signal=signal.Signals(number).name)
        context.stopping.set()

    def handle(number: int, _frame: FrameType | None) -> None:
        deadline.start(_longest_end_s(context.settings))
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop, number)

    for number in _STOP_SIGNALS:
        signal.signal(number, handle)


@contextmanager
def _signal_handlers_restored() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _longest_end_s(settings: ServiceSettings) -> float:
    return settings.shutdown_timeout_s + CANCEL_GRACE_S + TEARDOWN_S


async def _wait_for_end(context: ServiceContext[S], task: "asyncio.Task[None]", deadline: ExitDeadline) -> None:
    """Return when `main` has ended, by itself or when it is told to; end the process if it doesn't."""
    stopping = asyncio.create_task(context.stopping.wait(), name="wait for a signal")
    await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if task.done():
        return
    deadline.start(_longest_end_s(context.settings))  # whoever set `stopping`, not only a signal
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
    return EXIT_TAKEN_OVER if _is_taken_over(error) else EXIT_FAILED


def _is_taken_over(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_is_taken_over(part) for part in error.exceptions)
    return isinstance(error, TakenOverError)


def _sentences(error: BaseException) -> list[str] | None:
    """The sentences of an error that consists of `ServiceError`s only, alone or grouped; else None."""
    if isinstance(error, ServiceError):
        return [str(error)]
    if not isinstance(error, BaseExceptionGroup):
        return None
    parts = [_sentences(part) for part in error.exceptions]
    known = [sentence for part in parts if part is not None for sentence in part]
    return None if None in parts else known
