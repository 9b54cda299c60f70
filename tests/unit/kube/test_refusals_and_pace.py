"""What the server's refusals mean, and how long one waits after them."""

import json
from random import Random

import pytest

from kvberth.kube import errors
from kvberth.kube.endings import Next, ending_of, ending_of_fault
from kvberth.kube.kinds import Malformed
from kvberth.kube.pace import Pace
from kvberth.kube.refusals import refusal
from kvberth.kube.settings import BackoffSettings, LeaseSettings


def status(code: int, reason: str, message: str = "m", **details: object) -> bytes:
    value = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Expired", errors.Expired),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.Throttled),
        (500, "InternalError", errors.ServerTrouble),
        (418, "", errors.Refused),
    ],
)
def test_each_answer_has_its_error(code: int, reason: str, error: type[errors.Refused]) -> None:
    found = refusal("GET Pod a", code, status(code, reason, "so it is"))
    assert type(found) is error
    assert str(found).startswith(f"GET Pod a was refused with {code}")
    assert str(found).endswith(": so it is")


def test_a_proxys_page_is_quoted_and_not_believed() -> None:
    found = refusal("list of Pod", 502, b"<html>\n <b>Bad</b>\n" + b"x" * 5000)
    assert isinstance(found, errors.ServerTrouble)
    assert "<html> <b>Bad</b>" in str(found)
    assert len(str(found)) < 300


def test_causes_and_the_asked_wait_are_kept() -> None:
    body = status(429, "TooManyRequests", causes=[{"reason": "DisruptionBudget", "message": "needs 2"}, "odd"])
    found = refusal("evict", 429, body, "3")
    assert found.causes == (errors.Cause("DisruptionBudget", "needs 2"),)
    assert found.retry_after_s == 3.0
    assert refusal("evict", 429, status(429, "", retryAfterSeconds=7)).retry_after_s == 7.0
    assert refusal("evict", 429, b"", "Wed, 21 Oct 2026 07:28:00 GMT").retry_after_s is None


def test_what_ends_a_watch_decides_how_it_goes_on() -> None:
    gone = refusal("watch", 410, status(410, "Expired"))
    assert ending_of(gone).next is Next.RELIST
    assert ending_of(Malformed("<html>")).next is Next.RELIST
    assert ending_of(errors.Unreachable("reset")).next is Next.RESUME_LATER
    assert ending_of(errors.DeadlinePassed("no answer")).word == "unanswered"
    throttled = ending_of(refusal("watch", 429, b"", "2"))
    assert (throttled.next, throttled.asked_s) == (Next.RESUME_LATER, 2.0)
    assert ending_of_fault(refusal("watch", 500, b"")).next is Next.RELIST, (
        "unknown: a lost change is never found again"
    )
    assert ending_of_fault(refusal("watch", 429, b"", "2")).next is Next.RESUME_LATER


def test_waits_are_drawn_within_their_bounds_and_forgotten_after_a_good_while() -> None:
    settings = BackoffSettings(first_s=0.5, most_s=30.0, forget_after_s=60.0)
    pace = Pace(settings, Random(1))
    last = 0.5
    for _ in range(50):
        wait = pace.wait_s(good_s=59.0)
        assert 0.5 <= wait <= min(30.0, 3 * last)
        last = wait
    assert last > 1.5
    assert pace.wait_s(good_s=60.0) <= 1.5
    assert pace.wait_s(asked_s=99.0) == 99.0


def test_lease_times_that_let_two_work_at_once_are_refused() -> None:
    with pytest.raises(ValueError, match="must not pass duration_s"):
        LeaseSettings(namespace="n", name="l", identity="i", duration_s=10, renew_deadline_s=9, stop_s=2)
