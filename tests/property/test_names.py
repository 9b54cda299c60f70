"""Names become tokens and come back, whatever they hold."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvberth_schemas import names
from kvberth_schemas.subjects import AliveSubject, Entity, EventSubject, Service, WantKind, WantSubject

NAMES = st.text(st.characters(exclude_categories=["Cs"]))
NEAR_TOKENS = st.text(st.sampled_from("=-_.*> aZ09AFf2ED\n\x00é"))


@given(NAMES)
def test_a_name_comes_back_from_its_token(name):
    assert names.decode(names.encode(name)) == name


@given(NAMES)
def test_a_token_is_one_legal_subject_token_and_never_none(name):
    token = names.encode(name)
    assert re.fullmatch(r"[A-Za-z0-9_=-]+", token)
    assert token != names.NONE


@given(NAMES, NAMES)
def test_two_names_never_share_a_token(one, other):
    assert (names.encode(one) == names.encode(other)) == (one == other)


@given(st.one_of(st.text(), NEAR_TOKENS))
def test_a_text_is_decoded_only_when_it_is_the_one_encoding_of_a_name(text):
    try:
        name = names.decode(text)
    except ValueError:
        return
    assert names.encode(name) == text


@given(st.sampled_from(Entity), NAMES, st.none() | NAMES, st.none() | NAMES)
def test_an_event_subject_parses_back(entity, name, namespace, node):
    subject = EventSubject(entity, name, namespace, node)
    assert EventSubject.parse(str(subject)) == subject


@given(st.sampled_from(WantKind), NAMES, NAMES, NAMES)
def test_a_want_subject_parses_back(what, node, namespace, name):
    subject = WantSubject(what, node, namespace, name)
    assert WantSubject.parse(str(subject)) == subject


@given(st.sampled_from(Service), NAMES, st.none() | NAMES)
def test_an_alive_subject_parses_back(service, instance, node):
    subject = AliveSubject(service, instance, node)
    assert AliveSubject.parse(str(subject)) == subject


@pytest.mark.parametrize("parse", [EventSubject.parse, WantSubject.parse, AliveSubject.parse])
@given(text=st.one_of(st.text(), st.lists(NEAR_TOKENS).map(".".join)))
def test_parsing_raises_nothing_but_value_error(parse, text):
    try:
        subject = parse(text)
    except ValueError:
        return
    assert str(subject) == text
