"""The committed JSON Schema files are what the classes say."""

import json

import jsonschema
import pytest

from kvberth_schemas import publish
from kvberth_schemas.registry import EVENTS, WANTS


def test_committed_schema_files_are_what_the_classes_give():
    found = publish.differences()
    assert not found, f"{'; '.join(found)}. Run: {publish.COMMAND}"


@pytest.mark.parametrize("name", sorted(publish.documents()))
def test_every_file_is_a_json_schema_with_its_own_id_and_title(name):
    schema = json.loads(publish.documents()[name])
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:kvberth:schema:{name.removesuffix('.json')}"
    assert schema["title"] == name.removesuffix(".json")


def test_every_registered_event_and_want_has_a_file():
    assert {f"{ce_type}.json" for ce_type in {**EVENTS, **WANTS}} <= publish.documents().keys()


def test_every_verb_has_a_request_and_a_reply():
    assert set(publish.Verb) == publish.REQUESTS.keys()


def test_publishing_repairs_what_the_check_finds(tmp_path):
    publish.publish(tmp_path)
    assert publish.differences(tmp_path) == []
    names = sorted(publish.documents())
    (tmp_path / names[0]).unlink()
    (tmp_path / names[1]).write_text("{}\n")
    (tmp_path / "kvberth.old.v1.json").write_text("{}\n")
    assert publish.differences(tmp_path) == [
        f"{names[0]} is missing",
        f"{names[1]} is out of date",
        "kvberth.old.v1.json belongs to no message",
    ]
    publish.publish(tmp_path)
    assert publish.differences(tmp_path) == []


def test_the_check_fails_and_names_the_command_that_repairs(monkeypatch, capsys):
    monkeypatch.setattr(publish, "differences", lambda: ["kvberth.x.v1.json is missing"])
    assert publish.main(["--check"]) == 1
    assert publish.COMMAND in capsys.readouterr().err


def test_an_unknown_argument_is_refused_with_the_usage(capsys):
    assert publish.main(["--chek"]) == 2
    assert "usage:" in capsys.readouterr().err
