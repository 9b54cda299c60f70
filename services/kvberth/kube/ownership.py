"""Who owns which fields of an object, as the API server keeps it in managedFields. Pure.

A create makes us owner by "Update", an apply by "Apply", and the two are different owners to the server: a field that
we leave out of a later apply would stay, since our own create still owns it. So what a create owns is rewritten as if
it had been applied.
"""

from typing import Any


def as_applied(managed: list[dict[str, Any]], manager: str) -> list[dict[str, Any]] | None:
    """The managedFields with our create's part as an applied one; None where there is nothing to rewrite."""
    ours = [entry for entry in managed if entry.get("manager") == manager and not entry.get("subresource")]
    created = [entry for entry in ours if entry.get("operation") == "Update"]
    if not created:
        return None
    others = [entry for entry in managed if entry not in ours]
    return [*others, {**created[0], "operation": "Apply"}]
