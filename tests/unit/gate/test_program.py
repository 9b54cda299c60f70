"""What the gate decides, and what its text must be to run in any engine's image."""

import ast
import errno
import json
import sys
from pathlib import Path

import pytest

from kvberth.gate import manifest, program
from kvberth.gate.program import Ending, NotOpen, Patience, connect_failure, parse_rule, timed_out
from kvberth.kvcache.engines import LEGACY_PREFIX
from kvberth.kvcache.paths import MAX_SOCKET_PATH, SOCKET_GROUP
from kvberth.pod_watcher.gate import gate_result

DEFAULT = Patience(30.0, starts_without=True)
TEXT = manifest.PROGRAM.read_text()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", DEFAULT),
        ('{"policy": null, "timeout_s": null}', DEFAULT),
        ('{"policy": "startWithoutCache"}', DEFAULT),
        ('{"policy": "startWithoutCache", "timeout_s": 5}', Patience(5.0, starts_without=True)),
        ('{"timeout_s": 0}', Patience(0.0, starts_without=True)),
        ('{"policy": "wait"}', Patience(None, starts_without=False)),
        ('{"policy": "wait", "timeout_s": 2.5}', Patience(2.5, starts_without=False)),
        ('{"policy": "wait", "of_a_later_version": 1}', Patience(None, starts_without=False)),
    ],
)
def test_a_rule_goes_before_the_defaults_where_it_says_something(text: str, expected: Patience) -> None:
    assert parse_rule(text, DEFAULT) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "3",
        '"wait"',
        '{"policy": "never"}',
        '{"policy": ["wait"]}',
        '{"policy": {}}',
        '{"timeout_s": "5"}',
        '{"timeout_s": true}',
        '{"timeout_s": -1}',
        '{"timeout_s": NaN}',
        '{"timeout_s": Infinity}',
        '{"timeout_s": 1e300}',
        "[" * 100_000,
    ],
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        parse_rule(text, DEFAULT)


@pytest.mark.parametrize(
    ("env", "timeout_s"),
    [({}, 30.0), ({"VLLM_USE_VINEYARD_CACHE": "1"}, 30.0), ({f"{LEGACY_PREFIX}_SOCKET": ""}, 600.0)],
)
def test_a_legacy_engine_is_told_by_its_env_and_waits_longer(env: dict[str, str], timeout_s: float) -> None:
    gate = program.Gate("/nowhere/vineyard.sock", env, print)
    assert gate._patience() == Patience(timeout_s, starts_without=True)


def test_an_engine_starts_after_its_time_unless_its_kvcache_says_wait() -> None:
    why = NotOpen("SocketMissing", "there is none")
    late = timed_out(Patience(1.0, starts_without=True), why, 1.1)
    assert late == Ending("timeout", "SocketMissing", 1.1, "the engine starts without its cache: there is none", 0)
    never = timed_out(Patience(1.0, starts_without=False), why, 1.1)
    assert (never.outcome, never.code) == ("closed", 1)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOENT, "SocketMissing"),
        (errno.ENOTDIR, "SocketMissing"),
        (errno.EAGAIN, "DaemonHung"),
        (errno.EACCES, "SocketDenied"),
        (errno.EPERM, "SocketDenied"),
        (errno.EMFILE, "CannotAsk"),
    ],
)
def test_why_nobody_could_be_connected_to_is_told_apart(number: int, reason: str) -> None:
    assert connect_failure("/nowhere", OSError(number, "x")).reason == reason


def test_the_text_survives_the_kubelet_which_replaces_dollar_signs() -> None:
    assert "$" not in TEXT
    start = manifest.START.read_text()
    assert "$(" not in start
    assert "$$" not in start


def test_the_text_is_python_3_8_and_imports_the_standard_library_alone() -> None:
    tree = ast.parse(TEXT, feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_a_pod_can_hold_the_text() -> None:
    assert len(TEXT.encode()) < 64 * 1024  # an argument may have 128 KiB, and every engine's pod carries it


def test_the_program_agrees_with_the_library_that_it_can_not_import() -> None:
    assert program.LEGACY_PREFIX == LEGACY_PREFIX
    assert program.MAX_PATH_BYTES == MAX_SOCKET_PATH


def test_the_manifests_hold_this_program_and_the_group_of_the_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert manifest.main(["--check"]) == 0, f"write it anew with: {manifest.COMMAND}"
    assert f'supplementalGroups/-", value: {SOCKET_GROUP}' in manifest.FILE.with_name("policy.yaml").read_text()
    monkeypatch.setattr(manifest, "FILE", tmp_path / "program.yaml")
    assert manifest.main(["--check"]) == 1
    assert manifest.COMMAND in capsys.readouterr().err
    assert manifest.main([]) == 0
    assert manifest.main(["--check"]) == 0
    assert manifest.main(["--chek"]) == 2


def test_what_the_gate_leaves_is_what_the_pod_watcher_reads(tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    log.touch()
    assert program.leave(Ending("timeout", "SocketStale", 30.04, "x" * 10_000), str(log)) == 0
    told = log.read_text()
    assert len(told) < 4096  # the kubelet cuts what is longer
    assert json.loads(told)["kvberth"] == "gate"
    result = gate_result([told])
    assert result is not None
    assert (result.outcome, result.reason, result.waited_s) == ("timeout", "SocketStale", 30.04)


def test_no_file_is_made_where_the_kubelet_made_none(tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    assert program.leave(Ending("closed", "SocketStale", 1, "x", code=1), str(log)) == 1
    assert not log.exists()


def test_a_termination_log_that_can_not_be_written_is_said_and_holds_nobody(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert program.leave(Ending("open", "SocketAnswered", 1, "x"), str(tmp_path)) == 0
    assert "can't be written" in capfd.readouterr().out


@pytest.mark.parametrize("arguments", [[], [""], ["a", "b", "c"]])
def test_a_wrong_command_line_is_refused(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert program.main(arguments) == 2
    assert "usage: gate SOCKET" in capfd.readouterr().out
