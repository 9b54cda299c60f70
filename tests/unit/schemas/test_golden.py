"""Payloads that released versions wrote; they only grow, and every one of them is read for ever.

A new payload gets its line in ``golden/SHA256SUMS`` (``sha256sum <type>/<file>``).
"""

import hashlib
import json
from pathlib import Path

import jsonschema
import pytest

from kvberth_schemas import publish
from kvberth_schemas.registry import EVENTS, WANTS, address, decode, encode

GOLDEN = Path(__file__).with_name("golden")
PAYLOADS = sorted(path.relative_to(GOLDEN).as_posix() for path in GOLDEN.glob("*/*.json"))


def _sums():
    lines = (GOLDEN / "SHA256SUMS").read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def test_every_type_has_a_payload():
    assert {name.split("/")[0] for name in PAYLOADS} == {*EVENTS, *WANTS}


def test_golden_payloads_only_grow():
    present = {name: hashlib.sha256((GOLDEN / name).read_bytes()).hexdigest() for name in PAYLOADS}
    changed = [name for name, digest in _sums().items() if present.get(name) != digest]
    assert not changed, f"{changed} were changed or removed: they are what a release wrote; add a new file beside them"
    unlisted = sorted(present.keys() - _sums().keys())
    assert not unlisted, f"add the lines of {unlisted} to {GOLDEN.name}/SHA256SUMS, so that they stay as they are"


@pytest.mark.parametrize("name", PAYLOADS)
def test_every_payload_decodes_and_no_field_is_lost(name):
    payload = json.loads((GOLDEN / name).read_text())
    message = decode(name.split("/")[0], (GOLDEN / name).read_bytes())
    assert all(address(message).values())
    written = json.loads(encode(message))
    assert _of_it(written, payload) == payload


def _of_it(written, payload):
    """What is written of what a payload holds: fields that came later have their defaults."""
    if isinstance(payload, dict):
        return {key: _of_it(written.get(key), value) for key, value in payload.items()}
    if isinstance(payload, list) and len(payload) == len(written):
        return [_of_it(now, then) for now, then in zip(written, payload, strict=True)]
    return written


@pytest.mark.parametrize("name", PAYLOADS)
def test_every_payload_is_valid_by_the_published_schema_when_written_today(name):
    ce_type = name.split("/")[0]
    message = decode(ce_type, (GOLDEN / name).read_bytes())
    jsonschema.validate(json.loads(encode(message)), json.loads(publish.documents()[f"{ce_type}.json"]))
