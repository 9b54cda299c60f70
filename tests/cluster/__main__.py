"""`make test-cluster`: builds images, installs kvberth on the cluster of KUBECONFIG, tells the scenarios, uninstalls.

Works on any cluster; what is missing is said and skipped. Exit status: 0 when no scenario failed, the uninstall left
nothing behind but what docs/deploy.md says, and engines start afterwards as if nothing had been there.
"""

import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.cluster import blocks, left, machines, names, without
from tests.cluster.settings import REPOSITORY, Settings

KVBERTH = "localhost/kvberth:0.1.0"
NATS = "docker.io/library/nats:2.15.1"
OVERLAY = REPOSITORY / "k8s" / "overlays" / "default"
DEPLOYMENTS = ("nats", "placement", "pod-watcher")
READY_WITHIN_S = 180
CACHES_OF = "kvberth.dev/kvcache"
CRD = "customresourcedefinitions/kvcaches.orchestration.aibrix.ai"
ENGINE = "docker.io/vllm/vllm-openai:v0.8.5"
"""One of the images that stories need."""


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
    kubectl = partial(_kubectl, settings)
    before = left.objects(kubectl)
    try:
        install(settings)
        failed = tell(settings)
        failed |= pay(settings)
        failed |= machines_come_and_die(settings)
        unmeasured = measure(settings)
    finally:
        wrong = uninstall(kubectl, before)
    if failed and settings.audit is not None:
        shutil.copy(settings.audit, settings.keep / "audit.log")
    if failed:
        say(f"what the failed scenarios left is kept in {settings.keep}")
    for sentence in wrong:
        say(sentence)
    return 1 if failed or unmeasured or wrong else 0


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
    kubectl = partial(_kubectl, settings)
    say("installing: kubectl apply -k k8s/overlays/default")
    kubectl("apply", "-k", str(OVERLAY))
    for name in (*(f"deployment/{name}" for name in DEPLOYMENTS), "daemonset/kvberth-node"):
        say(
            kubectl("-n", "kvberth", "rollout", "status", f"--timeout={READY_WITHIN_S}s", name).strip().splitlines()[-1]
        )


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


def pay(settings: Settings) -> bool:
    """Show who pays for blocks; whether that failed."""
    if not settings.blocks:
        say("SKIPPED: who pays for blocks, since KVBERTH_TEST_BLOCKS is 0")
        return False
    return blocks.main() != 0


def machines_come_and_die(settings: Settings) -> bool:
    """Add a machine, and let some die; whether something went wrong."""
    if not settings.machines:
        say("SKIPPED: machines that come and die, since KVBERTH_TEST_MACHINES is 0")
        return False
    return machines.main() != 0


def measure(settings: Settings) -> bool:
    """Measure moves; whether that failed. A target that is missed is said, and stands in the results."""
    if not settings.moves or settings.audit is None:
        say("SKIPPED: measuring moves, since KVBERTH_TEST_AUDIT names no audit log, or KVBERTH_TEST_MOVES is 0")
        return False
    asked = ("--kubeconfig", str(settings.kubeconfig), "--audit", str(settings.audit), "--moves", str(settings.moves))
    measured = subprocess.run([sys.executable, "-m", "benchmarks.t_move_cluster", *asked], cwd=REPOSITORY, check=False)
    return measured.returncode != 0


def uninstall(kubectl: left.Kubectl, before: frozenset[str]) -> list[str]:
    """Uninstall as docs/deploy.md says; give what is wrong afterwards."""
    if kubectl("get", CRD, "--ignore-not-found", "-o", "name"):
        kubectl("delete", "kvcaches", "--all", "--all-namespaces", f"--timeout={READY_WITHIN_S}s")
        kubectl(
            "wait", "--for=delete", "daemonsets", "--all-namespaces", "-l", CACHES_OF, f"--timeout={READY_WITHIN_S}s"
        )
    say("uninstalling: kubectl delete -k k8s/overlays/default")
    kubectl("delete", "-k", str(OVERLAY), "--ignore-not-found", f"--timeout={READY_WITHIN_S}s")
    wrong = without.not_started(kubectl, ENGINE)
    wrong += [f"the uninstall left behind: {one}" for one in left.more_than(kubectl, before)]
    for node, lines in left.on_nodes(kubectl, KVBERTH).items():
        wrong += [f"the uninstall left behind on {node}: {line}" for line in left.no_cache_was_there(lines)]
        say(f"on {node} there stay {len(lines)} directories and files of caches that were there")
    return wrong


def _kubectl(settings: Settings, *arguments: str, text: str | None = None) -> str:
    return run(["kubectl", "--kubeconfig", str(settings.kubeconfig), *arguments], text=text)


def run(command: list[str], *, text: str | None = None) -> str:
    """Run a command with a text for its input; its output. Exits with it when it fails."""
    done = subprocess.run(command, input=text or "", capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command[:6])} … ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def say(sentence: str) -> None:
    """Print a line at once, in order with what the commands print."""
    print(sentence, flush=True)


if __name__ == "__main__":
    sys.exit(main())
