"""Files with certificates: whom a connection trusts is what stands in them, and never anybody else."""

import re
from pathlib import Path

import pytest

from kvberth.bus import BusSettings
from kvberth.bus.login import CannotSignIn, options
from kvberth_schemas.subjects import Service

PEM = Path(__file__).parents[2] / "support" / "tls" / "nats.pem"
OTHER = PEM.with_name("other.pem")


def context_of(file: Path):
    settings = BusSettings(url="nats://127.0.0.1:4222", service=Service.CLI, instance="a", tls_ca=file)
    return options(settings)["tls"]


@pytest.mark.parametrize("text", ["", " \n\t\n", "# none yet\n", "-----BEGIN CERTIFICATE-----\n"])
def test_a_file_without_a_certificate_is_refused_so_that_nobody_else_is_trusted(tmp_path, text):
    file = tmp_path / "ca.pem"
    file.write_text(text)
    with pytest.raises(CannotSignIn, match=f"{re.escape(str(file))} holds no certificates"):
        context_of(file)


def test_only_the_certificates_of_the_file_are_trusted_whatever_else_is_written_beside_them(tmp_path):
    file = tmp_path / "ca.pem"
    file.write_text(f"# Főtanúsítvány\n{PEM.read_text()}\n{OTHER.read_text()}", encoding="utf-8")
    assert context_of(file).cert_store_stats()["x509"] == 2


def test_a_file_that_is_too_long_is_refused_and_not_cut(tmp_path):
    file = tmp_path / "ca.pem"
    file.write_text(PEM.read_text() + "#" * 2**20)
    with pytest.raises(CannotSignIn, match="longer than 1048576 bytes"):
        context_of(file)


def test_what_is_no_text_is_refused(tmp_path):
    file = tmp_path / "ca.pem"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(CannotSignIn, match="is no text"):
        context_of(file)
