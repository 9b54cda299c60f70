"""Marks tests by their folder, and fails a CI run that skipped what it should not."""

import os
from pathlib import Path

import pytest

EXPECTED_SKIPS: frozenset[str] = frozenset()
"""Reasons for which a test may be skipped in CI; any other skip fails the run."""

_ROOT = Path(__file__).parent
_skipped: list[str] = []


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
