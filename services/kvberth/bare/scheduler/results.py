"""The scheduler's answers to requests, in the words of the bus. Pure."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from kvberth.bare.scheduler.records import ManifestRecord
from kvberth_schemas.manifests import Complaint
from kvberth_schemas.requests import Outcome, Result

MOST: Final = 65
"""Sentences about one object; who corrects these is told the next."""
MOST_RESULTS: Final = 1000
_ROOM_BYTES: Final = 400_000
_CUT: Final = "more is said when it is applied by itself"


def fitting(results: Sequence[Result]) -> list[Result]:
    """Return results that fit into one reply: where they are too many or too long, the later ones tell less."""
    found, room = [], _ROOM_BYTES
    for result in results[:MOST_RESULTS]:
        length = sum(len(text.encode(errors="replace")) for text in (result.sentence, *result.warnings))
        names = {"kind": result.kind[:63], "name": result.name[:253], "namespace": result.namespace}
        said = {} if length <= room else {"sentence": _CUT, "warnings": (), "field": None}
        found.append(result.model_copy(update={**names, **said}))
        room -= 0 if said else length
    if rest := results[MOST_RESULTS:]:
        worst = Outcome.REFUSED if any(one.outcome is Outcome.REFUSED for one in rest) else Outcome.ACCEPTED
        sentence = f"{len(rest)} more results are not told one by one"
        found.append(Result(kind="", namespace=None, name="", outcome=worst, sentence=sentence))
    return found


def accepted(
    kind: str, namespace: str | None, name: str, sentence: str = "", complaints: Iterable[Complaint] = ()
) -> Result:
    """Say that a request was taken up, and why the object will not be acted on, where that is so."""
    warnings = tuple(islice((complaint.sentence() for complaint in complaints), MOST))
    return Result(
        kind=kind, namespace=namespace, name=name, outcome=Outcome.ACCEPTED, sentence=sentence, warnings=warnings
    )


def ignored(kind: str, namespace: str | None, name: str, sentence: str) -> Result:
    """Say that an object has no effect here, and why."""
    return Result(kind=kind, namespace=namespace, name=name, outcome=Outcome.IGNORED, sentence=sentence)


def refused(kind: str, namespace: str | None, name: str, sentence: str) -> Result:
    """Say that a request was turned down, and why."""
    return Result(kind=kind, namespace=namespace, name=name, outcome=Outcome.REFUSED, sentence=sentence)


def refused_for(kind: str, namespace: str | None, name: str, complaints: Iterable[Complaint]) -> list[Result]:
    """Say what is wrong with an object: one result per complaint, each with its field."""
    return [
        Result(
            kind=kind,
            namespace=namespace,
            name=name,
            outcome=Outcome.REFUSED,
            field=complaint.field,
            sentence=complaint.sentence(),
        )
        for complaint in islice(complaints, MOST)
    ]


def held_back(result: Result, source: str) -> Result:
    """Say of an object that was taken up that it is not, since another of its text was refused."""
    if result.outcome is not Outcome.ACCEPTED:
        return result
    sentence = f"is not applied, since another object of {source} was refused"
    return result.model_copy(update={"outcome": Outcome.HELD_BACK, "sentence": sentence})


def of_manifest(record: ManifestRecord, sentence: str) -> Result:
    """Say that something was done with a manifest."""
    return accepted(record.kind, record.namespace, record.name, sentence)
