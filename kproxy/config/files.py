"""What the configuration names on this machine: certificates, keys, places for logs and captures, filters.

TLS files are read the way they will be used, by OpenSSL, so that what passes here loads there. Nothing is opened for writing.
"""

import os
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path

from kproxy.config.checks import Complaint
from kproxy.config.structs import BrokerTls, Config, ListenerTls
from kproxy.config.units import quoted
from kproxy.errors import KproxyError

BIGGEST = 16 << 20  # bytes of a PEM file: a system's whole bundle of CAs has 0.2 MB


class EncryptedKey(Exception):
    """OpenSSL asks for a password."""


def check_files(config: Config) -> Iterator[Complaint]:
    """Files that are missing, unreadable, no PEM, or do not belong together."""
    for at, cluster in enumerate(config.clusters):
        path = f"clusters[{at}]"
        if cluster.listener_tls:
            yield from _check_listener_tls(f"{path}.listener_tls", cluster.listener_tls)
        if cluster.broker_tls:
            yield from _check_broker_tls(f"{path}.broker_tls", cluster.broker_tls)
    for part in ("log", "capture"):
        rotated = getattr(config.analysis, part)
        if rotated is not None and rotated.path:
            yield from _check_place(f"analysis.{part}.path", rotated.path)


def watched_files(config: Config) -> list[str]:
    """Files whose change means that connections to come use others: certificates, keys and CAs."""
    parts = [part for cluster in config.clusters for part in (cluster.listener_tls, cluster.broker_tls) if part]
    names = ("certificate", "key", "client_ca", "ca")
    return sorted({file for part in parts for name in names if (file := getattr(part, name, None))})


def _check_listener_tls(path: str, tls: ListenerTls) -> Iterator[Complaint]:
    yield from _check_pair(path, tls.certificate, tls.key)
    if tls.client_ca is not None:
        yield from _check_certificates(f"{path}.client_ca", tls.client_ca)


def _check_broker_tls(path: str, tls: BrokerTls) -> Iterator[Complaint]:
    if tls.ca is not None:
        yield from _check_certificates(f"{path}.ca", tls.ca)
    if tls.certificate is not None and tls.key is not None:
        yield from _check_pair(path, tls.certificate, tls.key)


def _check_pair(path: str, certificate: str, key: str) -> Iterator[Complaint]:
    complaints = [*_check_certificates(f"{path}.certificate", certificate), *_check_file(f"{path}.key", key)]
    yield from complaints
    if complaints:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_refuse)
    except EncryptedKey:
        yield (
            f"{path}.key",
            f"{quoted(key)} is encrypted: give a key without a password (openssl pkey -in ... -out ...)",
        )
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            yield f"{path}.key", f"{quoted(key)} is not the key of {quoted(certificate)}"
        else:
            yield f"{path}.key", f"{quoted(key)} holds no private key in PEM that goes with {quoted(certificate)}"
    except OSError as error:  # gone between two looks
        yield f"{path}.key", f"{quoted(key)}: {error.strerror}"


def _refuse() -> str:
    raise EncryptedKey


def _check_certificates(path: str, file: str) -> Iterator[Complaint]:
    complaints = list(_check_file(path, file))
    yield from complaints
    if complaints:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=file)
    except ssl.SSLError:
        yield path, f"{quoted(file)} holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"
    except OSError as error:
        yield path, f"{quoted(file)}: {error.strerror}"


def _check_file(path: str, file: str) -> Iterator[Complaint]:
    try:
        with Path(file).open("rb") as opened:
            status = os.fstat(opened.fileno())
    except OSError as error:
        yield path, f"{quoted(file)}: {error.strerror}"
        return
    except ValueError:  # a NUL in the name
        yield path, f"{quoted(file)} is no name of a file"
        return
    if not stat.S_ISREG(status.st_mode):
        yield path, f"{quoted(file)} is no regular file: it is read again when it changes"
    elif status.st_size > BIGGEST:
        yield path, f"{quoted(file)} has {status.st_size:,} bytes: that is no PEM file"


def _check_place(path: str, file: str) -> Iterator[Complaint]:
    """A file that is to be made: its folder is there and may be written."""
    if "\0" in file:
        yield path, f"{quoted(file)} is no name of a file"
        return
    folder = Path(file).parent
    if not folder.is_dir():
        yield path, f"{quoted(str(folder))} is no directory: make it first"
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield path, f"{quoted(str(folder))} may not be written"
    elif Path(file).is_dir():
        yield path, f"{quoted(file)} is a directory: name a file in it"


def check_filters(config: Config) -> Iterator[Complaint]:
    """Filters that do not load; their modules are imported for it."""
    for number, cluster in enumerate(config.clusters):
        for at, use in enumerate(cluster.filters):
            from kproxy.filters.loading import load_filter  # noqa: PLC0415 - filters bring the codec: not without need

            try:
                load_filter(use.use, use.with_)
            except KproxyError as error:
                yield f"clusters[{number}].filters[{at}].use", str(error)
