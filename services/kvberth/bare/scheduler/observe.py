"""What the bus says at this moment, as the immutable value that a turn decides on. Reads, and decides nothing."""

from kvberth.bare.scheduler.clock import Heard, listen
from kvberth.bare.scheduler.lifecycle import Evidence
from kvberth.bare.scheduler.state import State
from kvberth.bare.scheduler.turn import Seen
from kvberth.bus import Liveness, View
from kvberth_schemas.events import NodeChangedV1, ProcessEndedV1, ProcessGoneV1, ProcessStartedV1
from kvberth_schemas.subjects import Service


class Observer:
    """Looks at processes, earlier nodes and signs of life; counts the silence of nodes."""

    def __init__(self, view: View, liveness: Liveness, lost_after_s: float) -> None:
        """`view` covers process and node events; a node is lost after `lost_after_s` seconds of silence."""
        self._view = view
        self._liveness = liveness
        self._lost_after_s = lost_after_s
        self._silence: dict[str, float] = {}
        self._last_s: float | None = None
        self._settled = False

    @property
    def settled(self) -> bool:
        """Whether the bus was read whole once and every node was heard or missed: from then on silence means silence.

        Before that nothing may be said to be gone, and no pod may be replaced.
        """
        return self._settled

    def count(self, state: State, now_s: float) -> None:
        """Count the time since the last call; `now_s` is monotonic."""
        elapsed_s = 0.0 if self._last_s is None else now_s - self._last_s
        self._last_s = now_s
        names = set(state.nodes) if self._settled else {*state.nodes, *(event.name for event in self._nodes())}
        heard = Heard(
            self._liveness.heard_s(Service.SCHEDULER),
            {name: self._liveness.heard_s(Service.RUNNER, name) for name in names},
        )
        self._silence = listen(self._silence, elapsed_s, heard, self._lost_after_s)
        missing = [
            name for name, age in heard.nodes_s.items() if age is None and self._silence[name] <= self._lost_after_s
        ]
        self._settled = self._settled or (self._view.complete and not missing)

    def not_ready(self) -> list[str]:
        """Return the nodes that have been silent for too long."""
        return sorted(node for node, silent_s in self._silence.items() if silent_s > self._lost_after_s)

    def registered(self, node: str) -> None:
        """A runner that registers its node is alive."""
        self._silence[node] = 0.0

    def seen(self, *, first: bool) -> Seen:
        """Return what is known now; `first`: with the nodes that an earlier life published."""
        processes = tuple(
            Evidence(row.envelope.id, row.message, row.envelope.traceparent)
            for row in self._view.rows.values()
            if isinstance(row.message, ProcessStartedV1 | ProcessEndedV1 | ProcessGoneV1)
        )
        if not first:
            return Seen(processes, dict(self._silence))
        living = frozenset(name for name, silent_s in self._silence.items() if silent_s <= self._lost_after_s)
        return Seen(processes, dict(self._silence), self._nodes(), living)

    def _nodes(self) -> tuple[NodeChangedV1, ...]:
        return tuple(row.message for row in self._view.rows.values() if isinstance(row.message, NodeChangedV1))
