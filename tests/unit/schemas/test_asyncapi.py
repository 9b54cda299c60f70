"""The AsyncAPI document is valid by AsyncAPI's own schema, and says of every subject what the code does.

``asyncapi-3.0.0.json.gz`` is ``schemas/3.0.0-without-$id.json`` of the npm package @asyncapi/specs 6.11.1, unmodified
(Copyright AsyncAPI Initiative, Apache-2.0). What a schema can't express (references, parameters) is checked here.
"""

import gzip
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
import yaml

from kvberth_schemas import channels, publish, subjects
from kvberth_schemas.envelope import Envelope
from kvberth_schemas.subjects import AliveSubject, Entity, EventSubject, Service, Verb, WantKind

DOCUMENT = yaml.safe_load((publish.REPOSITORY / "schemas" / "asyncapi.yaml").read_text())
OFFICIAL = json.loads(gzip.decompress(Path(__file__).with_name("asyncapi-3.0.0.json.gz").read_bytes()))
HEADERS = DOCUMENT["components"]["schemas"]["Headers"]


def references(part):
    if isinstance(part, list):
        return [found for one in part for found in references(one)]
    if not isinstance(part, dict):
        return []
    own = [part["$ref"]] if "$ref" in part else []
    return own + [found for one in part.values() for found in references(one)]


def resolve(reference):
    found = DOCUMENT
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return found


def test_the_document_is_valid_by_the_official_schema():
    jsonschema.Draft7Validator(OFFICIAL).validate(DOCUMENT)


@pytest.mark.parametrize("spoilt", [{"adress": "x"}, {"address": 1}, {"messages": {"m": {"payload": 1}}}])
def test_the_official_schema_refuses_a_wrong_channel(spoilt):
    channel = DOCUMENT["channels"]["pod"] | spoilt
    document = DOCUMENT | {"channels": DOCUMENT["channels"] | {"pod": channel}}
    assert not jsonschema.Draft7Validator(OFFICIAL).is_valid(document)


def test_every_reference_leads_somewhere_and_every_schema_file_is_referred_to():
    found = references(DOCUMENT)
    for reference in found:
        if reference.startswith("#/"):
            resolve(reference)
    files = {reference.removeprefix("./json/") for reference in found if reference.startswith("./")}
    assert files == publish.documents().keys()


def test_every_place_of_an_address_is_described_and_none_beside():
    for channel in DOCUMENT["channels"].values():
        places = re.findall(r"{(\w+)}", channel["address"] or "")
        assert sorted(places) == sorted(channel.get("parameters", {}))


def test_every_operation_carries_messages_of_its_own_channel():
    for operation in DOCUMENT["operations"].values():
        for side in (operation, operation.get("reply")):
            if side:
                prefix = side["channel"]["$ref"] + "/messages/"
                assert all(message["$ref"].startswith(prefix) for message in side["messages"])


SPOKEN = {
    "pod": subjects.pod("default", "7c1e"),
    "node": subjects.node("ip-10-0-0-1.ec2.internal"),
    "spec": subjects.spec("default", "k"),
    "status": subjects.status("default", "k"),
    "process": subjects.process("l20-a", "default", "k", "cache"),
    "socket": subjects.socket("l20-a", "default", "k"),
    "health": subjects.health("l20-a", "default", "k"),
    "cache": subjects.cache("default", "k"),
    "blocks": subjects.blocks("l20-a", "default", "k"),
    "transfer": EventSubject(Entity.TRANSFER, "k", "default", "l20-a"),
    **{f"want-{kind}": subjects.want(kind, "l20-a", "default", "k") for kind in WantKind},
    "alive": AliveSubject(Service.PLACEMENT, "i"),
    **{f"api-{verb}": subjects.api(verb) for verb in Verb},
}


def test_every_subject_that_the_code_spells_has_its_one_address():
    addresses = {name: channel["address"] for name, channel in DOCUMENT["channels"].items() if channel["address"]}
    assert addresses.keys() == SPOKEN.keys()
    for name, subject in SPOKEN.items():
        matching = [
            other
            for other, address in addresses.items()
            if re.fullmatch(re.sub(r"{\w+}", r"[^.]+", address.replace(".", r"\.")), str(subject))
        ]
        assert matching == [name], subject


def test_an_envelope_is_written_with_the_headers_that_are_described():
    now = datetime.now(UTC)
    bare = Envelope("id-1", "kvberth.node.gone.v1", "/kvberth/scheduler/x", now, str(subjects.node("n")))
    jsonschema.validate(bare.headers(), HEADERS)
    own = DOCUMENT["components"]["messages"][bare.type]["headers"]["allOf"][1]
    jsonschema.validate(bare.headers(), own)
    assert not jsonschema.Draft7Validator(own).is_valid({"ce-type": "kvberth.node.changed.v1"})
    full = Envelope(bare.id, bare.type, bare.source, now, bare.subject, "cause", "00-1-2-01").headers()
    assert {*full, "kvberth-term"} == HEADERS["properties"].keys()
    assert {name for name in bare.headers() if name in HEADERS["properties"]} == set(HEADERS["required"])


def test_what_only_kvberth_may_say_is_sent_and_what_users_may_ask_is_received():
    for name, operation in DOCUMENT["operations"].items():
        asked = operation["channel"]["$ref"].startswith("#/channels/api-")
        assert operation["action"] == ("receive" if asked else "send"), name
        assert ("reply" in operation) == asked


def test_every_channel_names_a_writer_and_every_message_a_meaning():
    assert all(channel.writers and channel.summary for channel in channels.channels())
    said = [said for channel in channels.channels() for said in channel.messages]
    assert all(one.summary.endswith((".", "?")) for one in said)
