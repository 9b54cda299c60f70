"""A stack uses and removes only what it made: its state directory bears a mark, its socket root is its user's alone."""

from pathlib import Path

import pytest

from kvberth.bare.stack import Layout, StackError, take_down
from kvberth.bare.stack.ownership import check_state, make_root, mark_state, remove_all


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "state", tmp_path / "root")
    made.state.mkdir()
    return made


@pytest.mark.parametrize("name", ["nodes", "logs", "nats", "services", "kvberth.json"])
def test_a_directory_with_somebody_elses_things_under_our_names_is_refused_and_kept(layout: Layout, name: str) -> None:
    (layout.state / name).mkdir()
    (layout.state / name / "mine.txt").write_text("x")
    with pytest.raises(StackError, match=f"holds {name}, which 'kvberth up' did not make"):
        check_state(layout)
    with pytest.raises(StackError, match="bears no mark of kvberth"):
        take_down(layout)
    assert (layout.state / name / "mine.txt").read_text() == "x"


def test_files_under_other_names_stay_beside_ours_and_after_them(layout: Layout) -> None:
    (layout.state / "mine.txt").write_text("x")
    check_state(layout)
    mark_state(layout)
    layout.logs.mkdir()
    check_state(layout)
    assert remove_all(layout) == []
    assert [path.name for path in layout.state.iterdir()] == ["mine.txt"]


def test_the_mark_stays_while_something_can_t_be_removed(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    mark_state(layout)
    layout.logs.mkdir()
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    assert remove_all(layout) == [f"{layout.logs} can't be removed"]
    assert layout.used


def test_a_root_is_made_for_its_user_alone_and_found_again(layout: Layout) -> None:
    make_root(layout.root)
    make_root(layout.root)
    assert layout.root.stat().st_mode & 0o777 == 0o700


def test_a_root_that_is_a_link_is_refused_and_left(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    layout.root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StackError, match="is a symbolic link"):
        make_root(layout.root)
    with pytest.raises(StackError, match="is a symbolic link, so it was left as it is"):
        take_down(layout)


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o701])
def test_a_root_that_others_may_enter_is_refused(layout: Layout, mode: int) -> None:
    layout.root.mkdir()
    layout.root.chmod(mode)
    with pytest.raises(StackError, match=rf"is open to other users \(mode {mode:04o}"):
        make_root(layout.root)


def test_a_root_that_is_no_directory_is_refused(layout: Layout) -> None:
    layout.root.write_text("")
    with pytest.raises(StackError, match="is no directory"):
        make_root(layout.root)
