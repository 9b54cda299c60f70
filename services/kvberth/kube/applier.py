"""The one place that writes objects: create by POST, server-side apply, status, delete, eviction, with preconditions.

Decides nothing and retries nothing: a write that got no answer is unknown, and its caller looks again.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from kvberth.kube.client import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Call, Client
from kvberth.kube.conflicts import UID_FIELD
from kvberth.kube.errors import Conflict, Invalid, Throttled, Unreachable
from kvberth.kube.objects import Meta, Trimmed
from kvberth.kube.ownership import as_applied
from kvberth.kube.resources import PODS, Resource

FIELD_MANAGER: Final = "kvberth"
_OWN_ATTEMPTS = 3  # controllers write status right after a create, which moves the version

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """An object to write to; with `uid` or `resource_version` only if it still is the one that was planned for."""

    resource: Resource
    namespace: str | None
    name: str
    uid: str | None = None
    resource_version: str | None = None

    @property
    def title(self) -> str:
        """How sentences name it."""
        return self.resource.title(self.namespace, self.name)

    @property
    def preconditions(self) -> dict[str, str]:
        """As metadata and as delete options spell them."""
        pairs = (("uid", self.uid), ("resourceVersion", self.resource_version))
        return {key: value for key, value in pairs if value}


@dataclass(frozen=True, slots=True)
class Eviction:
    """What the server said to an eviction."""

    allowed: bool
    message: str = ""
    """Why not: the server's sentence, with the budget's own words."""


class _Written(Trimmed):
    metadata: Meta


class Applier:
    """Writes with one field manager."""

    def __init__(self, client: Client, manager: str = FIELD_MANAGER) -> None:
        """`manager` is the name under which the server remembers our fields."""
        self._client, self._manager = client, manager

    async def create(self, target: Target, body: Json, *, dry_run: bool = False) -> Meta:
        """Create an object that must not exist; `body` has neither apiVersion, kind nor name.

        Raises:
            AlreadyExists: somebody has the name.
            Refused, Unreachable: as `Client.request`.
        """
        call = Call(
            what=f"create of {target.title}",
            path=target.resource.path(target.namespace),
            method="POST",
            query=self._query(dry_run=dry_run),
            body=_whole(target, body),
        )
        created = await self._send(call)
        return _meta(call, created if dry_run else await self._own(target, created))

    async def apply(
        self, target: Target, body: Json, *, subresource: str | None = None, force: bool = True, dry_run: bool = False
    ) -> Meta:
        """Server-side apply: `body` holds every field that we want, and what it held before and lacks now goes.

        Raises:
            Conflict: another uid or version than the target's, or (without force) fields of other managers.
            Refused, Unreachable: as `Client.request`.
        """
        query = (*self._query(dry_run=dry_run), ("force", "true" if force else "false"))
        call = self._patch(target, "apply", APPLY_PATCH, _whole(target, body), query, subresource)
        applied = await self._send(call)
        if dry_run or subresource or _rewritten(applied, self._manager) is None:
            return _meta(call, applied)
        # An earlier life died between its create and `_own`: the leftovers go with a second apply.
        owned = await self._own(target, applied)
        again = Target(target.resource, target.namespace, target.name, target.uid, _meta(call, owned).resource_version)
        return _meta(call, await self._send(self._patch(again, "apply", APPLY_PATCH, _whole(again, body), query)))

    async def patch_status(self, target: Target, status: Json, *, dry_run: bool = False) -> Meta:
        """Merge into the status of exactly the version that was planned from.

        Raises:
            ValueError: the target has no resourceVersion. A uid alone is not compared in a custom resource's status.
            Conflict: another uid or version than the target's.
            Refused, Unreachable: as `Client.request`.
        """
        if not target.resource_version:
            raise ValueError(f"status of {target.title} needs the resourceVersion that it was planned from")
        body = {"metadata": target.preconditions, "status": status}
        call = self._patch(target, "status", MERGE_PATCH, body, self._query(dry_run=dry_run), "status")
        return _meta(call, await self._send(call))

    async def delete(self, target: Target, *, grace_s: int | None = None, dry_run: bool = False) -> None:
        """Delete the object, its children in the background.

        Raises:
            NotFound: it is gone.
            Conflict: another uid or version than the target's.
            Refused, Unreachable: as `Client.request`.
        """
        options: Json = {"propagationPolicy": "Background"}
        if target.preconditions:
            options["preconditions"] = target.preconditions
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        path = target.resource.path(target.namespace, target.name)
        if dry_run:
            options["dryRun"] = ["All"]  # beside a body the server does not read the query
        call = Call(what=f"delete of {target.title}", path=path, method="DELETE", body=options)
        await self._client.request(call)

    async def evict(self, target: Target, *, dry_run: bool) -> Eviction:
        """Ask whether budgets let a pod go (`dry_run`), or let it go.

        Raises:
            NotFound: it is gone.
            Refused, Unreachable: as `Client.request`, all but 429.
        """
        options: Json = {"preconditions": target.preconditions} if target.preconditions else {}
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": target.name, "namespace": target.namespace},
            "deleteOptions": options,
        }
        path = PODS.path(target.namespace, target.name, "eviction")
        call = Call(what=f"eviction of {target.title}", path=path, method="POST", body=body)
        try:
            await self._client.request(call)
        except Throttled as error:
            budgets = [cause.message for cause in error.causes if cause.reason == "DisruptionBudget"]
            if not budgets:
                raise  # the server itself has too much to do, which says nothing about budgets
            return Eviction(False, "; ".join((str(error), *budgets)))
        return Eviction(True)

    async def _own(self, target: Target, written: Json) -> Json:
        """Rewrite what our create owns as applied; see `ownership`."""
        for attempt in range(_OWN_ATTEMPTS):
            fields = _rewritten(written, self._manager)
            if fields is None:
                return written
            meta = written["metadata"]
            body = [
                {"op": "test", "path": "/metadata/uid", "value": meta["uid"]},
                {"op": "replace", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
                {"op": "replace", "path": "/metadata/managedFields", "value": fields},
            ]
            try:
                return await self._send(self._patch(target, "ownership", JSON_PATCH, body, self._query()))
            except Conflict:
                if attempt + 1 == _OWN_ATTEMPTS:
                    return written  # it exists and works; the next apply comes here again
                path = target.resource.path(target.namespace, target.name)
                written = await self._send(Call(what=f"GET {target.title}", path=path))
        return written

    def _patch(
        self,
        target: Target,
        verb: str,
        content_type: str,
        body: object,
        query: tuple[tuple[str, str], ...],
        subresource: str | None = None,
    ) -> Call:
        path = target.resource.path(target.namespace, target.name, subresource)
        return Call(
            what=f"{verb} of {target.title}",
            path=path,
            method="PATCH",
            query=query,
            body=body,
            content_type=content_type,
        )

    def _query(self, *, dry_run: bool = False) -> tuple[tuple[str, str], ...]:
        manager = ("fieldManager", self._manager)
        return (manager, ("dryRun", "All")) if dry_run else (manager,)

    async def _send(self, call: Call) -> Json:
        try:
            body = await self._client.request(call)
        except Invalid as error:
            if not any(cause.field == UID_FIELD for cause in error.causes):
                raise
            # A patch that names another uid is "invalid" to the server where a delete conflicts; it means the same.
            raise Conflict(str(error), status=error.status, reason=error.reason, causes=error.causes) from error
        try:
            value = json.loads(body)
        except ValueError as error:
            raise Unreachable(f"{call.what} was answered with what is no JSON") from error
        if not isinstance(value, dict):
            raise Unreachable(f"{call.what} was answered with what is no object")
        return value


def _whole(target: Target, body: Json) -> Json:
    metadata = {**body.get("metadata", {}), "name": target.name, **target.preconditions}
    if target.namespace and target.resource.namespaced:
        metadata["namespace"] = target.namespace
    head = {"apiVersion": target.resource.api_version, "kind": target.resource.kind}
    return {**body, **head, "metadata": metadata}


def _rewritten(written: Json, manager: str) -> list[Json] | None:
    return as_applied(written.get("metadata", {}).get("managedFields") or [], manager)


def _meta(call: Call, written: Json) -> Meta:
    try:
        return _Written.model_validate(written).metadata
    except ValueError as error:
        raise Unreachable(f"{call.what} was answered with an object without a name") from error
