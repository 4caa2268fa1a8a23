"""GSSAPI with Kerberos (RFC 4752): a client shows a ticket for the service, and kproxy has the service's key in a keytab.

After the tickets the two choose a security layer. Kafka has none, as TLS protects connections: kproxy offers none but that, and a
client that chooses another is refused. The authorization id of clients is not used, as Kafka's SaslServerCallbackHandler does not
use it: who the client is, the ticket says.

MIT's library refuses a ticket that is shown twice (its replay cache, which all processes of a machine share). Only Kerberos is
accepted, not SPNEGO or IAKERB, which the library has too. Tokens of a login are read in a thread.
"""

import importlib
from functools import partial
from typing import Any

from kproxy.authentication.kerberos_names import Rule, parse_rules, short_name
from kproxy.authentication.mechanisms import InThread, LoginFailed, Step
from kproxy.authentication.principal import Principal
from kproxy.authentication.users import LONGEST_NAME
from kproxy.errors import UsageError
from kproxy.output.escaping import printable

MOST_TOKEN = 65_536  # bytes: the most that Windows puts into a ticket (MaxTokenSize)
NO_LAYER = 1  # a bit in the first of four bytes; three for the largest message, 0 without a layer (RFC 4752, 3.3)
LAYERS_SIZE = 4
LONGEST_REASON = 200  # characters


class NoGssapi(UsageError):
    """The library is not installed."""


def library() -> Any:
    """Return the module gssapi. Raises NoGssapi."""
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError):  # OSError: without the C library
        raise NoGssapi('gssapi is not installed: pip install "kproxy-kafka[gssapi]"') from None


def reason_of(error: Any) -> str:
    """Return what the library says of an error (GSSError): what Kerberos says, or if it says nothing, GSSAPI."""
    code, is_general = (error.min_code, False) if error.min_code else (error.maj_code, True)
    return printable(" ".join(error.get_all_statuses(code, is_general)), LONGEST_REASON)


class Service:
    """The service that clients get tickets for, and the names of its clients.

    Args:
        keytab: file with its keys, read at each login.
        service: its name, without the host: kafka. Tickets for any host are accepted whose key is in the keytab.
        rules: see kerberos_names.py.

    Raises UsageError.
    """

    def __init__(self, keytab: str, service: str, rules: str) -> None:
        self._gssapi = library()
        kerberos, names = self._gssapi.MechType.kerberos, self._gssapi.NameType
        self._rules: list[Rule] = parse_rules(rules)
        try:
            own = self._gssapi.Name("kproxy", names.user).canonicalize(kerberos)
            self._realm = str(own).rpartition("@")[2]
        except self._gssapi.exceptions.GSSError as error:
            raise UsageError(f"krb5.conf names no default realm: {reason_of(error)}") from None
        try:
            self._key = self._gssapi.Credentials(
                name=self._gssapi.Name(service, names.hostbased_service),
                usage="accept",
                mechs=[kerberos],
                store={"keytab": keytab},
            )
        except self._gssapi.exceptions.GSSError as error:
            raise UsageError(f"{keytab}: {reason_of(error)}") from None

    def begin(self) -> Any:
        """Return a context for one login."""
        context = self._gssapi.SecurityContext(creds=self._key, usage="accept")
        context.__DEFER_STEP_ERRORS__ = False  # else an error that has a token for the client is raised a step later
        return context

    @property
    def error(self) -> type[Exception]:
        """What the library raises: GSSError."""
        error: type[Exception] = self._gssapi.exceptions.GSSError
        return error

    def name_of(self, context: Any) -> str:
        """Return the name of a client whose ticket was accepted. Raises LoginFailed."""
        try:
            principal = str(context.initiator_name)
        except UnicodeDecodeError:
            raise LoginFailed("the name in the ticket is not UTF-8") from None
        name = short_name(principal, self._rules, self._realm)
        if name is None or len(name) > LONGEST_NAME:
            raise LoginFailed("no rule of principal_rules has a name for the principal", user=principal)
        return name


class Gssapi:
    """GSSAPI: the client's tickets, then the choice of no security layer."""

    def __init__(self, service: Service, in_thread: InThread) -> None:
        self._service = service
        self._in_thread = in_thread
        self._context = service.begin()
        self._name = ""
        self._has_offered = False

    async def evaluate(self, token: bytes) -> Step:
        """Take a token of the context, then an empty one unless kproxy has no token left, then the choice of the layer."""
        if len(token) > MOST_TOKEN:
            raise LoginFailed(f"a token of {len(token)} bytes; GSSAPI has {MOST_TOKEN} at most", user=self._name)
        step: Step = await self._in_thread(partial(self._evaluate, token))
        return step

    def _evaluate(self, token: bytes) -> Step:
        try:
            if self._has_offered:
                return self._choose(token)
            if not self._context.complete:
                answer = self._context.step(token)
                if self._context.complete:
                    self._name = self._service.name_of(self._context)
                if answer or not self._context.complete:
                    return Step(answer or b"")
            elif token:
                raise LoginFailed("a token where an empty one is due", user=self._name)
            self._has_offered = True
            return Step(self._context.wrap(bytes((NO_LAYER, 0, 0, 0)), False).message)
        except self._service.error as error:
            raise LoginFailed(reason_of(error), user=self._name) from None

    def _choose(self, token: bytes) -> Step:
        chosen = self._context.unwrap(token).message
        if len(chosen) < LAYERS_SIZE or chosen[0] != NO_LAYER:
            raise LoginFailed("it chooses a security layer that is not offered", user=self._name)
        return Step(b"", Principal(self._name, "GSSAPI"))
