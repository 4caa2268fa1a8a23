"""TLS contexts for both legs, made anew when their files change; who the client says it is, and which name it asked for.

TLS 1.2 or later, no ALPN (Kafka has none), no renegotiation by the client. Keys with a password are refused: nobody is there
to type it.
"""

import ssl
import sys

from kproxy.config import BrokerTls, ListenerTls
from kproxy.errors import UsageError
from kproxy.proxy.network.endpoint import numeric

CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
# Kafka's clients and brokers end connections without TLS's own goodbye; frames carry their sizes, so no cut goes unseen.
OPTIONS = ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_IGNORE_UNEXPECTED_EOF
SERVER_NAME = "kproxy_server_name"  # attribute of the ssl.SSLObject


class _EncryptedKey(Exception):
    """OpenSSL asks for a password."""


def listener_context(tls: ListenerTls, *, names: bool = False) -> ssl.SSLContext:
    """Towards clients; with *names* ``server_name_of()`` tells which one a client asked for.

    Raises UsageError naming the file that is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _harden(context)
    _load_pair(context, tls.certificate, tls.key)
    context.verify_mode = CLIENT_AUTH[tls.client_auth]
    if tls.client_auth != "none":
        if tls.client_ca is None:
            raise UsageError("client_auth needs client_ca, which says whose certificates to believe")
        _load_ca(context, tls.client_ca)
    if names:
        _hush_names()
        context.sni_callback = _remember
    return context


def broker_context(tls: BrokerTls) -> ssl.SSLContext:
    """Towards brokers; use it with ``server_name()``. Raises UsageError naming the file that is not what it should be."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _harden(context)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls.ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _load_ca(context, tls.ca)
    if tls.certificate is not None and tls.key is not None:
        _load_pair(context, tls.certificate, tls.key)
    return context


def server_name(tls: BrokerTls, host: str) -> str:
    """What to give as server_hostname when connecting to *host*: sent as SNI unless it is numeric, and verified."""
    name = tls.server_name or host
    return name.partition("%")[0] if numeric(name) else name.rstrip(".")


class Contexts:
    """The context of one leg, which is another after a reload; connections keep the one they began with."""

    def __init__(self, tls: ListenerTls | BrokerTls, *, names: bool = False) -> None:
        """*names*: of a listener, see ``listener_context``. Raises UsageError when there is nothing to begin with."""
        self._tls = tls
        self._names = names
        self._context = self._made()

    def get(self) -> ssl.SSLContext:
        """For the next connection."""
        return self._context

    def reload(self) -> str | None:
        """Read the files again. Returns why not, where the new ones cannot be used and the old go on; None when all is well."""
        try:
            self._context = self._made()
        except UsageError as error:
            return str(error)
        return None

    def _made(self) -> ssl.SSLContext:
        if isinstance(self._tls, ListenerTls):
            return listener_context(self._tls, names=self._names)
        return broker_context(self._tls)


def server_name_of(connection: ssl.SSLObject | ssl.SSLSocket) -> str | None:
    """The name (SNI) that a client asked for, once its handshake is done; None: it named none.

    *connection*: ``get_extra_info("ssl_object")`` of a transport whose context ``listener_context`` made.
    """
    name: str | None = getattr(connection, SERVER_NAME, None)
    return name


def principal_of(connection: ssl.SSLObject | ssl.SSLSocket) -> str | None:
    """Subject of the client's verified certificate as Kafka's principals have it, "CN=alice,O=orders"; None: it showed none.

    RFC 4514, as ``kproxy decode`` shows it; Java puts a backslash before "=" and "#" inside a value too, which the RFC does not.
    """
    certificate = connection.getpeercert(binary_form=True)
    if certificate is None:
        return None
    from kproxy.capture.tls.certificates import subject_of  # noqa: PLC0415 - brings cryptography: only where it is used

    return subject_of(certificate)


def _remember(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
    setattr(connection, SERVER_NAME, name)


def _hush_names() -> None:
    """A server name that is not ASCII ends the handshake with an alert; Python prints a traceback too: not for any stranger."""
    before = sys.unraisablehook
    if getattr(before, "hushes_names", False):
        return

    def hook(arguments: "sys.UnraisableHookArgs", /) -> None:
        if not (isinstance(arguments.exc_value, UnicodeDecodeError) and isinstance(arguments.object, bytes)):
            before(arguments)

    hook.hushes_names = True  # type: ignore[attr-defined]
    sys.unraisablehook = hook


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= OPTIONS


def _load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        context.load_cert_chain(certificate, key, password=_refuse)
    except _EncryptedKey:
        raise UsageError(f"{key} is encrypted: give a key without a password") from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise UsageError(f"{key} is not the key of {certificate}") from None
        raise UsageError(
            f"{certificate} and {key} are no certificate and key in PEM that TLS can use: {_reason(error)}"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{certificate} and {key} cannot be read: {_reason(error)}") from None


def _load_ca(context: ssl.SSLContext, file: str) -> None:
    try:
        context.load_verify_locations(cafile=file)
    except ssl.SSLError as error:
        raise UsageError(f"{file} has no certificates in PEM: {_reason(error)}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {_reason(error)}") from None


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not PEM").replace("_", " ").lower()
    return str(error.strerror if isinstance(error, OSError) else error)


def _refuse() -> str:
    raise _EncryptedKey
