"""Checks of what the configuration refers to on this machine: certificates, keys, output paths, filters.

OpenSSL loads the TLS files here as it will in the workers. Nothing is opened for writing.
"""

import os
import ssl
import stat
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kproxy.config.checks import Problem, secrets_of
from kproxy.config.structs import PRINCIPAL, BrokerTls, Config, Kerberos, ListenerTls, Login, Tokens
from kproxy.errors import UsageError
from kproxy.options import Options, OtlpEndpoint, Rotated, Warn, quoted
from kproxy.schemas.settings import SchemaSources

BIGGEST = 16 << 20  # bytes of a PEM file; a system's bundle of CAs has 0.2 MB


class EncryptedKey(Exception):
    """The key is encrypted: OpenSSL asks for a password."""


def check_files(config: Config) -> Iterator[Problem]:
    """Report files that are missing, unreadable, not PEM, or do not belong together."""
    for at, cluster in enumerate(config.clusters):
        path = f"clusters[{at}]"
        if cluster.listener_tls:
            yield from _check_listener_tls(f"{path}.listener_tls", cluster.listener_tls)
        if cluster.broker_tls:
            yield from _check_broker_tls(f"{path}.broker_tls", cluster.broker_tls)
        if cluster.authentication and cluster.authentication.users is not None:
            yield from _check_users(f"{path}.authentication.users", cluster.authentication.users)
        if cluster.login:
            yield from _check_login(f"{path}.login", cluster.login)
        if cluster.authentication and cluster.authentication.tokens is not None:
            yield from _check_tokens(f"{path}.authentication.tokens", cluster.authentication.tokens)
        if cluster.authentication and cluster.authentication.kerberos is not None:
            yield from _check_kerberos(f"{path}.authentication.kerberos", cluster.authentication.kerberos)
    for part in config.analysis.__struct_fields__:
        rotated = getattr(config.analysis, part)
        if isinstance(rotated, Rotated) and rotated.path:
            yield from _check_output_path(f"analysis.{part}.path", rotated.path)
    if config.page.spill is not None:
        yield from _check_directory("page.spill.directory", config.page.spill.directory)
    yield from _check_schemas(config.schemas)
    if config.traces is not None:
        yield from _check_endpoint("traces", config.traces, ["opentelemetry.proto"])


def _check_schemas(sources: SchemaSources) -> Iterator[Problem]:
    """Check sources of schemas one by one, as processes will open them; no registry is asked."""
    parts = [
        *((f"schemas.topics.{place}", SchemaSources(topics={place: file})) for place, file in sources.topics.items()),
        *((f"schemas.folders[{at}]", SchemaSources(folders=[one])) for at, one in enumerate(sources.folders)),
        *((f"schemas.registries[{at}]", SchemaSources(registries=[one])) for at, one in enumerate(sources.registries)),
    ]
    for path, part in parts:
        try:
            part.open()
        except UsageError as error:
            yield path, str(error)


def _check_endpoint(path: str, endpoint: OtlpEndpoint, packages: list[str]) -> Iterator[Problem]:
    """Check that an export's CAs are readable and its packages installed, without importing them."""
    needed = [*packages, *(["grpc"] if endpoint.protocol == "grpc" else [])]
    if not all(map(_is_installed, needed)):
        yield (
            f"{path}.protocol" if endpoint.protocol == "grpc" else path,
            'it needs packages that are missing: pip install "kproxy-kafka[otlp]"',
        )
    if endpoint.ca is not None:
        yield from _check_certificates(f"{path}.ca", endpoint.ca)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False


def watched_files(config: Config) -> list[str]:
    """List the files that are loaded again when they change: certificates, keys, CAs and users."""
    parts = [
        part
        for cluster in config.clusters
        for part in (
            cluster.listener_tls,
            cluster.broker_tls,
            cluster.authentication,
            cluster.authentication and cluster.authentication.tokens,
            cluster.authentication and cluster.authentication.kerberos,
        )
        if part
    ]
    names = ("certificate", "key", "client_ca", "ca", "users", "keys_file", "keytab")
    return sorted({file for part in parts for name in names if (file := getattr(part, name, None))})


def filter_files(config: Config) -> set[str]:
    """List the source files of filters from outside kproxy, which --reload-filters loads again."""
    from kproxy.filters.loading import source_of  # noqa: PLC0415 - as in check_filters

    uses = {use.use for cluster in config.clusters for use in cluster.filters}
    return {file for use in uses if (file := source_of(use)) is not None}


