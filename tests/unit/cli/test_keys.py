"""`kvberth keys`: secret seeds and public keys that belong together, kept where nobody else looks."""

import re
import stat

import pytest
from typer.testing import CliRunner

from kvberth.bus.login import public_key
from kvberth.cli.errors import CommandError
from kvberth.cli.keys import keys
from kvberth_schemas.natsconf import variable
from kvberth_schemas.rights import ON_BARE, ON_KUBERNETES


@pytest.mark.parametrize(("bare", "services"), [(True, ON_BARE), (False, ON_KUBERNETES)])
def test_each_service_gets_a_seed_and_the_server_their_public_keys(tmp_path, capsys, bare, services):
    folder = tmp_path / "new" / "keys"
    keys(folder, bare=bare)
    told = dict(line.split("=") for line in (folder / "public.env").read_text().splitlines())
    assert told == {variable(service): public_key(folder / f"{service}.seed") for service in services}
    assert len(set(told.values())) == len(services)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not any((folder / f"{service}.seed").read_text().strip() in capsys.readouterr().out for service in services)


def test_a_second_run_keeps_keys_and_makes_what_is_missing(tmp_path):
    folder = tmp_path / "keys"
    keys(folder)
    before = {file.name: file.read_text() for file in folder.iterdir()}
    (folder / "placement.seed").unlink()
    keys(folder)
    after = {file.name: file.read_text() for file in folder.iterdir()}
    assert {name for name in before if before[name] != after[name]} == {"placement.seed", "public.env"}


def test_one_folder_for_machines_with_and_without_kubernetes_tells_the_server_all_of_its_keys(tmp_path):
    folder = tmp_path / "keys"
    keys(folder, bare=True)
    (folder / "notes.seed").write_text("of somebody else")
    keys(folder)
    told = dict(line.split("=") for line in (folder / "public.env").read_text().splitlines())
    assert told == {variable(one): public_key(folder / f"{one}.seed") for one in {*ON_BARE, *ON_KUBERNETES}}


def test_the_servers_keys_are_never_there_in_part(tmp_path):
    folder = tmp_path / "keys"
    keys(folder)
    former = (folder / "public.env").open()
    before = (folder / "public.env").read_text()
    keys(folder, bare=True)
    with former:  # who reads the former file reads it whole
        assert former.read() == before
    assert {file.suffix for file in folder.iterdir()} == {".seed", ".env"}


def test_several_servers_get_a_password_of_their_own_that_stays(tmp_path):
    keys(tmp_path / "bare", bare=True)
    assert not (tmp_path / "bare" / "peers.env").exists()
    passwords = set()
    for folder in ("one", "other", "one"):
        keys(tmp_path / folder)
        passwords.add((tmp_path / folder / "peers.env").read_text())
    assert len(passwords) == 2
    assert all(re.fullmatch("KVBERTH_NATS_PEERS=p[0-9a-f]{64}\n", password) for password in passwords)


def test_a_folder_that_is_open_to_others_gets_no_keys(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    with pytest.raises(CommandError, match="chmod 700"):
        keys(tmp_path / "open")
    assert not list((tmp_path / "open").iterdir())


def test_what_is_no_seed_is_named_and_not_overwritten(tmp_path):
    keys(tmp_path / "keys")
    file = tmp_path / "keys" / "cli.seed"
    file.chmod(0o600)
    file.write_text("nonsense")
    with pytest.raises(CommandError, match=r"cli\.seed holds no seed"):
        keys(tmp_path / "keys")
    assert file.read_text() == "nonsense"


def test_the_command_is_listed_and_runs(tmp_path):
    from kvberth.cli.application import app

    result = CliRunner().invoke(app, ["keys", str(tmp_path / "keys")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "keys" / "placement.seed").exists()
