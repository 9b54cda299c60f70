"""Turns messages into statements: body and envelope, with the ids, times and trace of this process."""

from dataclasses import replace

from kvberth.bus.context import BusContext
from kvberth.bus.decode import Subject, check_subject
from kvberth.bus.errors import BodyTooLong, NotOurs
from kvberth.bus.reconcile import Statement
from kvberth_schemas.envelope import MAX_BODY_BYTES, Envelope
from kvberth_schemas.model import Event, Want
from kvberth_schemas.registry import encode


class Author:
    """Writes as one service."""

    def __init__(self, context: BusContext) -> None:
        """Takes ids and times from the context's clock."""
        self._context = context

    def state(
        self, subject: Subject, message: Event | Want, cause: str | None = None, traceparent: str | None = None
    ) -> Statement:
        """A new statement; without a `traceparent` it belongs to the current span.

        Raises:
            NotOurs: the message is about another kind of thing than the subject.
            BodyTooLong: the body has more than `MAX_BODY_BYTES`.
        """
        try:
            check_subject(subject, message)
        except ValueError as error:
            raise NotOurs(str(error)) from error
        body = encode(message)
        if len(body) > MAX_BODY_BYTES:
            raise BodyTooLong(f"{subject}: the body has {len(body)} bytes; it would be {MAX_BODY_BYTES} at most")
        clock = self._context.clock
        envelope = Envelope(
            id=clock.new_id(),
            type=message.ce_type,
            source=self._context.settings.source,
            time=clock.now(),
            subject=str(subject),
            cause=cause,
            traceparent=traceparent or self._context.metrics.traceparent(),
        )
        return Statement(envelope, body)

    def again(self, statement: Statement) -> Statement:
        """The same under a new id, for a stream that may know the old one."""
        return replace(statement, envelope=replace(statement.envelope, id=self._context.clock.new_id()))

    def refreshed(self, statement: Statement) -> Statement:
        """The same under a new id and the present time."""
        again = self.again(statement)
        return replace(again, envelope=replace(again.envelope, time=self._context.clock.now()))
