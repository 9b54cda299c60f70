"""What `/healthz`, `/readyz` and `/metrics` answer."""

import json
from collections.abc import Mapping
from http import HTTPStatus

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from kvberth.service.checks import Checks
from kvberth.service.http import Response, Route
from kvberth.service.telemetry import Telemetry


def probe_routes(checks: Checks, telemetry: Telemetry) -> Mapping[str, Route]:
    """The paths that every service serves.

    `/healthz` is 200 while the loop answers and nothing fatal was declared; `/readyz` is 200 when every check is
    content.
    """

    def healthz() -> Response:
        if checks.fatal is not None:
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, f"{checks.fatal}\n".encode())
        return Response(HTTPStatus.OK, b"ok\n")

    def readyz() -> Response:
        results = checks.results()
        ready = checks.fatal is None and not any(results.values())
        body = {"ready": ready, "checks": {name: sentence or "ok" for name, sentence in results.items()}}
        if checks.fatal is not None:
            body["fatal"] = checks.fatal
        status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
        return Response(status, json.dumps(body).encode() + b"\n", "application/json")

    def metrics() -> Response:
        return Response(HTTPStatus.OK, telemetry.metrics_text(), CONTENT_TYPE_PLAIN_0_0_4)

    return {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}
