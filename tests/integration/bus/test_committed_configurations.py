"""The configurations of NATS that are committed: a real server takes them with keys, and refuses to start without."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from kvberth.cli.keys import keys
from kvberth_schemas.natsconf import FILES
from support.nats import find_nats_server

ROOT = Path(__file__).parents[3]
BASE = ROOT / "k8s" / "base"


def checked(configuration: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [str(find_nats_server()), "-t", "-c", str(configuration)]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=20, check=False)


@pytest.mark.parametrize("users", sorted(FILES))
def test_a_server_takes_them_with_the_public_keys_and_no_other_way(tmp_path, users):
    own = (ROOT / users).with_name("nats.conf")
    configuration = shutil.copy(own if own.exists() else BASE / "nats.conf", tmp_path)
    for part in (BASE / "cluster.conf", ROOT / users):
        shutil.copy(part, tmp_path)
    assert "include ./users.conf" in Path(configuration).read_text()
    keys(tmp_path / "keys", bare=users.startswith("compose"))
    told = dict(line.split("=") for line in (tmp_path / "keys" / "public.env").read_text().splitlines())
    done = checked(configuration, told)
    assert done.returncode == 0, done.stderr
    told.popitem()
    assert "KVBERTH_NKEY_CLI" in checked(configuration, told).stderr


def test_a_server_takes_those_of_the_default_install_and_of_ha(tmp_path):
    for part in ("nats.conf", "users.conf", "cluster.conf"):
        shutil.copy(BASE / part, tmp_path)
    assert checked(tmp_path / "nats.conf", {}).returncode == 0
    for part in ("cluster.conf", "peers.conf"):
        shutil.copy(ROOT / "k8s" / "overlays" / "ha" / part, tmp_path)
    done = checked(tmp_path / "nats.conf", {"POD_NAME": "nats-0"})
    assert done.returncode == 0, done.stderr


def test_compose_gives_each_service_the_key_of_its_service():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    secured = yaml.safe_load((ROOT / "compose" / "nkeys.yaml").read_text())["services"]
    assert set(secured) == set(services)
    for name, service in secured.items():
        if name == "nats":
            continue
        module = services[name]["command"][-1].rpartition(".")[2]
        assert service["volumes"] == [f"./compose/keys/{module}.seed:/etc/kvberth/nkey:ro,z"]
        assert service["environment"] == {"KVBERTH_NATS_NKEY_FILE": "/etc/kvberth/nkey"}
