"""Writes the CustomResourceDefinition of KVCache from the models of its manifest: one door on every backend.

Run as ``python -m kvberth_schemas.crd``; with ``--check`` it writes nothing and says when the file is out of date.
What a structural schema can't say (``$ref``, ``anyOf`` with null, both properties and additional ones) is rewritten;
fields that no model knows are kept, so that placement can name them. Nothing is defaulted: what the user left out is
decided, and said, by placement.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel

from kvberth_schemas.manifests.kvcache import API_GROUP, KIND, KVCacheFields
from kvberth_schemas.manifests.status import KVCacheStatusFields

COMMAND: Final = "python -m kvberth_schemas.crd"
FILE: Final = Path(__file__).resolve().parents[2] / "k8s" / "crd" / "kvcaches.yaml"
"""``k8s/crd/kvcaches.yaml`` of the repository."""
LABELS: Final = {"app.kubernetes.io/name": "kvberth", "app.kubernetes.io/part-of": "kvberth"}
"""By these a preflight tells our definition from another's of the same name."""

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_KEPT: Final = (
    "type", "description", "enum", "pattern", "format", "minLength", "maxLength", "minItems", "maxItems", "minimum",
    "maximum", "x-kubernetes-int-or-string", "x-kubernetes-validations", "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
)  # fmt: skip
_MOST_ITEMS: Final = 256
_MOST_KEYS: Final = 64
_COLUMNS: Final = (
    ("Engines", "integer", ".status.engines", "Engines of its workload that are bound to nodes"),
    ("Caches", "integer", ".status.caches", "Nodes whose cache answers"),
    ("Healthy", "string", '.status.conditions[?(@.type=="Healthy")].status', "Whether real bytes go in and come back"),
    ("Moved", "date", ".status.movedTime", "Since the last move"),
    ("Age", "date", ".metadata.creationTimestamp", "Since its creation"),
)
_NAME_RULE: Final = {
    "rule": "self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    "message": "metadata.name is also the name of Services: write at most 63 lower-case letters, digits and '-', "
    "beginning and ending with a letter or digit",
}


class _Plain(yaml.SafeDumper):
    """Writes equal parts out each time: a reader of the file need not know anchors."""

    def ignore_aliases(self, _data: object) -> bool:
        """Always."""
        return True


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition."""
    names = {"plural": "kvcaches", "singular": "kvcache", "kind": KIND, "listKind": f"{KIND}List"}
    columns = [
        {"name": name, "type": type_, "jsonPath": path, "description": text} for name, type_, path, text in _COLUMNS
    ]
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": _root()},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"kvcaches.{API_GROUP}", "labels": dict(LABELS)},
        "spec": {"group": API_GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def document() -> str:
    """The text of the file."""
    head = f"# Generated from schemas/kvberth_schemas/manifests by `{COMMAND}`.\n"
    return head + yaml.dump(definition(), Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """The structural schema of a model."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    found: dict[str, Any] = _structural(schema, schema.get("$defs", {}))
    return found


def main(arguments: Sequence[str]) -> int:
    """Run the command; 1 when ``--check`` found a difference, 2 for wrong arguments."""
    if list(arguments) not in ([], ["--check"]):
        sys.stderr.write(f"usage: {COMMAND} [--check]\n")
        return 2
    if not arguments:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(document(), encoding="utf-8")
        return 0
    if FILE.exists() and FILE.read_text(encoding="utf-8") == document():
        return 0
    sys.stderr.write(f"{FILE.name} is out of date\nRun: {COMMAND}\n")
    return 1


def _root() -> dict[str, Any]:
    text = "A cache of KV blocks that is kept beside every engine of a workload."
    return {
        "type": "object",
        "description": text,
        "required": ["spec"],
        _PRESERVE: True,
        "x-kubernetes-validations": [dict(_NAME_RULE)],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(KVCacheFields),
            "status": structural(KVCacheStatusFields),
        },
    }


def _structural(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    schema = _resolved(schema, defs)
    found: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
    if "description" in found:
        found["description"] = " ".join(found["description"].split())
    if schema.get("nullable"):
        found["nullable"] = True
        if "enum" in found:  # the API server holds null against a list of values, but not against a rule
            found["x-kubernetes-validations"] = [_one_of(found.pop("enum"))]
    if "exclusiveMaximum" in schema:
        found |= {"maximum": schema["exclusiveMaximum"], "exclusiveMaximum": True}
    if "const" in schema:
        found["enum"] = [schema["const"]]
    if schema.get("type") == "array":
        found["items"] = _structural(schema.get("items", {}), defs)
        found.setdefault("maxItems", _MOST_ITEMS)
    elif schema.get("type") == "object":
        found |= _object(schema, defs)
    elif "type" not in found and "x-kubernetes-int-or-string" not in found:
        found[_PRESERVE] = True
    return found


def _one_of(values: list[str]) -> dict[str, str]:
    choices = f"{', '.join(values[:-1])} or {values[-1]}"
    return {"rule": f"self in {values}", "message": f"is not allowed here; write {choices}"}


def _keys_like(pattern: str) -> dict[str, str]:
    quoted = pattern.replace("\\", "\\\\")
    return {
        "rule": f"self.all(key, key.matches('{quoted}'))",
        "message": "a key can't be the key of a label; write it as nodes carry it: nvidia.com/gpu.product",
    }


def _object(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    more = schema.get("additionalProperties", False)
    if "patternProperties" in schema:  # so pydantic writes a map whose keys have a pattern
        ((pattern, value),) = schema["patternProperties"].items()
        rules = {"x-kubernetes-validations": [_keys_like(pattern)]}
        return {"additionalProperties": _structural(value, defs), "maxProperties": _MOST_KEYS, **rules}
    if "properties" not in schema:
        if isinstance(more, dict) and more:
            return {"additionalProperties": _structural(more, defs), "maxProperties": _MOST_KEYS}
        return {_PRESERVE: True}
    properties = {name: _structural(value, defs) for name, value in schema["properties"].items()}
    required = {"required": schema["required"]} if schema.get("required") else {}
    return {"properties": properties, **required, **({_PRESERVE: True} if more else {})}


def _resolved(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """Without references, and with an alternative of null as `nullable`."""
    if "$ref" in schema:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return _resolved({**defs[schema["$ref"].rpartition("/")[2]], **rest}, defs)
    if "anyOf" not in schema:
        return schema
    others = [one for one in schema["anyOf"] if one.get("type") != "null"]
    if len(others) != 1:
        raise ValueError(f"a structural schema knows no alternatives: {schema['anyOf']}")
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**_resolved(others[0], defs), **rest, "nullable": True}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
