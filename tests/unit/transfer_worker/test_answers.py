"""A receipt is given after the daemon's word, or not at all."""

from kvberth.store.layout.rings import Outcome
from kvberth.transfer_worker.answers import LATE_NS, Answer, Answers


def answer_at(at_ns: int) -> Answer:
    return Answer(b"c" * 16, 1, at_ns, 1, bytes(32), Outcome.STORED, at_ns)


def test_only_what_was_published_before_the_question_is_answered_by_it() -> None:
    answers = Answers()
    answers.add(answer_at(at_ns) for at_ns in (10, 20, 30))
    assert [answer.at_ns for answer in answers.proved(20)] == [10, 20]
    assert answers.proved(29) == []
    assert len(answers) == 1


def test_what_waits_too_long_is_late_once() -> None:
    answers = Answers()
    answers.add([answer_at(10)])
    assert answers.late(9 + LATE_NS) == []
    assert [answer.at_ns for answer in answers.late(10 + LATE_NS)] == [10]
    assert len(answers) == 0
