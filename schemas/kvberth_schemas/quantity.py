"""Kubernetes quantities, parsed as the API server parses them, with sentences for what people really write.

Pure. Never guesses a value: a wrong quantity raises `QuantityError`, whose words name the right spelling.
"""

import re
from decimal import ROUND_CEILING, ROUND_UP, Context, Decimal
from typing import Final

MAX_VALUE: Final = 2**63 - 1
"""The API server caps every quantity here (and at its negative)."""

_MAX_TEXT = 64
_HUGE = 10**_MAX_TEXT // 10
_MAX_EXPONENT = 400  # far beyond every cap, far below what makes Decimal arithmetic slow
_EXACT = Context(prec=1024)
_NANO = Decimal("1e-9")

_BINARY = {f"{letter}i": 2 ** (10 * power) for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL_EXPONENT = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_QUANTITY = re.compile(rf"({_NUMBER})(?:([KMGTPE]i|[numkMGTPE]?)|[eE]([+-]?[0-9]+))")
_NUMBER_AND_WORD = re.compile(rf"({_NUMBER})\s*(\S.*)?")
_BYTE_UNIT = re.compile(r"([kmgtpe])(i?)(?:b|byte|bytes)?", re.IGNORECASE)


class QuantityError(ValueError):
    """A text that is no usable quantity: `problem` says what is wrong, `remedy` what would be right."""

    def __init__(self, problem: str, remedy: str) -> None:
        """Keep both halves, so that a field path can stand before them."""
        super().__init__(f"{problem}; {remedy}")
        self.problem = problem
        self.remedy = remedy


def parse_quantity(value: object) -> Decimal:
    """Return the value of a quantity (text, or a number as YAML gives it), capped at ±(2^63-1), in steps of 10^-9.

    Raises QuantityError.
    """
    exact = _exact(value)
    # The API server rounds away from zero to whole nano units, then caps.
    rounded = exact.quantize(_NANO, rounding=ROUND_UP, context=_EXACT)
    return max(min(rounded, Decimal(MAX_VALUE)), Decimal(-MAX_VALUE))


def check_amount(value: object) -> Decimal:
    """Return the value of a quantity that counts a resource: neither negative nor above 2^63-1.

    Raises QuantityError.
    """
    exact = _exact(value)
    if exact < 0:
        raise QuantityError(f"{_shown(value)} is negative", "write an amount of 0 or more")
    if exact > MAX_VALUE:
        problem = f"{_shown(value)} is more than 2^63-1, the largest amount that Kubernetes can hold"
        raise QuantityError(problem, "write what a node can really give, such as 72Gi of memory, 32 cores or 8 GPUs")
    return parse_quantity(value)


def parse_bytes(value: object) -> int:
    """Return a whole number of bytes. Raises QuantityError, also for parts of a byte (`72m` is 0.072 bytes)."""
    amount = check_amount(value)
    if amount != amount.to_integral_value():
        problem = f"{_shown(value)} is {_plain(amount)} bytes"
        raise QuantityError(problem, "write whole bytes ('m' means thousandths, 'M' 10^6, 'Mi' 2^20)")
    return int(amount)


def parse_cpu(value: object) -> Decimal:
    """Return cores, in steps of a thousandth (rounded up, as the scheduler counts them). Raises QuantityError."""
    return check_amount(value).quantize(Decimal("0.001"), rounding=ROUND_CEILING, context=_EXACT)


def format_bytes(count: int) -> str:
    """Return bytes as people write them, such as `68.4Gi`: rounded to one decimal place of the fitting unit."""
    sign, size = ("-", -count) if count < 0 else ("", count)
    unit, factor = "", 1
    for name, value in _BINARY.items():
        # From 1023.95 of a unit on, the next one reads better than its rounded 1024.
        if size * 20 >= value * 20 - value // 1024:
            unit, factor = name, value
    whole, tenth = divmod((size * 20 + factor) // (2 * factor), 10)
    return f"{sign}{whole}.{tenth}{unit}" if tenth else f"{sign}{whole}{unit}"


def _exact(value: object) -> Decimal:
    """The value without rounding or cap; what is no quantity ends here."""
    text = _text(value)
    match = _QUANTITY.fullmatch(text)
    if match is None or len(text) > _MAX_TEXT:
        raise _explain(text)
    number, suffix, exponent = match.groups()
    if suffix in _BINARY:
        return _EXACT.multiply(Decimal(number), Decimal(_BINARY[suffix]))
    power = _DECIMAL_EXPONENT[suffix] if exponent is None else _clipped(exponent)
    return _EXACT.scaleb(Decimal(number), Decimal(power))


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(f"{_shown(value)} is no quantity", "write a number with a unit, such as 72Gi or 500m")
    if isinstance(value, int) and abs(value) > _HUGE:
        return "1e400" if value > 0 else "-1e400"  # Python refuses to write very long numbers out
    return str(value)


def _clipped(exponent: str) -> int:
    return max(-_MAX_EXPONENT, min(_MAX_EXPONENT, int(exponent)))


def _explain(text: str) -> QuantityError:
    """The sentence for a text that is no quantity."""
    if not text.strip():
        return QuantityError("is empty", "write a quantity, such as 72Gi for memory or 2 for cpu, or leave it out")
    shown = _shown(text)
    stripped = text.strip()
    with_point = stripped.replace(",", ".")
    if len(text) > _MAX_TEXT:
        return QuantityError(f"{shown} is too long for a quantity", f"write at most {_MAX_TEXT} characters")
    if _QUANTITY.fullmatch(stripped):
        return QuantityError(f"{shown} has spaces around it", f"write {stripped}")
    if with_point != stripped and _QUANTITY.fullmatch(with_point):
        return QuantityError(f"{shown} has a comma", f"write {with_point}")
    match = _NUMBER_AND_WORD.fullmatch(stripped)
    if match is None or match[2] is None:
        return QuantityError(f"{shown} is no quantity", "write a number with a unit, such as 72Gi, 72G or 500m")
    return _explain_unit(shown, match[1], match[2])


def _explain_unit(shown: str, number: str, unit: str) -> QuantityError:
    if _QUANTITY.fullmatch(number + unit):
        return QuantityError(f"{shown} has a space in it", f"write {number}{unit}")
    problem = f"{shown}: {_quoted(unit)} is no unit of Kubernetes"
    match = _BYTE_UNIT.fullmatch(unit)
    if match is None:
        if unit.lower() in {"core", "cores", "cpu", "cpus", "vcpu", "vcpus", "b", "byte", "bytes"}:
            return QuantityError(problem, f"write {number}")
        return QuantityError(problem, "use Ki, Mi, Gi, Ti, Pi, Ei (powers of 1024) or m, k, M, G, T, P, E")
    letter = match[1].upper()
    binary = f"{letter}i"
    power = _BINARY[binary].bit_length() - 1
    if match[2]:
        return QuantityError(problem, f"write {number}{binary} (2^{power})")
    decimal = "k" if letter == "K" else letter
    ten = _DECIMAL_EXPONENT[decimal]
    return QuantityError(problem, f"write {number}{decimal} (10^{ten}) or {number}{binary} (2^{power})")


def _plain(value: Decimal) -> str:
    return f"{value.normalize(_EXACT):f}"


def _shown(value: object) -> str:
    if isinstance(value, str):
        return _quoted(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return _cut(_text(value) if number else repr(value))


def _quoted(text: str) -> str:
    return f"'{_cut(text if text.isprintable() else ascii(text)[1:-1])}'"


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
