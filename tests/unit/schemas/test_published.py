"""The committed JSON Schema files, AsyncAPI document and tables are what the classes say."""

import json
import shutil

import jsonschema
import pytest

from kvberth_schemas import natsconf, publish, tables
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


@pytest.fixture
def copy(tmp_path):
    """A copy of the published files, for tests that spoil them."""
    for name in ("schemas/asyncapi.yaml", "docs/events.md", *natsconf.FILES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(publish.REPOSITORY / name, tmp_path / name)
    shutil.copytree(publish.REPOSITORY / "schemas" / "json", tmp_path / "schemas" / "json")
    return tmp_path


def test_publishing_repairs_what_the_check_finds(copy):
    assert publish.differences(copy) == []
    names = [f"schemas/json/{name}" for name in sorted(publish.documents())]
    (copy / names[0]).unlink()
    (copy / names[1]).write_text("")
    (copy / "schemas/json/kvberth.old.v1.json").write_text("{}\n")
    (copy / "schemas/asyncapi.yaml").write_text("asyncapi: 3.0.0\n")
    page = copy / "docs/events.md"
    page.write_text(page.read_text().replace("`kvberth.evt.v1.-.-.{node}.node`", "`kvberth.evt.v1.{node}.node`"))
    assert publish.differences(copy) == [
        f"{names[0]} is missing",
        f"{names[1]} is out of date",
        "schemas/asyncapi.yaml is out of date",
        "docs/events.md is out of date",
        "schemas/json/kvberth.old.v1.json belongs to no message",
    ]
    publish.publish(copy)
    assert publish.differences(copy) == []
    assert page.read_text() == (publish.REPOSITORY / "docs/events.md").read_text()


def test_a_page_without_a_table_is_refused_with_the_marks_that_would_be_right(copy):
    page = copy / "docs/events.md"
    page.write_text(page.read_text().replace("<!-- table: wants -->", "<!-- table: wishes -->"))
    with pytest.raises(tables.TableError, match=r"wishes.*<!-- table: wants --> … <!-- end -->"):
        publish.differences(copy)


def test_the_check_fails_and_names_the_command_that_repairs(monkeypatch, capsys):
    monkeypatch.setattr(publish, "differences", lambda: ["kvberth.x.v1.json is missing"])
    assert publish.main(["--check"]) == 1
    assert publish.COMMAND in capsys.readouterr().err


def test_an_unknown_argument_is_refused_with_the_usage(capsys):
    assert publish.main(["--chek"]) == 2
    assert "usage:" in capsys.readouterr().err