def _check_listener_tls(path: str, tls: ListenerTls) -> Iterator[Problem]:
    yield from _check_pair(path, tls.certificate, tls.key)
    if tls.client_ca is not None:
        yield from _check_certificates(f"{path}.client_ca", tls.client_ca)


def _check_broker_tls(path: str, tls: BrokerTls) -> Iterator[Problem]:
    if tls.ca is not None:
        yield from _check_certificates(f"{path}.ca", tls.ca)
    if tls.certificate is not None and tls.key is not None:
        yield from _check_pair(path, tls.certificate, tls.key)


def _check_users(path: str, file: str) -> Iterator[Problem]:
    from kproxy.authentication.users import Users  # noqa: PLC0415 - few configurations have one

    try:
        Users(Path(file))
    except UsageError as error:
        yield path, str(error)


def _check_tokens(path: str, tokens: Tokens) -> Iterator[Problem]:
    missing = list(_check_package(path, "joserfc", "identities"))
    yield from missing
    if not missing and tokens.keys_file is not None:
        yield from _check_file(f"{path}.keys_file", tokens.keys_file)
    if tokens.ca is not None:
        yield from _check_certificates(f"{path}.ca", tokens.ca)


def _check_kerberos(path: str, kerberos: Kerberos) -> Iterator[Problem]:
    from kproxy.authentication.kerberos import NoGssapi, Service  # noqa: PLC0415 - few configurations have one

    problems = list(_check_file(f"{path}.keytab", kerberos.keytab))
    yield from problems
    try:
        if not problems:
            Service(kerberos.keytab, kerberos.service, kerberos.principal_rules)
    except NoGssapi as error:
        yield path, f"it needs a package that is missing: {str(error).partition(': ')[2]}"
    except UsageError as error:
        yield f"{path}.keytab", str(error)


def _check_pair(path: str, certificate: str, key: str) -> Iterator[Problem]:
    problems = [*_check_certificates(f"{path}.certificate", certificate), *_check_file(f"{path}.key", key)]
    yield from problems
    if problems:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_refuse)
    except EncryptedKey:
        yield (
            f"{path}.key",
            f"{quoted(key)} is encrypted: use a key without a password (openssl pkey -in ... -out ...)",
        )
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            yield f"{path}.key", f"{quoted(key)} is not the key of {quoted(certificate)}"
        else:
            yield (
                f"{path}.key",
                f"{quoted(key)} does not contain a private key in PEM that belongs to {quoted(certificate)}",
            )
    except OSError as error:  # removed between the two reads
        yield f"{path}.key", f"{quoted(key)}: {error.strerror}"


def _refuse() -> str:
    raise EncryptedKey


def _check_login(path: str, login: Login) -> Iterator[Problem]:
    for name, secret in secrets_of(login):
        if PRINCIPAL not in secret:
            yield from _check_secret(f"{path}.{name}", secret)
    if login.token is not None:
        yield from _check_package(f"{path}.token", "urllib3", "identities")
        if login.token.ca is not None:
            yield from _check_certificates(f"{path}.token.ca", login.token.ca)
    if login.vault is not None:
        yield from _check_package(f"{path}.vault", "hvac", "vault")
        yield from _check_secret(f"{path}.vault.token", login.vault.token)
        if login.vault.ca is not None:
            yield from _check_certificates(f"{path}.vault.ca", login.vault.ca)
    if login.mechanism == "AWS_MSK_IAM":
        yield from _check_package(f"{path}.mechanism", "aws_msk_iam_sasl_signer", "aws")
    if login.mechanism == "GSSAPI":
        yield from _check_package(f"{path}.mechanism", "gssapi", "gssapi")


def _check_package(path: str, module: str, extra: str) -> Iterator[Problem]:
    if not _is_installed(module):
        yield path, f'it needs a package that is missing: pip install "kproxy-kafka[{extra}]"'


def _check_secret(path: str, secret: str) -> Iterator[Problem]:
    kind, _, name = secret.partition(":")
    if kind == "file":
        yield from _check_file(path, name)
    elif kind == "env" and not os.environ.get(name):
        yield path, f"the environment variable {quoted(name)} is not set"


def _check_certificates(path: str, file: str) -> Iterator[Problem]:
    problems = list(_check_file(path, file))
    yield from problems
    if problems:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=file)
    except ssl.SSLError:
        yield path, f"{quoted(file)} does not contain a certificate in PEM (-----BEGIN CERTIFICATE-----)"
    except OSError as error:
        yield path, f"{quoted(file)}: {error.strerror}"


