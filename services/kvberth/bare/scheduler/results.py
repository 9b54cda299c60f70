"""The scheduler's answers to requests, in the words of the bus. Pure."""

from collections.abc import Iterable

from kvberth.bare.scheduler.records import ManifestRecord
from kvberth_schemas.manifests import Complaint
from kvberth_schemas.requests import Outcome, Result


def accepted(
    kind: str, namespace: str | None, name: str, sentence: str = "", complaints: Iterable[Complaint] = ()
) -> Result:
    """Say that a request was taken up, and why the object will not be acted on, where that is so."""
    warnings = tuple(complaint.sentence() for complaint in complaints)
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
        for complaint in complaints
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
