"""The committed CustomResourceDefinition is what the models say, and keeps what they do not know."""

from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from kvberth_schemas import crd
from kvberth_schemas.manifests.kvcache import KVCacheFields


def test_the_committed_definition_is_generated_from_the_models() -> None:
    assert crd.FILE.read_text() == crd.document(), f"run: {crd.COMMAND}"


def test_a_check_tells_a_difference_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kvcaches.yaml"
    monkeypatch.setattr(crd, "FILE", file)
    assert crd.main(["--check"]) == 1
    assert not file.exists()
    assert crd.main([]) == 0
    assert crd.main(["--check"]) == 0
    file.write_text(file.read_text().replace("minimum: 0", "minimum: 1"))
    assert crd.main(["--check"]) == 1
    assert "out of date" in capsys.readouterr().err
    assert crd.main(["--unknown"]) == 2


def walk(schema: dict) -> list[dict]:
    below = [*schema.get("properties", {}).values()]
    below += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    return [schema, *(found for one in below for found in walk(one))]


def test_the_schema_is_structural_and_defaults_nothing() -> None:
    definition = yaml.safe_load(crd.FILE.read_text())
    schemas = walk(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    assert len(schemas) > 100
    for schema in schemas:
        assert not {"$ref", "anyOf", "default", "title"} & set(schema)
        assert not {"properties", "additionalProperties"} <= set(schema)
        assert schema.get("type") or schema.keys() & {
            "x-kubernetes-int-or-string",
            "x-kubernetes-preserve-unknown-fields",
        }


def test_every_field_of_both_generations_is_known_and_others_are_kept() -> None:
    schema = crd.structural(KVCacheFields)
    assert {"cacheSpec", "cache", "service", "metadata", "pools", "blockStore", "gate"} <= set(schema["properties"])
    for part in (schema, schema["properties"]["cacheSpec"], schema["properties"]["cache"]["properties"]["resources"]):
        assert part["x-kubernetes-preserve-unknown-fields"] is True


def test_alternatives_that_no_structural_schema_knows_are_refused() -> None:
    class Either(BaseModel):
        value: int | str

    with pytest.raises(ValueError, match="knows no alternatives"):
        crd.structural(Either)
