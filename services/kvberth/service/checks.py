"""What makes a service ready, as named checks, and the one fault that makes it unfit to go on.

A check answers None when it is content, else one sentence that says what is missing. It runs on the loop: it reads
what is known and never waits.
"""

from collections.abc import Callable

import structlog

Check = Callable[[], str | None]

_log = structlog.get_logger(__name__)


class Checks:
    """The readiness checks of one process, and its fatal fault if there is one."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}
        self._fatal: str | None = None

    def register(self, name: str, check: Check) -> None:
        """Make readiness depend on `check`. A name can be taken once."""
        if name in self._checks:
            raise ValueError(f"readiness check {name} is registered already; give the second one a name of its own")
        self._checks[name] = check

    def unregister(self, name: str) -> None:
        """Forget a check."""
        del self._checks[name]

    def fail(self, sentence: str) -> None:
        """Declare the process unfit, so that whoever probes `/healthz` replaces it. The first sentence stays."""
        if self._fatal is None:
            self._fatal = sentence
            _log.error(sentence)

    @property
    def fatal(self) -> str | None:
        """Why the process should be replaced, or None."""
        return self._fatal

    def results(self) -> dict[str, str | None]:
        """Each check's sentence, or None where it is content."""
        return {name: _ask(name, check) for name, check in self._checks.items()}


def _ask(name: str, check: Check) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 -- a broken check means not ready; it must not hide the others
        _log.exception("readiness check failed to run", check=name)
        return f"The check itself failed: {type(error).__name__}: {error}."