def _check_file(path: str, file: str) -> Iterator[Problem]:
    try:
        with Path(file).open("rb") as opened:
            status = os.fstat(opened.fileno())
    except OSError as error:
        yield path, f"{quoted(file)}: {error.strerror}"
        return
    except ValueError:  # NUL in the name
        yield path, f"{quoted(file)} is not a file name"
        return
    if not stat.S_ISREG(status.st_mode):
        yield path, f"{quoted(file)} is not a regular file: kproxy has to be able to read it again"
    elif status.st_size > BIGGEST:
        yield path, f"{quoted(file)} has {status.st_size:,} bytes: it is not a PEM file"


def _check_directory(path: str, folder: str) -> Iterator[Problem]:
    if "\0" in folder:
        yield path, f"{quoted(folder)} is not a file name"
    elif not Path(folder).is_dir():
        yield path, f"{quoted(folder)} is not a directory: create it first"
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield path, f"{quoted(folder)} is not writable"


def _check_output_path(path: str, file: str) -> Iterator[Problem]:
    """Check that the file can be created: its directory exists and is writable."""
    if "\0" in file:
        yield path, f"{quoted(file)} is not a file name"
        return
    problems = list(_check_directory(path, str(Path(file).parent)))
    yield from problems
    if not problems and Path(file).is_dir():
        yield path, f"{quoted(file)} is a directory: write the path of a file in it"


def filter_warnings(config: Config) -> Iterator[Problem]:
    """Yield what filters that load do together and that may not be meant."""
    from kproxy.filters.loading import load_filter  # noqa: PLC0415 - as in check_filters

    for number, cluster in enumerate(config.clusters):
        loaded = [load_filter(use.use, use.with_) for use in cluster.filters]
        for at, filter_ in enumerate(loaded):
            yield from ((f"clusters[{number}].filters[{at}]", warning) for warning in filter_.warnings(loaded[:at]))


def check_filters(config: Config, warn: Warn | None = None) -> Iterator[Problem]:
    """Report filters that do not load, and files that they could not write. This imports their modules.

    *warn*: for Options.problems_elsewhere; None: nothing is looked up over the network.
    """
    for number, cluster in enumerate(config.clusters):
        made: list[Any] = []
        for at, use in enumerate(cluster.filters):
            from kproxy.filters.loading import FilterMistakes, load_filter, misplaced  # noqa: PLC0415 - imports the codec

            path = f"clusters[{number}].filters[{at}]"
            try:
                loaded = load_filter(use.use, use.with_)
            except FilterMistakes as error:
                made.append(None)
                yield from ((f"{path}.{below}", message) for below, message in error.problems)
            else:
                made.append(loaded)
                yield from ((f"{path}.use", message) for message in loaded.problems_at_start(config.schemas.has_any))
                yield from _check_options(f"{path}.with", getattr(loaded, "options", None), warn)
                topics, folders = config.schemas.topics, config.schemas.folders
                if loaded.checks_schemas and (topics or folders):
                    with suppress(UsageError):  # reported with its own place; no registry is asked
                        schemas = SchemaSources(topics=topics, folders=folders).open()
                        yield from ((f"{path}.use", message) for message in loaded.problems_with_schemas(schemas))
        if made:
            yield from ((f"clusters[{number}].filters[{at}].use", message) for at, message in misplaced(made))


def _check_options(path: str, options: object, warn: Warn | None) -> Iterator[Problem]:
    """Check the files among the options of a filter, what an export among them needs, and what they check themselves."""
    yield from (found := list(_own_problems(path, options)))
    if warn is not None and not found and isinstance(options, Options):
        yield from ((f"{path}.{below}", message) for below, message in options.problems_elsewhere(warn))
    for name in getattr(options, "__struct_fields__", ()):
        value = getattr(options, name)
        if isinstance(value, Rotated) and value.path:
            yield from _check_output_path(f"{path}.{name}.path", value.path)
        elif isinstance(value, OtlpEndpoint):
            yield from _check_endpoint(f"{path}.{name}", value, [])
        else:
            yield from _own_problems(f"{path}.{name}", value)


def _own_problems(path: str, options: object) -> Iterator[Problem]:
    if isinstance(options, Options):
        yield from ((f"{path}.{below}" if below else path, message) for below, message in options.problems_here())
