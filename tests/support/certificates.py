"""Certificates for tests of TLS: an authority, a broker, clients, and some that are wrong in one way each. PEM files."""

import datetime
import functools
import ipaddress
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

KINDS = {
    "C": NameOID.COUNTRY_NAME,
    "CN": NameOID.COMMON_NAME,
    "DC": NameOID.DOMAIN_COMPONENT,
    "L": NameOID.LOCALITY_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
}
DAY = datetime.timedelta(days=1)
ALTERNATIVES = ("localhost", "broker.test", "*.kafka.test", "127.0.0.1", "::1")
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
Subject = Sequence[tuple[str, str]]  # in the order of the certificate, as ("CN", "alice")


def new_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


@dataclass(frozen=True)
class Pair:
    """Files of a certificate and its key."""

    certificate: str
    key: str


class Authority:
    """Signs into a folder, by default one of its own; ``ca`` is the file of its certificate."""

    def __init__(
        self, name: str = "test authority", folder: Path | None = None, make_key: Callable[[], Key] = new_key
    ) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="kproxy-certificates-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self._make_key = make_key
        self._key = make_key()
        self._name = _named([("CN", name)])
        basic = x509.BasicConstraints(ca=True, path_length=None)
        certificate = _begun(self._name, self._name, self._key, DAY).add_extension(basic, critical=True)
        self.ca = str(self._write("ca.pem", certificate))

    def issue(
        self,
        file: str,
        subject: Subject = (("CN", "broker.test"),),
        alternatives: Sequence[str] = ALTERNATIVES,
        valid: datetime.timedelta = DAY,
        password: bytes | None = None,
    ) -> Pair:
        """A certificate for *subject* that began a day ago and ends in *valid* (negative: it has ended)."""
        key = self._make_key()
        begun = _begun(_named(subject), self._name, key, valid)
        if alternatives:
            begun = begun.add_extension(
                x509.SubjectAlternativeName([_alternative(a) for a in alternatives]), critical=False
            )
        locked = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
        key_file = self.folder / f"{file}.key.pem"
        key_file.write_bytes(pem)
        return Pair(str(self._write(f"{file}.pem", begun)), str(key_file))

    def issue_for(self, name: str, names: Sequence[str] = ()) -> tuple[Path, Path]:
        """(certificate, key) for CN=*name*, good for it, *names*, and where the tests' brokers and proxies are."""
        pair = self.issue(name, [("CN", name)], ["localhost", name, *names, "127.0.0.1", "127.0.0.2"])
        return Path(pair.certificate), Path(pair.key)

    def _write(self, file: str, certificate: x509.CertificateBuilder) -> Path:
        path = self.folder / file
        path.write_bytes(certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return path


@dataclass(frozen=True)
class Certificates:
    """What ``certificates()`` makes."""

    ca: str
    server: Pair  # of localhost, broker.test, *.kafka.test, 127.0.0.1 and ::1
    client: Pair  # CN=alice,OU=orders,O=kproxy tests
    expired: Pair  # like server, but it ended
    wrong_host: Pair  # of elsewhere.test alone
    encrypted: Pair  # its key has a password
    other_ca: str  # an authority that signed ``stranger``
    stranger: Pair


@functools.cache
def certificates() -> Certificates:
    """Made once a test run."""
    authority, other = Authority(), Authority("another authority")
    return Certificates(
        ca=authority.ca,
        server=authority.issue("server"),
        client=authority.issue("client", [("O", "kproxy tests"), ("OU", "orders"), ("CN", "alice")], ()),
        expired=authority.issue("expired", valid=-DAY / 2),
        wrong_host=authority.issue("wrong-host", [("CN", "elsewhere.test")], ["elsewhere.test"]),
        encrypted=authority.issue("encrypted", password=b"not told"),
        other_ca=other.ca,
        stranger=other.issue("stranger", [("CN", "mallory")]),
    )


def _named(subject: Subject) -> x509.Name:
    return x509.Name([x509.NameAttribute(KINDS[kind], value) for kind, value in subject])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _begun(subject: x509.Name, issuer: x509.Name, key: Key, valid: datetime.timedelta) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + valid)
    )
