"""The configurations of NATS that are committed: a real server takes them with keys, and refuses to start without."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from kvberth.cli.keys import keys
from kvberth_schemas.natsconf import FILES
from support.nats import find_nats_server

ROOT = Path(__file__).parents[3]


def checked(configuration: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [str(find_nats_server()), "-t", "-c", str(configuration)]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=20, check=False)


@pytest.mark.parametrize("users", sorted(FILES))
def test_a_server_takes_them_with_the_public_keys_and_no_other_way(tmp_path, users):
    configuration = (ROOT / users).with_name("nats.conf")
    assert "include ./users.conf" in configuration.read_text()
    keys(tmp_path / "keys", bare=users.startswith("compose"))
    told = dict(line.split("=") for line in (tmp_path / "keys" / "public.env").read_text().splitlines())
    done = checked(configuration, told)
    assert done.returncode == 0, done.stderr
    told.popitem()
    assert "KVBERTH_NKEY_CLI" in checked(configuration, told).stderr


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
