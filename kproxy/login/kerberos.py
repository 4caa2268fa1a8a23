"""GSSAPI towards brokers (RFC 4752): kproxy gets a ticket with a keytab, and another one for the broker, and shows the latter.

Tickets are kept in memory, for each broker, for as long as they are valid; the library gets new ones in time. After a login that
the broker refuses new ones are asked for, as it may have another key by now. The KDC is asked on the way, so this blocks.
"""

import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

from kproxy.authentication.kerberos import LAYERS_SIZE, NO_LAYER, NoGssapi, library, reason_of
from kproxy.authentication.scram import WrongToken
from kproxy.errors import LoginRefused
from kproxy.login.client_settings import Credentials
from kproxy.output.escaping import printable

NO_TICKETS = "No credentials cache found"  # what MIT says if a keytab has no key of the principal


class _Tickets:
    """Where the tickets of a principal for a broker are kept.

    The library does not free those that are given up, so that is done after 1, 2, 4, 8 logins refused in a row, and so on.
    """

    def __init__(self) -> None:
        self.number = 0
        self._refused = 0

    def note_refusal(self) -> None:
        self._refused += 1
        if self._refused.bit_count() == 1:
            self.number += 1

    def note_success(self) -> None:
        self._refused = 0


_TICKETS: dict[tuple[str, str, str], _Tickets] = defaultdict(_Tickets)  # of this process


def converse(credentials: Credentials, host: str) -> Generator[bytes, bytes, None]:
    """Yield kproxy's tokens, and be sent the broker's. Raises LoginRefused, WrongToken."""
    try:
        gssapi = library()
    except NoGssapi as error:
        what, _, advice = str(error).partition(": ")
        raise LoginRefused(what, advice) from None
    try:
        context = _begin(gssapi, credentials, host)
        tickets = _TICKETS[_kept_for(credentials, host)]
        try:
            token: bytes = context.step()
        except gssapi.exceptions.GSSError as error:
            service = printable(f"{credentials.service}/{host}", 200)
            advice = "add the principal at the KDC, or give brokers the names that their tickets have (login.service)"
            raise LoginRefused(f"no ticket for the broker, {service}: {reason_of(error)}", advice) from None
        while not context.complete:
            answer = yield token
            token = context.step(answer) or b""
        offered = context.unwrap((yield token)).message
        if len(offered) != LAYERS_SIZE or not offered[0] & NO_LAYER:
            raise WrongToken("it wants a security layer, which Kafka has not")
        yield context.wrap(bytes((NO_LAYER, 0, 0, 0)), False).message
        tickets.note_success()
    except gssapi.exceptions.GSSError as error:
        raise WrongToken(reason_of(error)) from None
    except GeneratorExit:  # the broker has refused it
        tickets.note_refusal()
        raise


def _kept_for(credentials: Credentials, host: str) -> tuple[str, str, str]:
    return credentials.username, credentials.keytab, host


def _begin(gssapi: Any, credentials: Credentials, host: str) -> Any:
    """Get kproxy's own ticket. Raises LoginRefused."""
    who, kerberos = printable(credentials.username, 200), gssapi.MechType.kerberos
    keytab, kept = credentials.keytab, _kept_for(credentials, host)
    number = str(_TICKETS[kept].number)
    if not os.access(keytab, os.R_OK) or not Path(keytab).is_file():
        raise LoginRefused(f"the keytab {keytab} cannot be read", "let kproxy read it")
    try:
        own = gssapi.Credentials(
            name=gssapi.Name(credentials.username, gssapi.NameType.kerberos_principal),
            usage="initiate",
            mechs=[kerberos],
            store={"client_keytab": keytab, "ccache": f"MEMORY:kproxy-{':'.join((number, *kept))}"},
        )
        name = gssapi.Name(f"{credentials.service}@{host}", gssapi.NameType.hostbased_service)
    except gssapi.exceptions.GSSError as error:
        reason = reason_of(error)
        if reason == NO_TICKETS:
            raise LoginRefused(f"{keytab} has no key of {who}", "list its principals with klist -k") from None
        advice = "is the KDC of krb5.conf up, and the keytab of today (kinit -k -t)?"
        raise LoginRefused(f"no ticket for {who}: {reason}", advice) from None
    flag = gssapi.RequirementFlag
    flags = [flag.mutual_authentication, flag.replay_detection, flag.out_of_sequence_detection, flag.integrity]
    context = gssapi.SecurityContext(name=name, creds=own, mech=kerberos, usage="initiate", flags=flags)
    context.__DEFER_STEP_ERRORS__ = False
    return context
