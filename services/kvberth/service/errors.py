"""The errors that end a service with one sentence instead of a traceback."""


class ServiceError(Exception):
    """A fault that its message explains in full: what was wrong, where, and what would be right.

    `run_service` logs the sentence without a traceback and exits with 1.
    """


class TakenOverError(ServiceError):
    """A writer with a higher term speaks on this service's subjects; `run_service` exits with 3.

    A new start would find the same, so whoever starts it again does so at leisure.
    """


class SettingsError(ServiceError):
    """The settings are wrong. One sentence per fault, each naming the environment variable or the file's key."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__(" ".join(faults))
        self.faults = faults
