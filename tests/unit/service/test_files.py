"""Files that are whole or absent, and several of them that a disk without room leaves as they were."""

import pytest

from kvberth.service.files import write_all, write_whole


def test_a_file_is_replaced_as_a_whole_and_leaves_no_draft(tmp_path):
    write_whole(tmp_path / "a", "old")
    write_whole(tmp_path / "a", "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "new")]


def test_when_one_of_several_files_cannot_be_written_all_stay_as_they_were(tmp_path):
    write_whole(tmp_path / "a", "old")
    with pytest.raises(FileNotFoundError):
        write_all({tmp_path / "a": "new", tmp_path / "b": "new", tmp_path / "missing" / "c": "new"})
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "old")]
