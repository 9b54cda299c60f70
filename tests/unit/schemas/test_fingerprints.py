"""A released version keeps its fields: names, types, defaults and which are required."""

import hashlib
import json
from pathlib import Path

from kvberth_schemas.registry import EVENTS, WANTS

COMMITTED = Path(__file__).with_name("fingerprints.json")
PROSE = frozenset({"title", "description"})


def _without_prose(schema):
    """The schema without texts for people. In ``properties`` and ``$defs`` the keys are names, and stay."""
    if isinstance(schema, list):
        return [_without_prose(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_prose(part) for name, part in value.items()}
        if key in {"properties", "$defs"}
        else _without_prose(value)
        for key, value in schema.items()
        if key not in PROSE
    }


def fingerprint(cls):
    text = json.dumps(_without_prose(cls.model_json_schema()), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_the_fields_of_a_released_version_do_not_change():
    present = {ce_type: fingerprint(cls) for ce_type, cls in sorted({**EVENTS, **WANTS}.items())}
    committed = json.loads(COMMITTED.read_text())
    changed = {ce_type: digest for ce_type, digest in present.items() if committed.get(ce_type) != digest}
    assert not changed, (
        f"the fields of {sorted(changed)} are not those in {COMMITTED.name}. Where a field was removed, renamed, given "
        f"another type or made required, add a V2 beside it instead: older readers and stored messages know only the "
        f"V1. For a new type, and for a new field with a default, write there: {json.dumps(changed)}"
    )


def test_no_released_version_disappears():
    known = {**EVENTS, **WANTS}
    assert [ce_type for ce_type in json.loads(COMMITTED.read_text()) if ce_type not in known] == []


def test_a_field_named_title_counts_as_a_field():
    schema = {"title": "T", "properties": {"title": {"title": "Title", "type": "string"}}}
    assert _without_prose(schema) == {"properties": {"title": {"type": "string"}}}
