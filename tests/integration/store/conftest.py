"""Where a store keeps its journal."""

from pathlib import Path

import pytest


@pytest.fixture
def journal(directory: Path) -> Path:
    return directory / "store.json"
