"""Quantities hold for every text: no crash, no lost value, no order turned round."""

import contextlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvberth_schemas.quantity import MAX_VALUE, QuantityError, format_bytes, parse_bytes, parse_quantity

_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {f"{letter}i": 2 ** (10 * power) for power, letter in enumerate("KMGTPE", start=1)}
_numbers = st.decimals(min_value=-1000, max_value=1000, places=3).map(lambda number: f"{number:f}")
_quantities = st.builds(str.__add__, _numbers, st.sampled_from([*_SUFFIXES, *_BINARY]))
_anything = st.one_of(
    st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.integers()), st.binary()
)


def _factor(suffix: str) -> Decimal:
    return Decimal(_BINARY[suffix]) if suffix in _BINARY else Decimal(10) ** _SUFFIXES[suffix]


@given(_numbers, st.sampled_from([*_SUFFIXES, *_BINARY]))
def test_a_quantity_is_its_number_times_its_unit(number: str, suffix: str) -> None:
    exact = Decimal(number) * _factor(suffix)
    found = parse_quantity(number + suffix)
    if abs(exact) > MAX_VALUE:
        assert found == Decimal(MAX_VALUE).copy_sign(exact)
    else:
        assert abs(exact) <= abs(found)
        assert abs(found - exact) < Decimal("1e-9")


@given(
    st.one_of(
        _anything, _quantities, st.from_regex(r"[+-]?[0-9.]{0,70} ?[a-zA-Z]{0,4}[+-]?[0-9]{0,30}", fullmatch=True)
    )
)
def test_any_value_is_a_quantity_or_one_readable_sentence(value: object) -> None:
    for parse in (parse_quantity, parse_bytes):
        with contextlib.suppress(QuantityError):
            parse(value)
            continue
        with pytest.raises(QuantityError) as raised:
            parse(value)
        error = raised.value
        assert error.problem
        assert error.remedy
        assert len(str(error)) < 300
        assert str(error).isprintable()


@given(st.integers(min_value=0, max_value=MAX_VALUE))
def test_formatted_bytes_parse_back_to_within_a_twentieth(count: int) -> None:
    assert abs(count - parse_quantity(format_bytes(count))) <= Decimal(count) / 20


@given(st.integers(min_value=0, max_value=MAX_VALUE), st.integers(min_value=0, max_value=MAX_VALUE))
def test_formatting_keeps_the_order(first: int, second: int) -> None:
    low, high = sorted((first, second))
    assert parse_quantity(format_bytes(low)) <= parse_quantity(format_bytes(high))


@given(st.integers(min_value=0, max_value=MAX_VALUE))
def test_whole_bytes_survive_as_number_and_as_text(count: int) -> None:
    assert parse_bytes(count) == parse_bytes(str(count)) == count


@given(st.integers(min_value=MAX_VALUE + 1))
def test_memory_above_the_cap_is_never_taken(count: int) -> None:
    with pytest.raises(QuantityError):
        parse_bytes(count)
