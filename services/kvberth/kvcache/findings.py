"""What is said about a manifest while it is read: faults, defaults taken, fields without effect."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kvberth_schemas.manifests import Complaint


@dataclass(slots=True)
class Findings:
    """Grows while one manifest is read."""

    complaints: list[Complaint] = field(default_factory=list)
    defaults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def complain(self, path: str, problem: str, remedy: str) -> None:
        """Add a fault, unless its field has one already: the first says what to do."""
        self.add([Complaint(path, problem, remedy)])

    def add(self, complaints: Iterable[Complaint]) -> None:
        """Add faults of fields that have none yet."""
        named = {complaint.field for complaint in self.complaints}
        for complaint in complaints:
            if complaint.field not in named:
                self.complaints.append(complaint)
                named.add(complaint.field)
