"""Asks an API server what the preflight judges. Reads only: its POSTs are access reviews, which store nothing.

A question that is refused or fails becomes `Unasked`; only a server that answers nothing at all is an error.
"""

import asyncio
import json
from collections.abc import Coroutine, Iterable
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from kvberth.cli.preflight.facts import (
    Answer,
    Definition,
    Facts,
    Labelled,
    Node,
    Present,
    Right,
    ServerVersion,
    Unasked,
    Workload,
)
from kvberth.cli.preflight.parts import (
    ADMISSION,
    CLUSTER_ROLES,
    DEFINITION,
    GATE_PARTS,
    GATES,
    HA_PARTS,
    NAMESPACE,
    PARTS,
    ROLES,
    Part,
)
from kvberth.kube import (
    Call,
    Client,
    Entry,
    Kind,
    KubeError,
    KubeObject,
    Selection,
    Unreachable,
    Unreadable,
    get,
    list_all,
    whole,
)
from kvberth.kube.resources import CRDS, DAEMON_SETS, DEPLOYMENTS, KVCACHES, NAMESPACES, NODES, STATEFUL_SETS, Resource

T = TypeVar("T")
M = TypeVar("M", bound=KubeObject)

_AT_ONCE: Final = 8
_INSTALL_VERBS: Final = ("get", "create", "patch")
_GRANT_VERBS: Final = ("bind", "escalate")
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def gather(client: Client, *, ha: bool = False) -> Facts:
    """Ask everything; `ha` for what that overlay makes.

    Raises:
        KubeError: the server does not answer, or does not accept the credentials.
    """
    version = await _version(client)
    admission = await _asked(_admission(client))
    definition = await _asked(_definition(client))
    gates = isinstance(admission, frozenset) and GATES.plural in admission
    parts = (*PARTS, *(GATE_PARTS if gates else ()))
    made = (*parts, *(HA_PARTS if ha else ()))
    async with asyncio.TaskGroup() as group:
        deployments = group.create_task(_asked(_all(client, whole(DEPLOYMENTS, Workload))))
        namespaces = group.create_task(_asked(_all(client, whole(NAMESPACES, Labelled))))
        nodes = group.create_task(_asked(_all(client, whole(NODES, Node))))
        kvcaches = group.create_task(_kvcaches(client, definition))
        present = group.create_task(_asked(_present(client, (*parts, *HA_PARTS))))
        missing = group.create_task(_asked(_missing(client, made)))
    return Facts(
        version=version,
        admission=admission,
        definition=definition,
        deployments=deployments.result(),
        namespaces=namespaces.result(),
        kvcaches=kvcaches.result(),
        nodes=nodes.result(),
        present=present.result(),
        missing=missing.result(),
        ha=ha,
    )


async def _asked(question: Coroutine[Any, Any, T]) -> Answer[T]:
    try:
        return await question
    except KubeError as error:
        return Unasked(str(error))


async def _version(client: Client) -> ServerVersion:
    call = Call(what="GET /version", path="/version")
    try:
        return ServerVersion.model_validate_json(await client.request(call))
    except ValidationError as error:
        raise Unreachable(f"{call.what} was answered by something that is no Kubernetes API server") from error


async def _admission(client: Client) -> frozenset[str]:
    call = Call(what=f"discovery of {ADMISSION}/v1", path=f"/apis/{ADMISSION}/v1")
    told = _object(call, await client.request(call))
    return frozenset(str(kind.get("name")) for kind in told.get("resources", ()))


async def _definition(client: Client) -> Definition | None:
    kind: Kind[Definition] = whole(CRDS, Definition)
    return await _one(client, kind, None, DEFINITION)


async def _one(client: Client, kind: Kind[T], namespace: str | None, name: str) -> T | None:
    found = await get(client, kind, namespace, name)
    return None if found is None else _readable(kind.resource, found)


async def _all(client: Client, kind: Kind[M]) -> tuple[M, ...]:
    _, found = await list_all(client, kind, Selection())
    return tuple(_readable(kind.resource, one) for one in found)


async def _kvcaches(client: Client, definition: Answer[Definition | None]) -> Answer[tuple[Labelled, ...]]:
    """Where the kind is not served in our version there are none that we could be asked to serve."""
    if isinstance(definition, Definition):
        if not any(version.served and version.name == KVCACHES.version for version in definition.spec.versions):
            return ()
        return await _asked(_all(client, whole(KVCACHES, Labelled)))
    return () if definition is None else definition


async def _present(client: Client, parts: Iterable[Part]) -> tuple[Present, ...]:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def look(resource: Resource, name: str) -> Present | None:
        async with slots:
            found = await _one(client, whole(resource, _model(resource)), NAMESPACE, name)
        if found is None:
            return None
        containers = found.spec.template.spec.containers if isinstance(found, Workload) else ()
        return Present(resource, found.metadata, tuple(container.image for container in containers))

    wanted = [(part.resource, name) for part in parts for name in part.names]
    return tuple(found for found in await _each(look(*one) for one in wanted) if found is not None)


def _model(resource: Resource) -> type[KubeObject]:
    return Workload if resource in {DEPLOYMENTS, DAEMON_SETS, STATEFUL_SETS} else Labelled


async def _missing(client: Client, parts: Iterable[Part]) -> tuple[Right, ...]:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def lacks(right: Right) -> Right | None:
        async with slots:
            return None if await _may(client, right) else right

    rights = [Right(verb, part.resource) for part in parts for verb in _INSTALL_VERBS]
    rights += [Right(verb, resource) for resource in (CLUSTER_ROLES, ROLES) for verb in _GRANT_VERBS]
    return tuple(right for right in await _each(lacks(right) for right in rights) if right is not None)


async def _may(client: Client, right: Right) -> bool:
    resource = right.resource
    attributes = {"verb": right.verb, "group": resource.group, "version": resource.version, "resource": resource.plural}
    if resource.namespaced:
        attributes["namespace"] = NAMESPACE
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    call = Call(what=f"access review of {right.verb} {resource.plural}", path=_REVIEWS, method="POST", body=body)
    status = _object(call, await client.request(call)).get("status")
    return isinstance(status, dict) and status.get("allowed") is True


async def _each(questions: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Ask all; the first that fails speaks for them all."""
    tasks: list[asyncio.Task[T]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(question) for question in questions]
    except* KubeError as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _readable(resource: Resource, found: Entry[T] | Unreadable) -> T:
    if isinstance(found, Unreadable):
        raise Unreachable(f"{resource.title(found.key.namespace, found.key.name)} can't be read: {found.why}")
    return found.value


def _object(call: Call, body: bytes) -> dict[str, Any]:
    try:
        told = json.loads(body)
    except ValueError as error:
        raise Unreachable(f"{call.what} was answered with what is no JSON") from error
    if not isinstance(told, dict):
        raise Unreachable(f"{call.what} was answered with what is no object")
    return told
