"""What conflicts, fences and managedFields mean."""

from kvberth.kube.conflicts import ConflictKind, explain
from kvberth.kube.errors import Cause, Conflict, Forbidden
from kvberth.kube.fence import FenceVerdict, fence_verdict
from kvberth.kube.ownership import as_applied


def conflict(sentence: str, *causes: Cause) -> Conflict:
    return Conflict(sentence, status=409, reason="Conflict", causes=causes)


def test_fields_of_others_are_named_with_their_owner() -> None:
    cause = Cause("FieldManagerConflict", 'conflict with "kubectl-edit" using v1', ".data.a")
    report = explain("ConfigMap ns/a", conflict("Apply failed with 1 conflict", cause))
    assert report.kind is ConflictKind.OWNERSHIP
    assert report.fields == ((".data.a", "kubectl-edit"),)
    assert report.sentence == "ConfigMap ns/a was not changed: .data.a belongs to kubectl-edit"


def test_another_object_of_the_name_is_told_from_another_version() -> None:
    gone = "uid mismatch: the provided object specified uid x, and no existing object was found"
    assert explain("Pod ns/a", conflict(gone)).kind is ConflictKind.IDENTITY
    other = "Precondition failed: UID in precondition: x, UID in object meta: y"
    assert explain("Pod ns/a", conflict(other)).kind is ConflictKind.IDENTITY
    assert explain("Pod ns/a", conflict("the object has been modified")).kind is ConflictKind.VERSION


def test_only_a_higher_term_deposes() -> None:
    def refused(carried: str, present: int) -> Forbidden:
        text = f"denied request: deposed: the write carries term {carried}, the lease says {present}"
        return Forbidden(text, status=403)

    assert fence_verdict(refused("7", 8), 7) is FenceVerdict.DEPOSED
    assert fence_verdict(refused("8", 7), 8) is FenceVerdict.LAGS
    assert fence_verdict(refused("none", 8), 8) is FenceVerdict.OTHER

    def held(present: int) -> Forbidden:
        text = f"denied request: deposed: a_1 writes, the lease is held by b_2 with term {present}"
        return Forbidden(text, status=403)

    assert [fence_verdict(held(present), 7) for present in (6, 7, 8)] == [
        FenceVerdict.LAGS,
        FenceVerdict.DEPOSED,
        FenceVerdict.DEPOSED,
    ]
    assert fence_verdict(Forbidden("exceeded quota", status=403), 8) is FenceVerdict.OTHER


def test_what_our_create_owns_is_rewritten_as_applied() -> None:
    created = {"manager": "kvberth", "operation": "Update", "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}}}
    applied = {"manager": "kvberth", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}}}}
    status = {"manager": "kvberth", "operation": "Update", "subresource": "status", "fieldsV1": {}}
    other = {"manager": "kubectl", "operation": "Update", "fieldsV1": {}}
    assert as_applied([created, status, other], "kvberth") == [status, other, {**created, "operation": "Apply"}]
    assert as_applied([created, applied, other], "kvberth") == [other, {**created, "operation": "Apply"}]
    assert as_applied([applied, status, other], "kvberth") is None
