"""`make test-cluster`: builds images, installs kvberth on the cluster of KUBECONFIG, tells the scenarios, uninstalls.

Works on any cluster; what is missing is said and skipped. Exit status: 0 when no scenario failed and the uninstall left
nothing behind.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cluster import names
from tests.cluster.settings import REPOSITORY, Settings

KVBERTH = "localhost/kvberth:0.1.0"
NATS = "docker.io/library/nats:2.15.1"
OVERLAY = REPOSITORY / "k8s" / "overlays" / "default"
DEPLOYMENTS = ("nats", "placement", "pod-watcher")
READY_WITHIN_S = 180
OURS = "app.kubernetes.io/part-of=kvberth"
KINDS = (
    "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,"
    "validatingadmissionpolicies,validatingadmissionpolicybindings"
)
SINCE_1_36 = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")


def main() -> int:
    """Do all of it."""
    settings = Settings.read()
    if settings is None:
        say("SKIPPED: make test-cluster: KUBECONFIG names no cluster")
        return 0
    if settings.load:
        bring_images(settings)
    else:
        say("SKIPPED: building and loading images, since KVBERTH_TEST_LOAD names no command; they must be there")
    if not settings.node_driver:
        say("SKIPPED: whatever takes machines down, since KVBERTH_TEST_NODE_DRIVER names no command")
    try:
        install(settings)
        failed = tell(settings)
        unmeasured = measure(settings)
    finally:
        left = uninstall(settings)
    if failed and settings.audit is not None:
        shutil.copy(settings.audit, settings.keep / "audit.log")
    if failed:
        say(f"what the failed scenarios left is kept in {settings.keep}")
    if left:
        say(f"the uninstall left behind: {left}")
    return 1 if failed or unmeasured or left else 0


def bring_images(settings: Settings) -> None:
    """Build our images, under all the names that manifests use, and load them."""
    wanted = names.of([REPOSITORY / "tests" / "manifests", REPOSITORY / "tests" / "scenarios", REPOSITORY / "examples"])
    wanted |= {"kvberth": {KVBERTH}, "nats": {NATS}}
    with tempfile.TemporaryDirectory() as folder:
        for target, tags in wanted.items():
            say(f"building {target}, which also stands for {', '.join(sorted(tags))}")
            named = [word for tag in sorted(tags) for word in ("--tag", tag)]
            run([settings.builder, "build", *settings.build_flags, "--target", target, *named, str(REPOSITORY)])
            archive = Path(folder) / f"{target}.tar"
            several = ["--multi-image-archive"] if settings.builder == "podman" else []
            run([settings.builder, "save", *several, "--output", str(archive), *sorted(tags)])
            run([*settings.load, str(archive)])
            archive.unlink()


def install(settings: Settings) -> None:
    """Install, and wait until everything is ready."""
    say("installing: kubectl apply -k k8s/overlays/default")
    kubectl(settings, "apply", "-k", str(OVERLAY))
    for name in DEPLOYMENTS:
        waiting = ("rollout", "status", f"--timeout={READY_WITHIN_S}s", f"deployment/{name}")
        kubectl(settings, "-n", "kvberth", *waiting)
    kubectl(settings, "-n", "kvberth", "rollout", "status", f"--timeout={READY_WITHIN_S}s", "daemonset/kvberth-node")


def tell(settings: Settings) -> bool:
    """Tell the scenarios; whether one failed."""
    shutil.rmtree(settings.keep, ignore_errors=True)
    settings.keep.mkdir(parents=True)
    driver = ["--node-driver", settings.node_driver] if settings.node_driver else []
    told = subprocess.run(
        [
            *(sys.executable, "-m", "kvberth.cli", "scenario", "run", "--kubeconfig", str(settings.kubeconfig)),
            *(*driver, "--time-factor", settings.time_factor, "--keep", str(settings.keep)),
            *map(str, settings.scenarios),
        ],
        check=False,
    )
    return told.returncode != 0


def measure(settings: Settings) -> bool:
    """Measure moves; whether that failed. A target that is missed is said, and stands in the results."""
    if not settings.moves or settings.audit is None:
        say("SKIPPED: measuring moves, since KVBERTH_TEST_AUDIT names no audit log, or KVBERTH_TEST_MOVES is 0")
        return False
    asked = ("--kubeconfig", str(settings.kubeconfig), "--audit", str(settings.audit), "--moves", str(settings.moves))
    measured = subprocess.run([sys.executable, "-m", "benchmarks.t_move_cluster", *asked], cwd=REPOSITORY, check=False)
    return measured.returncode != 0


def uninstall(settings: Settings) -> str:
    """Uninstall; what is left of ours."""
    say("uninstalling: kubectl delete -k k8s/overlays/default")
    kubectl(settings, "delete", "-k", str(OVERLAY), "--ignore-not-found", f"--timeout={READY_WITHIN_S}s")
    served = kubectl(settings, "api-resources", "--api-group=admissionregistration.k8s.io", "-o", "name", quiet=True)
    kinds = ",".join((KINDS, *(kind for kind in SINCE_1_36 if kind in served)))
    found = kubectl(settings, "get", kinds, "-l", OURS, "--ignore-not-found", "-o", "name", quiet=True)
    return ", ".join(found.split())


def kubectl(settings: Settings, *arguments: str, quiet: bool = False) -> str:
    """Run kubectl against the cluster."""
    return run(["kubectl", "--kubeconfig", str(settings.kubeconfig), *arguments], quiet=quiet)


def run(command: list[str], *, quiet: bool = True) -> str:
    """Run a command; its output. Exits with it when it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command[:6])} … ended with {done.returncode}:\n{done.stdout[-4000:]}")
    if not quiet:
        say(done.stdout.strip())
    return done.stdout


def say(sentence: str) -> None:
    """Print a line at once, in order with what the commands print."""
    print(sentence, flush=True)


if __name__ == "__main__":
    sys.exit(main())
