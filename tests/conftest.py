"""Marks tests by their folder, and fails a CI run that skipped what it should not."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

EXPECTED_SKIPS = frozenset({"torch is not installed", "there is no CUDA device"})
"""Reasons for which a test may be skipped in CI; any other skip fails the run."""

_ROOT = Path(__file__).parent
_skipped: list[str] = []


@pytest.fixture(autouse=True)
def own_log_configuration() -> Iterator[None]:
    """Commands and services configure the logs of their process: here that is the process of every other test, too."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(_ROOT).parts[0]
        if folder in {"compose", "integration", "kube", "scenario"}:
            item.add_marker(folder)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        _skipped.append(f"{report.nodeid}: {report.longrepr[2].removeprefix('Skipped: ')}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    unexpected = [skip for skip in _skipped if skip.partition(": ")[2] not in EXPECTED_SKIPS]
    if os.environ.get("CI") and unexpected:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"skipped: {len(_skipped)}")
    for skip in _skipped:
        terminalreporter.write_line(f"  {skip}")
