"""Log lines: one form for ours and the libraries', with the names that make them findable."""

import io
import json
import logging
import sys
import threading

import pytest
import structlog

from kvberth.service import ServiceSettings, bound_cause, configure_logging


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _restore_logging():
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def configure(**settings):
    configure_logging(ServiceSettings(instance="i-1", **settings), "sample")


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_our_lines_and_those_of_libraries_have_the_same_form(capsys):
    configure(node="l20-a")
    structlog.get_logger().info("planned", actions=2)
    logging.getLogger("nats.aio.client").warning("lost %s", "server")
    ours, theirs = lines(capsys)
    assert ours["event"] == "planned"
    assert ours["actions"] == 2
    assert theirs["event"] == "lost server"
    assert theirs["logger"] == "nats.aio.client"
    for line in (ours, theirs):
        assert (line["service"], line["instance"], line["node"]) == ("sample", "i-1", "l20-a")
        assert line["timestamp"].endswith("Z")
    assert (ours["level"], theirs["level"]) == ("info", "warning")


def test_a_service_of_no_node_names_none(capsys):
    configure()
    structlog.get_logger().info("x")
    assert "node" not in lines(capsys)[0]


def test_the_cause_is_bound_while_its_event_is_handled(capsys):
    configure()
    log = structlog.get_logger()
    with bound_cause("e1", "t1"):
        log.info("inside")
        logging.getLogger("nats").warning("inside too")
    log.info("outside")
    ours, theirs, outside = lines(capsys)
    assert (ours["cause"], ours["trace_id"]) == (theirs["cause"], theirs["trace_id"]) == ("e1", "t1")
    assert "cause" not in outside


def test_a_thread_that_inherits_no_context_still_names_its_service(capsys):
    configure()
    thread = threading.Thread(target=lambda: structlog.get_logger().info("from a thread"))
    thread.start()
    thread.join()
    assert lines(capsys)[0]["service"] == "sample"


def test_lines_below_the_level_are_not_written(capsys):
    configure(log_level="warning")
    structlog.get_logger().info("no")
    logging.getLogger("nats").info("no")
    structlog.get_logger().error("yes")
    assert [line["event"] for line in lines(capsys)] == ["yes"]


def test_configuring_twice_writes_each_line_once(capsys):
    configure()
    configure()
    logging.getLogger("nats").warning("once")
    assert len(lines(capsys)) == 1


def test_a_traceback_is_part_of_its_line(capsys):
    configure()
    try:
        {}["no such pod"]
    except LookupError:
        structlog.get_logger().exception("failed")
    (line,) = lines(capsys)
    assert "KeyError: 'no such pod'" in line["exception"]


def test_a_value_that_is_no_json_does_not_lose_the_line(capsys):
    configure()
    structlog.get_logger().info("odd", value={1}, error=ValueError("x"))
    assert lines(capsys)[0]["event"] == "odd"


def test_a_terminal_gets_text_and_the_setting_wins(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    configure()
    structlog.get_logger().info("for people")
    assert not terminal.getvalue().startswith("{")
    configure(log_format="json")
    structlog.get_logger().info("for machines")
    assert json.loads(terminal.getvalue().splitlines()[-1])["event"] == "for machines"
