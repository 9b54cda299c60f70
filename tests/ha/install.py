"""Installs, upgrades, rolls back and removes kvberth, by the commands of docs/deploy.md."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from tests.cluster.__main__ import READY_WITHIN_S, run, say
from tests.cluster.settings import REPOSITORY, Settings

from kvberth.cli.keys import keys

K8S: Final = REPOSITORY / "k8s"
CRD: Final = "kvcaches.orchestration.aibrix.ai"
IMAGE: Final = "localhost/kvberth"
NOW, BEFORE = "0.1.0", "before"
OURS: Final = "app.kubernetes.io/part-of=kvberth"
KINDS: Final = (
    "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,"
    "validatingadmissionpolicies,validatingadmissionpolicybindings"
)
SINCE_1_36: Final = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
KEYED: Final = "ha with keys"
"""An overlay of one's own, as docs/deploy.md has it."""
NATS: Final = {"default": "deployment/nats", "ha": "statefulset/nats", KEYED: "statefulset/nats"}


@dataclass(frozen=True)
class Install:
    """kvberth on one cluster."""

    settings: Settings

    def apply(self, overlay: str, tag: str = NOW) -> None:
        """Install, or change to this overlay and version, and wait until it is so."""
        say(f"kubectl apply -k of overlay {overlay}, version {tag}")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder).resolve()
            parts = _keyed(path) if overlay == KEYED else {"resources": [_relative(K8S / "overlays" / overlay, path)]}
            images = [{"name": IMAGE, "newTag": tag}]
            body = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
            (path / "kustomization.yaml").write_text(yaml.safe_dump({**body, **parts, "images": images}))
            self.kubectl("apply", "-k", str(path))
        self.wait(overlay)

    def wait(self, overlay: str) -> None:
        """Wait until every workload has rolled out."""
        for name in (NATS[overlay], "deployment/placement", "deployment/pod-watcher", "daemonset/kvberth-node"):
            self.kubectl("-n", "kvberth", "rollout", "status", f"--timeout={READY_WITHIN_S}s", name)

    def undo(self) -> None:
        """Roll the services back to what ran before."""
        for name in ("deployment/placement", "deployment/pod-watcher", "daemonset/kvberth-node"):
            self.kubectl("-n", "kvberth", "rollout", "undo", name)

    def images(self) -> set[str]:
        """Give the images that our pods run, without NATS."""
        wanted = "jsonpath={.items[*].spec.containers[*].image}"
        return {one for one in self.kubectl("-n", "kvberth", "get", "pods", "-o", wanted).split() if "nats" not in one}

    def without_bus(self, overlay: str) -> None:
        """Take away the bus of an overlay, before another is applied."""
        self.kubectl("-n", "kvberth", "delete", *NATS[overlay].split("/"))

    def remove(self) -> str:
        """Uninstall, and keep KVCaches; give what is left of ours beside their definition."""
        say("kubectl delete -k k8s/uninstall")
        self.kubectl("delete", "-k", str(K8S / "uninstall"), "--ignore-not-found", f"--timeout={READY_WITHIN_S}s")
        return ", ".join(one for one in self._left() if not one.endswith(f"/{CRD}"))

    def purge(self) -> str:
        """Remove all KVCaches and their definition; give what is left of ours."""
        say(f"kubectl delete crd {CRD}")
        self.kubectl("delete", "crd", CRD, "--ignore-not-found", f"--timeout={READY_WITHIN_S}s")
        return ", ".join(self._left())

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl; exits with what it said when it fails."""
        return run(["kubectl", "--kubeconfig", str(self.settings.kubeconfig), *arguments])

    def _left(self) -> list[str]:
        served = self.kubectl("api-resources", "--api-group=admissionregistration.k8s.io", "-o", "name")
        kinds = ",".join((KINDS, *(kind for kind in SINCE_1_36 if kind in served)))
        return self.kubectl("get", kinds, "-l", OURS, "--ignore-not-found", "-o", "name").split()


def _relative(path: Path, start: Path) -> str:
    return os.path.relpath(path, start)


def _keyed(folder: Path) -> dict[str, list[str]]:
    """Make keys beside a copy of the manifests, and give what an overlay of `ha` with them names."""
    copy = shutil.copytree(K8S, folder / "k8s", ignore=shutil.ignore_patterns("keys"))
    keys(copy / "components" / "nkeys" / "keys")
    return {"resources": ["k8s/overlays/ha"], "components": ["k8s/components/nkeys"]}


def bring_earlier(settings: Settings, revision: str) -> None:
    """Build the image of an earlier revision, and load it as the version `before`."""
    with tempfile.TemporaryDirectory() as folder:
        sources, archive = Path(folder) / "sources", Path(folder) / "image.tar"
        sources.mkdir()
        run(["git", "-C", str(REPOSITORY), "archive", "--output", str(archive), revision])
        run(["tar", "-x", "-C", str(sources), "-f", str(archive)])
        say(f"building kvberth of {revision}")
        tag = f"{IMAGE}:{BEFORE}"
        run([settings.builder, "build", *settings.build_flags, "--target", "kvberth", "--tag", tag, str(sources)])
        archive.unlink()
        run([settings.builder, "save", "--output", str(archive), tag])
        run([*settings.load, str(archive)])
