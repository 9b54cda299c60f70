"""Readiness checks: each answers for itself."""

import pytest

from kvberth.service import Checks


def test_results_name_every_check_with_its_sentence():
    checks = Checks()
    checks.register("bus", lambda: None)
    checks.register("view", lambda: "The view is 7 s old.")
    assert checks.results() == {"bus": None, "view": "The view is 7 s old."}
    checks.unregister("view")
    assert checks.results() == {"bus": None}


def test_a_check_that_raises_is_not_ready_and_hides_no_other():
    checks = Checks()
    checks.register("broken", lambda: str(1 // 0))
    checks.register("bus", lambda: None)
    assert checks.results() == {
        "broken": "The check itself failed: ZeroDivisionError: integer division or modulo by zero.",
        "bus": None,
    }


def test_a_name_is_taken_once():
    checks = Checks()
    checks.register("bus", lambda: None)
    with pytest.raises(ValueError, match="bus"):
        checks.register("bus", lambda: None)


def test_the_first_fatal_fault_stays():
    checks = Checks()
    assert checks.fatal is None
    checks.fail("The bus client closed for good.")
    checks.fail("Something that followed from it.")
    assert checks.fatal == "The bus client closed for good."
