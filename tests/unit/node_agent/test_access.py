"""When a denial is not explained by mode bits."""

import pytest

from kvberth.node_agent.sockets.access import selinux_hint


@pytest.fixture
def selinux(tmp_path):
    path = tmp_path / "selinux"
    path.mkdir()
    return path


@pytest.fixture
def socket(tmp_path):
    path = tmp_path / "default" / "kv" / "vineyard.sock"
    path.parent.mkdir(parents=True)
    path.touch(mode=0o600)
    return path


def test_a_denial_against_the_mode_bits_is_suspected_of_selinux(socket, selinux):
    assert "SELinux?" in selinux_hint(socket, selinux)


def test_nothing_is_suspected_where_the_kernel_has_no_selinux(socket, tmp_path):
    assert selinux_hint(socket, tmp_path / "missing") == ""


@pytest.mark.parametrize(("what", "mode"), [("socket", 0o400), ("socket", 0o066), ("directory", 0o600)])
def test_mode_bits_that_deny_explain_it(socket, selinux, what, mode):
    path = socket if what == "socket" else socket.parent
    path.chmod(mode)
    try:
        assert selinux_hint(socket, selinux) == ""
    finally:
        path.chmod(0o700)


def test_what_is_not_there_is_not_suspected(socket, selinux):
    socket.unlink()
    assert selinux_hint(socket, selinux) == ""
