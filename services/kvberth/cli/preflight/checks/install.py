"""Checks of what the install makes: whether its names are free or ours, and whether the caller may make it. Pure."""

from collections.abc import Sequence

from kvberth.cli.preflight.checks.cluster import ENFORCE, PRIVILEGED
from kvberth.cli.preflight.facts import Definition, Labelled, Present, Right, ours
from kvberth.cli.preflight.findings import Finding, Level, few
from kvberth.cli.preflight.parts import DEFINITION, HA_PARTS, NAMESPACE, OURS, PART_OF
from kvberth.kube.resources import CRDS, DAEMON_SETS, DEPLOYMENTS, KVCACHES, NAMESPACES, STATEFUL_SETS

_OWN_CHECK = {CRDS, NAMESPACES}
_HA = {(part.resource, name) for part in HA_PARTS for name in part.names}
_HAND_OVER = f"kubectl label crd {DEFINITION} {PART_OF}={OURS}"


def definition(found: Definition | None) -> Finding:
    """Whether the definition of KVCache is free to be made, or ours and of our version."""
    if found is None:
        return Finding("definition", Level.OK, f"{DEFINITION} is not there yet; the install brings it")
    served = sorted(version.name for version in found.spec.versions if version.served)
    if found.metadata.deleting:
        sentence = f"{DEFINITION} is being deleted, and every KVCache with it"
        return Finding("definition", Level.REFUSED, sentence, "wait until it is gone")
    if not ours(found.metadata):
        sentence = (
            f"{DEFINITION} ({', '.join(served)}) is not ours: it has no label {PART_OF}={OURS}; AIBrix installs one"
        )
        remedy = (
            f"stop who installed it; then delete it with all its KVCaches, or keep them and hand it over: {_HAND_OVER}"
        )
        return Finding("definition", Level.REFUSED, sentence, remedy)
    if strange := sorted(set(found.status.stored_versions) - {KVCACHES.version}):
        sentence = f"{DEFINITION} is ours, but KVCaches may be stored as {', '.join(strange)}, which this release lacks"
        return Finding("definition", Level.REFUSED, sentence, "install the release that brought this version")
    if served != [KVCACHES.version]:
        listed = ", ".join(served) or "nothing"
        sentence = f"{DEFINITION} is ours and serves {listed}; the install makes that {KVCACHES.version}"
        return Finding("definition", Level.WARNING, sentence, "look whether somebody uses the others")
    return Finding("definition", Level.OK, f"{DEFINITION} is there and ours, with version {KVCACHES.version}")


def namespace(found: Sequence[Labelled]) -> Finding:
    """Whether our namespace is free, ours, or somebody else's."""
    meta = next((one.metadata for one in found if one.metadata.name == NAMESPACE), None)
    if meta is None:
        return Finding("namespace", Level.OK, f"namespace {NAMESPACE} is not there yet; the install brings it")
    if meta.deleting:
        return Finding("namespace", Level.REFUSED, f"namespace {NAMESPACE} is being deleted", "wait until it is gone")
    if not ours(meta):
        sentence = f"namespace {NAMESPACE} is there and not ours: the install takes it over, an uninstall deletes it"
        return Finding("namespace", Level.WARNING, sentence, "keep nothing else in it")
    if (level := meta.labels.get(ENFORCE)) != PRIVILEGED:
        sentence = f"namespace {NAMESPACE} has {ENFORCE}={level or 'no value'}, which refuses the node agent"
        return Finding("namespace", Level.WARNING, sentence, f"the install sets {PRIVILEGED}; let nobody set it back")
    return Finding("namespace", Level.OK, f"namespace {NAMESPACE} is there and ours")


def names(found: Sequence[Present], *, ha: bool) -> Finding:
    """Whether an object of somebody else, or one that is going away, has a name that the install uses."""
    made = found if ha else [one for one in found if (one.resource, one.meta.name) not in _HA]
    others = [one for one in made if one.resource not in _OWN_CHECK]
    if foreign := [one.title for one in others if not ours(one.meta)]:
        sentence = f"the install would overwrite what is not ours: {few(foreign)}"
        return Finding(
            "names", Level.REFUSED, sentence, f"delete or rename it; if it is kvberth's, label it {PART_OF}={OURS}"
        )
    if going := [one.title for one in others if one.meta.deleting]:
        return Finding("names", Level.REFUSED, f"{few(going)} is being deleted", "wait until it is gone")
    return Finding("names", Level.OK, "no object of somebody else has a name that the install uses")


def bus(found: Sequence[Present], *, ha: bool) -> Finding:
    """Whether the NATS of the other overlay is there: behind one Service, two buses would be two truths."""
    other, is_there, is_to_come = STATEFUL_SETS, "the three NATS servers of overlay ha", "the one of default"
    if ha:
        other, is_there, is_to_come = DEPLOYMENTS, "the NATS server of overlay default", "the three of ha"
    if any(one.resource == other and one.meta.name == "nats" for one in found):
        sentence = f"{is_there} would stand beside {is_to_come}, as two buses behind one Service"
        remedy = f"kubectl -n {NAMESPACE} delete {other.kind.lower()} nats; its writers say all again"
        return Finding("bus", Level.REFUSED, sentence, remedy)
    return Finding("bus", Level.OK, "no other NATS would stand beside the one of the install")


def installed(found: Sequence[Present], release: str) -> Finding:
    """Which version of kvberth is there already."""
    workloads = [one for one in found if one.resource in {DEPLOYMENTS, DAEMON_SETS} and _is_our_image(one)]
    tags = sorted({tag for one in workloads for tag in map(_tag, one.images)})
    if not workloads:
        sentence = (
            "kvberth is not installed; where it once was, restart the API servers first, or the fence does not work"
        )
        return Finding("installed", Level.OK, sentence)
    if tags != [release]:
        sentence = f"kvberth {', '.join(tags)} is installed; the install replaces it by {release}"
        return Finding("installed", Level.WARNING, sentence, "read CHANGELOG.md between the two first")
    return Finding("installed", Level.OK, f"kvberth {release} is installed already")


def rights(missing: Sequence[Right]) -> Finding:
    """Whether the caller may make all that the install makes."""
    hard = [right for right in missing if right.verb not in {"bind", "escalate"}]
    if hard:
        listed = few([f"{right.verb} {right.resource.plural}" for right in hard])
        return Finding(
            "rights", Level.REFUSED, f"this account may not {listed}", "install as one that may (cluster-admin)"
        )
    if missing:
        listed = few([f"{right.verb} {right.resource.plural}" for right in missing])
        sentence = f"this account may not {listed}, so it can grant only what it holds itself"
        return Finding("rights", Level.WARNING, sentence, "install as one that may, if a role is refused")
    return Finding("rights", Level.OK, "this account may make everything that the install makes")


def _is_our_image(found: Present) -> bool:
    """NATS comes with its own versions."""
    return ours(found.meta) and found.meta.name != "nats"


def _tag(image: str) -> str:
    """The version in an image's name; the whole of it where it holds none."""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return tag or image
