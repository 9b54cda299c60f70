"""Refuses an object that is nested so deeply that reading it would end in a RecursionError. Pure.

A text is bounded where it is read; objects of an API server and of the bus are not.
"""

from kvberth_schemas.manifests import Complaint
from kvberth_schemas.manifests.documents import MAX_DEPTH


def depth_complaint(value: object) -> Complaint | None:
    """Return why an object is nested too deeply; None where it is not. Goes by levels, never by recursion."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [item for outer in level for item in _within(outer)]
        if not level:
            return None
    return Complaint("document", "is nested too deeply", f"nest at most {MAX_DEPTH} levels")


def _within(value: object) -> list[object]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [item for item in inner if isinstance(item, dict | list | tuple)]
