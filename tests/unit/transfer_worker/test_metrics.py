"""What one scrape tells is of one moment."""

import re
from itertools import count

from kvberth.service.telemetry import Telemetry
from kvberth.store.layout.rings import Outcome
from kvberth.transfer_worker.metrics import register_metrics
from kvberth.transfer_worker.moment import Snapshot


def test_all_numbers_of_a_scrape_are_of_one_moment_and_of_another_one_in_the_next() -> None:
    moments, telemetry = count(1), Telemetry("transfer_worker")

    def read() -> Snapshot:
        now = next(moments)
        return Snapshot(
            clients=now, admitted=now, queued=now, granted=now, leased=now, budget=now, in_flight=now,
            over_budget=now, refused={"layout": now}, outcomes=dict.fromkeys(Outcome, now),
        )  # fmt: skip

    try:
        register_metrics(telemetry, read)
        seen = []
        for _ in range(2):
            text = telemetry.metrics_text().decode()
            values = {float(value) for value in re.findall(r"^kvberth_transfer_\S+ (\S+)$", text, re.MULTILINE)}
            assert len(values) == 1
            seen += values
        assert seen[0] < seen[1]
    finally:
        telemetry.shutdown()
