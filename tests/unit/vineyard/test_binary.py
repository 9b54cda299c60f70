"""The program is found where its wheel put it, and its absence is said with the cure."""

import os
import sys
from importlib import metadata
from pathlib import Path

import pytest

from kvberth.vineyard import BinaryMissing, find_vineyardd


def wheel(site: Path) -> Path:
    info = site / "vineyard_bdist-0.24.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vineyard-bdist\nVersion: 0.24.2\n")
    return site / "vineyard" / "bdist" / "vineyardd"


def test_the_installed_program_is_found_and_can_be_run() -> None:
    found = find_vineyardd()
    assert found.is_absolute()
    assert os.access(found, os.X_OK)
    assert str(metadata.version("vineyard-bdist")).startswith("0.24")


def test_without_the_wheel_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(BinaryMissing, match=r'pip install "kvberth\[bare\]"'):
        find_vineyardd()


def test_a_wheel_whose_program_is_gone_or_cannot_be_run_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = wheel(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(BinaryMissing) as caught:
        find_vineyardd()
    assert caught.value.path == str(program)
    program.parent.mkdir(parents=True)
    program.touch(mode=0o644)
    with pytest.raises(BinaryMissing):
        find_vineyardd()
    program.chmod(0o755)
    assert find_vineyardd() == program
