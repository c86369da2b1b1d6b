from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from control_plane.cells import StartError
from control_plane.tls import check_tls, tls_files
from data_plane.settings import ServerSettings
from tests.integration.certificates import Certificates, make_certificates, pem


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path)


def settings(made: Certificates) -> ServerSettings:
    return ServerSettings(tls_certificate=made.certificate, tls_key=made.key)


def refusal(made: Certificates) -> str:
    with pytest.raises(StartError) as refused:
        check_tls(settings(made))
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_certificate_and_its_key_are_served(made: Certificates) -> None:
    check_tls(settings(made))
    assert tls_files(settings(made)) == (made.certificate, made.key)
    # A chain: the server's own comes first.
    made.certificate.write_bytes(made.certificate.read_bytes() + made.authority.read_bytes())
    check_tls(settings(made))


def test_without_them_http_is_served() -> None:
    check_tls(ServerSettings())
    assert tls_files(ServerSettings()) is None


def test_files_that_cannot_be_read(made: Certificates) -> None:
    missing = made.certificate.with_name("missing")
    assert refusal(made._replace(key=missing)) == f"tls-key: {missing}: No such file or directory"
    assert refusal(made._replace(certificate=missing)) == (
        f"tls-certificate: {missing}: No such file or directory"
    )


@pytest.mark.parametrize("octets", [b"", b"\xff", b"-----BEGIN CERTIFICATE-----\nx\n"])
def test_files_that_hold_something_else(made: Certificates, octets: bytes) -> None:
    key, certificate = made.key.read_bytes(), made.certificate.read_bytes()
    for wrong in (octets, key):
        made.certificate.write_bytes(wrong)
        assert refusal(made) == (
            f"tls-certificate: {made.certificate} has no certificate in PEM form"
        )
    made.certificate.write_bytes(certificate)
    for wrong in (octets, certificate):
        made.key.write_bytes(wrong)
        assert refusal(made) == f"tls-key: {made.key} has no private key in PEM form"


def test_a_key_of_another_certificate(made: Certificates) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    made.key.write_bytes(pem(other))
    assert refusal(made) == f"tls-key: {made.key} is not the key of {made.certificate}"
    made.key.write_bytes(pem(other, b"passphrase"))
    assert refusal(made) == f"tls-key: {made.key} is encrypted; the server needs it in clear"
