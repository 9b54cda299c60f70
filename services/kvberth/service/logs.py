"""Structured logs on stderr: one line per record, JSON for collectors or aligned text for people.

Our records come from structlog, those of libraries (nats, asyncio, OpenTelemetry) from `logging`; both leave in the
same form. Every line carries service, instance and node; a line written while an event is handled also carries that
event's id (`cause`) and its `trace_id`.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import structlog
from structlog.contextvars import bound_contextvars, merge_contextvars
from structlog.stdlib import ProcessorFormatter

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

    from kvberth.service.settings import ServiceSettings

__all__ = ["bound_cause", "configure_logging"]


def configure_logging(settings: "ServiceSettings", service: str) -> None:
    """Send every log record of this process to stderr. Replaces what an earlier call had set up."""
    stream = sys.stderr
    shared: list[Processor] = [
        merge_contextvars,
        _identity(service, settings.instance, settings.node),
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    rendering = _rendering(settings.log_format or ("console" if stream.isatty() else "json"), stream)
    level = getattr(logging, settings.log_level.upper())
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name, structlog.stdlib.ExtraAdder()],
            processors=[ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h.formatter, ProcessorFormatter)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)


@contextmanager
def bound_cause(event_id: str, trace_id: str | None = None) -> Iterator[None]:
    """Bind the event that is being handled to every log line written inside, in this task and those it starts."""
    values = {"cause": event_id} if trace_id is None else {"cause": event_id, "trace_id": trace_id}
    with bound_contextvars(**values):
        yield


def _identity(service: str, instance: str, node: str | None) -> "Processor":
    """Constant for the process, hence no context variable: threads and callbacks must carry them too."""
    names = {"service": service, "instance": instance} | ({"node": node} if node else {})

    def add(_logger: "WrappedLogger", _method: str, event: "EventDict") -> "EventDict":
        for name, value in names.items():
            event.setdefault(name, value)
        return event

    return add


def _rendering(form: str, stream: TextIO) -> "list[Processor]":
    if form == "console":
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
