"""A complaint about an object that a user wrote: where, what is wrong, what would be right."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Complaint:
    """One fault. `field` is a path as users write it: `spec.cacheSpec.env[0].name`."""

    field: str
    problem: str
    remedy: str

    def sentence(self) -> str:
        """Return the fault as one line for a terminal, an answer or a condition."""
        return f"{self.field}: {self.problem}; {self.remedy}" if self.remedy else f"{self.field}: {self.problem}"
