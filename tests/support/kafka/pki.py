"""Certificate authorities and what they sign, as PEM files that Kafka, OpenSSL and Python all read."""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_ADDRESSES = ("127.0.0.1", "127.0.0.2")
_NAMES = ("localhost",)


class Authority:
    """Signs certificates into a folder. ``ca`` is its own certificate's file."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        certificate = _builder(self._name, self._name, self._key)
        limits = x509.BasicConstraints(ca=True, path_length=None)
        signed = certificate.add_extension(limits, critical=True).sign(self._key, hashes.SHA256())
        self.ca = folder / f"{name}-ca.pem"
        self.ca.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, names: Sequence[str] = ()) -> tuple[Path, Path]:
        """(certificate, key) for subject CN=*name*, good for *names*, localhost and the tests' addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = [x509.DNSName(each) for each in (*_NAMES, name, *names)]
        addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in _ADDRESSES]
        builder = _builder(_name(name), self._name, key)
        builder = builder.add_extension(x509.SubjectAlternativeName([*alternatives, *addresses]), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        certificate_file, key_file = self._folder / f"{name}.crt.pem", self._folder / f"{name}.key.pem"
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        certificate_file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return certificate_file, key_file

    def keystore(self, name: str) -> Path:
        """A certificate and its key in one file, as Kafka's ssl.keystore.type=PEM wants it."""
        certificate, key = self.issue(name)
        together = self._folder / f"{name}.keystore.pem"
        together.write_bytes(key.read_bytes() + certificate.read_bytes())
        return together


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
    )
