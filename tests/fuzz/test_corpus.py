"""What once failed in a parser never fails again; and every parser takes its own seeds."""

import pytest
from tests.fuzz.loop import replay
from tests.fuzz.parsers import CORPUS, parsers

PARSERS = parsers()
KEPT = sorted(path.relative_to(CORPUS).as_posix() for path in CORPUS.glob("*/*"))


@pytest.mark.parametrize("name", KEPT)
def test_what_once_failed_is_taken(name):
    failure = replay(PARSERS[name.split("/")[0]], (CORPUS / name).read_bytes())
    assert failure is None, failure.what


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_seeds_lead_to_more_than_one_outcome_and_none_fails(name):
    parser = PARSERS[name]
    assert not [failure.what for data in parser.seeds if (failure := replay(parser, data)) is not None]
    assert len({parser.read(data) for data in (*parser.seeds, b"")}) > 1


def test_every_folder_of_the_corpus_is_a_parsers():
    assert {name.split("/")[0] for name in KEPT} <= set(PARSERS)
