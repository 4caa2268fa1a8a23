"""TLS contexts towards clients and brokers, replaced when their files change; a client's principal and the name it asked for.

TLS 1.2 or later, no ALPN (Kafka has none), no renegotiation by the client. Keys with a password are refused, as no
person is there to type it.
"""

import asyncio
import contextlib
import socket
import ssl
import sys

from kproxy.config.structs import BrokerTls, ListenerTls
from kproxy.errors import UsageError
from kproxy.filters.contract import ClientTls
from kproxy.protocol.addresses import parse_ip

CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
# Kafka's clients and brokers end connections without close_notify; frames carry their sizes, so no cut goes unseen.
OPTIONS = ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_IGNORE_UNEXPECTED_EOF
HANDSHAKE_CHUNK = 16_384  # bytes
SERVER_NAME = "kproxy_server_name"  # attribute of the ssl.SSLObject


class _EncryptedKey(Exception):
    """OpenSSL asks for a password."""


def listener_context(tls: ListenerTls, *, names: bool = False) -> ssl.SSLContext:
    """Make the context towards clients; with *names*, ``server_name_of()`` returns the name that a client asked for.

    Raises UsageError naming the file that cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _harden(context)
    _load_pair(context, tls.certificate, tls.key)
    context.verify_mode = CLIENT_AUTH[tls.client_auth]
    if tls.client_auth != "none":
        if tls.client_ca is None:
            raise UsageError("client_auth needs client_ca: the authorities whose certificates are accepted")
        _load_ca(context, tls.client_ca)
    if names:
        _silence_bad_names()
        context.sni_callback = lambda connection, name, _: setattr(connection, SERVER_NAME, name)
    return context


def broker_context(tls: BrokerTls) -> ssl.SSLContext:
    """Make the context towards brokers; use it with ``server_name()``. Raises UsageError naming the file that cannot be used."""
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
    """Return server_hostname for a connection to *host*: verified, and sent as SNI unless it is numeric."""
    name = tls.server_name or host
    return name.partition("%")[0] if parse_ip(name) else name.rstrip(".")


async def handshake(
    connected: socket.socket, context: ssl.SSLContext, name: str | None, seconds: float
) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """Do the handshake on a connected socket, which stays the caller's: as the client of *name*, or as the server if None.

    Returns the SSLObject that decrypts and encrypts from then on, its buffer of received bytes, which may have some already, and
    its buffer of bytes to send. Raises OSError: ssl.SSLError, a lost connection, or no end within so many seconds.
    """
    connected.setblocking(False)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = context.wrap_bio(incoming, outgoing, server_side=name is None, server_hostname=name)
    try:
        async with asyncio.timeout(seconds):
            await _shake_hands(connected, side, incoming, outgoing)
    except TimeoutError:
        raise ConnectionAbortedError(f"no end of the handshake within {seconds:g} s") from None
    return side, incoming, outgoing


async def _shake_hands(
    connected: socket.socket, side: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            await loop.sock_sendall(connected, outgoing.read())
            received = await loop.sock_recv(connected, HANDSHAKE_CHUNK)
            if not received:
                raise ConnectionResetError("the connection ended within the handshake") from None
            incoming.write(received)
        except ssl.SSLError:  # an alert says why to the peer
            with contextlib.suppress(OSError):
                await loop.sock_sendall(connected, outgoing.read())
            raise
        else:
            await loop.sock_sendall(connected, outgoing.read())
            return


class Contexts:
    """The TLS context of one side, replaced by a reload. Connections keep the one they began with."""

    def __init__(self, tls: ListenerTls | BrokerTls, *, names: bool = False) -> None:
        """*names*: see ``listener_context``. Raises UsageError if the files cannot be used."""
        self._tls = tls
        self._names = names
        self.current = self._made()  # for the next connection

    def reload(self) -> str | None:
        """Read the files again. Return None, or why they cannot be used; then the old context stays in use."""
        try:
            self.current = self._made()
        except UsageError as error:
            return str(error)
        return None

    def _made(self) -> ssl.SSLContext:
        if isinstance(self._tls, ListenerTls):
            return listener_context(self._tls, names=self._names)
        return broker_context(self._tls)


def server_name_of(connection: ssl.SSLObject | ssl.SSLSocket) -> str | None:
    """Return the name (SNI) that a client asked for, once its handshake is done; None if it sent none.

    *connection*: ``get_extra_info("ssl_object")`` of a transport whose context ``listener_context`` made.
    """
    name: str | None = getattr(connection, SERVER_NAME, None)
    return name


def client_tls(connection: ssl.SSLObject | ssl.SSLSocket) -> ClientTls:
    """Return what the handshake of a client showed; *connection* as of ``server_name_of``."""
    version = connection.version()
    return ClientTls(
        None if version is None else version.replace("TLSv", "TLS "),
        server_name_of(connection),
        principal_of(connection),
    )


def principal_of(connection: ssl.SSLObject | ssl.SSLSocket) -> str | None:
    """Return the subject of the client's verified certificate as a Kafka principal, "CN=alice,O=orders"; None without one.

    RFC 4514, as ``kproxy decode`` shows it; Java puts a backslash before "=" and "#" inside a value too, which the RFC does not.
    """
    certificate = connection.getpeercert(binary_form=True)
    if certificate is None:
        return None
    from kproxy.capture.tls.messages import subject_of  # noqa: PLC0415 - brings cryptography: only where it is used

    return subject_of(certificate)


def _silence_bad_names() -> None:
    """Keep Python from printing a traceback for a server name that is not ASCII; the handshake ends with an alert anyway."""
    before = sys.unraisablehook
    if getattr(before, "silences_bad_names", False):
        return

    def hook(arguments: "sys.UnraisableHookArgs", /) -> None:
        if not (isinstance(arguments.exc_value, UnicodeDecodeError) and isinstance(arguments.object, bytes)):
            before(arguments)

    hook.silences_bad_names = True  # type: ignore[attr-defined]
    sys.unraisablehook = hook


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= OPTIONS


def _load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        context.load_cert_chain(certificate, key, password=_refuse_password)
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


def _refuse_password() -> str:
    raise _EncryptedKey
