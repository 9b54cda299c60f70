"""Quantities: the API server's grammar, and the sentences for what people write instead."""

from decimal import Decimal

import pytest

from kvberth_schemas.quantity import MAX_VALUE, QuantityError, format_bytes, parse_bytes, parse_cpu, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"),
        ("+5", "5"),
        ("-5", "-5"),
        ("5.", "5"),
        (".5", "0.5"),
        ("0.5", "0.5"),
        ("1500m", "1.5"),
        ("4000m", "4"),
        ("100n", "1e-7"),
        ("3u", "3e-6"),
        ("1k", "1000"),
        ("72G", "72e9"),
        ("1T", "1e12"),
        ("1P", "1e15"),
        ("1E", "1e18"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1e-3", "0.001"),
        ("8e9", "8e9"),
        ("1Ki", "1024"),
        ("0.5Ki", "512"),
        ("72Gi", str(72 * 2**30)),
        ("1Ti", str(2**40)),
        ("1Pi", str(2**50)),
        ("1Ei", str(2**60)),
        ("0.1n", "1e-9"),  # rounded away from zero to whole nano units
        ("-0.1n", "-1e-9"),
        ("9999999Ei", str(MAX_VALUE)),  # capped
        ("-9999999Ei", str(-MAX_VALUE)),
        ("1e999999999999", str(MAX_VALUE)),
    ],
)
def test_a_quantity_has_the_value_that_the_api_server_gives_it(text: str, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize(
    ("value", "expected"), [(4, 4), (77309411328, 77309411328), (0.5, Decimal("0.5")), (1e16, 10**16)]
)
def test_numbers_as_yaml_gives_them_are_quantities(value: float, expected: Decimal) -> None:
    assert parse_quantity(value) == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("72GB", ["'72GB': 'GB' is no unit of Kubernetes", "write 72G (10^9) or 72Gi (2^30)"]),
        ("72kb", ["write 72k (10^3) or 72Ki (2^10)"]),
        ("72K", ["'K' is no unit", "write 72k (10^3) or 72Ki (2^10)"]),
        ("72g", ["write 72G (10^9) or 72Gi (2^30)"]),
        ("72gi", ["'gi' is no unit", "write 72Gi (2^30)"]),
        ("72GiB", ["write 72Gi (2^30)"]),
        ("72 Gi", ["has a space in it", "write 72Gi"]),
        (" 72Gi ", ["' 72Gi ' has spaces around it", "write 72Gi"]),
        ("72,5Gi", ["has a comma", "write 72.5Gi"]),
        ("4 cores", ["'cores' is no unit", "write 4"]),
        ("512 bytes", ["write 512"]),
        ("12parsecs", ["'parsecs' is no unit", "use Ki, Mi, Gi"]),
        ("", ["is empty"]),
        ("  ", ["is empty"]),
        ("lots", ["'lots' is no quantity", "such as 72Gi"]),
        (".", ["is no quantity"]),
        ("1e", ["'e' is no unit"]),
        ("9" * 65, ["is too long"]),
        (True, ["True is no quantity"]),
        (None, ["None is no quantity"]),
        (float("nan"), ["'nan' is no quantity"]),
        (float("inf"), ["'inf' is no quantity"]),
        ("72Gi\n", ["has spaces around it"]),
    ],
)
def test_what_is_no_quantity_is_answered_with_what_would_be_right(value: object, words: list[str]) -> None:
    with pytest.raises(QuantityError) as raised:
        parse_quantity(value)
    for part in words:
        assert part in str(raised.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("-1Gi", "'-1Gi' is negative"),
        ("72m", "'72m' is 0.072 bytes"),
        ("1500m", "'1500m' is 1.5 bytes"),
        ("9999999Ei", "'9999999Ei' is more than 2^63-1"),
        (2**63, f"{2**63} is more than 2^63-1"),
        pytest.param(10**5000, "1e400 is more than 2^63-1", id="without measure"),
        pytest.param(-(10**5000), "-1e400 is negative", id="negative without measure"),
    ],
)
def test_memory_is_whole_bytes_within_bounds(value: object, words: str) -> None:
    with pytest.raises(QuantityError) as raised:
        parse_bytes(value)
    assert str(raised.value).startswith(words)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("72Gi", 72 * 2**30), ("72G", 72 * 10**9), ("2", 2), (MAX_VALUE, MAX_VALUE), ("128974848000m", 128974848)],
)
def test_memory_is_read_as_bytes(value: object, expected: int) -> None:
    assert parse_bytes(value) == expected


def test_what_is_too_much_names_amounts_of_every_kind_since_nobody_knows_which_was_meant() -> None:
    with pytest.raises(QuantityError, match="such as 72Gi of memory, 32 cores or 8 GPUs"):
        parse_cpu("9999999Ei")


def test_cpu_is_read_in_cores_and_rounded_up_to_a_thousandth() -> None:
    assert parse_cpu("4000m") == 4
    assert parse_cpu("0.5") == Decimal("0.5")
    assert parse_cpu("1n") == Decimal("0.001")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (1023, "1023"),
        (1024, "1Ki"),
        (72 * 2**30, "72Gi"),
        (72 * 2**30 * 95 // 100, "68.4Gi"),
        (2**30 - 1, "1Gi"),
        (2**30 - 2**20, "1023Mi"),
        (2**40 - 2**24, "1Ti"),
        (2**40 - 2**27, "1023.9Gi"),
        (-(2**30), "-1Gi"),
        (MAX_VALUE, "8Ei"),
    ],
)
def test_bytes_are_written_as_people_write_them(count: int, text: str) -> None:
    assert format_bytes(count) == text
