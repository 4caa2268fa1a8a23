"""GSSAPI: kproxy as client and as server, kafka-python's half, and names by Kafka's rules, with tickets of a KDC of MIT."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.authentication.kerberos_names import parse_rules, short_name
from kproxy.authentication.mechanisms import LoginFailed, Step
from kproxy.authentication.states import ClientLogin, State, without_secret
from kproxy.errors import LoginRefused, UsageError
from kproxy.login.client_settings import Credentials
from kproxy.login.log_in import log_in
from kproxy.proxy.broker_client import decode_response, encode_request
from tests.conftest import Require
from tests.support import kerberos
from tests.support.kerberos import NAME, Realm

HOST = "broker.test"


async def at_once(function: Callable[[], Any]) -> Any:
    return function()


@pytest.fixture(scope="module")
def realm(require: Require, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    reason = kerberos.missing()
    require("kerberos", reason is None, reason or "")
    with pytest.MonkeyPatch.context() as patch, kerberos.running(tmp_path_factory.mktemp("kdc") / "realm") as made:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        yield made


@pytest.fixture(scope="module")
def service(realm: Realm) -> Any:
    from kproxy.authentication.kerberos import Service  # noqa: PLC0415 - an extra

    return Service(realm.keytab(f"kafka/{HOST}", "kafka/other.test"), "kafka", "RULE:[2:$1.$2](jobs.*),DEFAULT")


@pytest.fixture(scope="module")
def alice(realm: Realm) -> Credentials:
    return Credentials("GSSAPI", "alice", "", keytab=realm.keytab("alice", "jobs/one"), service="kafka")


def client_login(service: Any) -> ClientLogin:
    from kproxy.authentication.kerberos import Gssapi  # noqa: PLC0415 - an extra

    async def no_versions(*_: object) -> bytes:
        raise AssertionError

    return ClientLogin({"GSSAPI": lambda: Gssapi(service, at_once)}, no_versions)


def logged_in(service: Any, credentials: Credentials, host: str = HOST) -> tuple[ClientLogin, list[bytes]]:
    """The server's half after kproxy has logged in there, and kproxy's requests."""
    login, requests = client_login(service), []

    async def ask(api_key: int, version: int, body: Any) -> Any:
        frame = encode_request(api_key, version, body)
        requests.append(bytes(frame))
        return decode_response(api_key, version, (await login.receive(bytes(frame))).frame[4:])

    asyncio.run(log_in(ask, credentials, host, at_once))
    return login, requests


@pytest.mark.parametrize(("user", "host", "name"), [("alice", HOST, "alice"), ("jobs/one", "other.test", "jobs.one")])
def test_a_ticket_for_the_host_says_who_it_is(
    service: Any, alice: Credentials, user: str, host: str, name: str
) -> None:
    credentials = Credentials("GSSAPI", user, "", keytab=alice.keytab, service="kafka")
    login, requests = logged_in(service, credentials, host)
    assert login.principal is not None
    assert (login.state, login.principal.name, login.principal.mechanism) == (State.AUTHENTICATED, name, "GSSAPI")
    masked = without_secret(requests[1], "GSSAPI")
    assert len(masked) == len(requests[1]) and b"*" * 300 in masked
    # a ticket that is shown again is refused, by the replay cache
    again = client_login(service)
    for frame in requests[:2]:
        answer = asyncio.run(again.receive(frame))
    assert answer.failure is not None and "replay" in answer.failure.why.lower()


def test_where_a_login_at_a_broker_fails(realm: Realm, service: Any, alice: Credentials, tmp_path: Path) -> None:
    def refused(credentials: Credentials = alice, host: str = HOST) -> str:
        with pytest.raises(LoginRefused) as why:
            logged_in(service, credentials, host)
        return str(why.value)

    def of(user: str = "alice", keytab: str = alice.keytab) -> Credentials:
        return Credentials("GSSAPI", user, "", keytab=keytab, service="kafka")

    assert "cannot be read" in refused(of(keytab=str(tmp_path / "none")))
    assert "has no key of bob" in refused(of("bob"))
    assert f"kafka/unknown.test@{NAME} not found in Kerberos database" in refused(host="unknown.test")
    assert f"no ticket for gone: Client 'gone@{NAME}' not found" in refused(of("gone", gone(realm)))
    stranger = realm.keytab("kafka/stranger.test")  # the KDC has it, the service does not
    assert stranger and "the broker refuses the login of alice by GSSAPI" in refused(host="stranger.test")
    logged_in(service, alice)
    realm.stop()
    try:
        assert "Cannot contact any KDC" in refused(of("carol", realm.keytab("carol")))
        logged_in(service, alice)  # tickets that are kept serve on
    finally:
        realm.start()


def gone(realm: Realm) -> str:
    keytab = realm.keytab("gone")
    realm.run("kadmin.local", "delprinc", "-force", "gone")
    return keytab


def test_a_broker_with_a_new_key_is_logged_in_to_after_one_refusal(realm: Realm, alice: Credentials) -> None:
    from kproxy.authentication.kerberos import Service  # noqa: PLC0415 - an extra

    logged_in(Service(realm.keytab("kafka/rolled.test"), "kafka", "DEFAULT"), alice, "rolled.test")
    rolled = Service(realm.keytab("kafka/rolled.test"), "kafka", "DEFAULT")
    with pytest.raises(LoginRefused):
        logged_in(rolled, alice, "rolled.test")
    assert logged_in(rolled, alice, "rolled.test")[0].state is State.AUTHENTICATED


@pytest.mark.filterwarnings("default")  # of kafka-python
def test_kafka_python_s_half_logs_in(service: Any, alice: Credentials, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends the service's name as the authorization id, which brokers do not look at."""
    from kafka.net.sasl.gssapi import SaslMechanismGSSAPI  # noqa: PLC0415 - its import warns

    from kproxy.authentication.kerberos import Gssapi  # noqa: PLC0415 - an extra

    monkeypatch.setenv("KRB5_CLIENT_KTNAME", alice.keytab)
    monkeypatch.setenv("KRB5CCNAME", "MEMORY:kafka-python")
    client = SaslMechanismGSSAPI(sasl_kerberos_service_name="kafka", host=HOST)
    server, step = Gssapi(service, at_once), Step(b"")
    while not client.is_done():
        step = asyncio.run(server.evaluate(client.auth_bytes()))
        client.receive(step.answer)
    assert step.principal is not None and step.principal.name == "alice"


@pytest.mark.parametrize("chosen", [b"\2\0\0\0", b"\1\0\0", b"", b"\4\0\x10\0alice"])
def test_no_other_security_layer_can_be_chosen(service: Any, alice: Credentials, chosen: bytes) -> None:
    import gssapi  # noqa: PLC0415 - an extra

    from kproxy.authentication.kerberos import Gssapi  # noqa: PLC0415 - an extra

    store = {"client_keytab": alice.keytab, "ccache": "MEMORY:layers"}
    name = gssapi.Name(f"kafka@{HOST}", gssapi.NameType.hostbased_service)
    context = gssapi.SecurityContext(name=name, creds=gssapi.Credentials(usage="initiate", store=store))
    server = Gssapi(service, at_once)
    context.step(asyncio.run(server.evaluate(context.step())).answer)
    offered = context.unwrap(asyncio.run(server.evaluate(b"")).answer).message
    assert offered == b"\1\0\0\0"  # no security layer, and so no size (RFC 4752, section 3.1)
    with pytest.raises(LoginFailed):
        asyncio.run(server.evaluate(context.wrap(chosen, False).message))


@pytest.mark.parametrize(
    "token", [b"", b"\x60", b"\x60\x82\xff\xff" + b"\0" * 70, b"\0" * 65_537, bytes.fromhex("60060604 2b060105")]
)
def test_other_tokens_are_refused(service: Any, token: bytes) -> None:
    from kproxy.authentication.kerberos import Gssapi  # noqa: PLC0415 - an extra

    with pytest.raises(LoginFailed):
        asyncio.run(Gssapi(service, at_once).evaluate(token))


# The second column is from Kafka's KerberosNameTest and KerberosRuleTest
@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        ("DEFAULT", "App.service-name/example.com@REALM", "App.service-name"),
        ("DEFAULT", "App.service-name@REALM", "App.service-name"),
        ("DEFAULT", "user@OTHER.REALM", None),
        (r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g,DEFAULT", "App.service-name@REALM", "service-name"),
        (r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g,DEFAULT", "App.service-name/example.com@REALM", "service-name"),
        ("RULE:[1:$1]/L,DEFAULT", "User@REALM", "user"),
        ("RULE:[2:$1]/L", "TestABC/host@FOO.COM", "testabc"),
        ("RULE:[2:$1](Test.*)s/ABC///L,DEFAULT", "TestABC/host@FOO.COM", "test"),
        ("RULE:[1:$1](b.*)s/a/A/g,RULE:[1:$1](a.*)s/a/A/g/U", "abca@FOO.COM", "ABCA"),
        ("RULE:[1:$1](b.*)s/a/x/,DEFAULT", "baa@FOO.COM", "bxa"),
        ("RULE:[1:$1@$0]", "user@FOO.COM", None),
        ("RULE:[1:$1]", "a/b/c@REALM", None),
        ("RULE:[1:$1]", "no-realm", None),
        ("RULE:[1:$1]", r"al\@ice@REALM", None),
        ("RULE:[2:$2]", "WELLKNOWN/ANONYMOUS@WELLKNOWN:ANONYMOUS", None),
    ],
)
def test_names_of_principals(rules: str, principal: str, name: str | None) -> None:
    assert short_name(principal, parse_rules(rules), "REALM") == name


BAD = ["", "default", "DEFAUL", "DEFAULT/L", "DEFAULT,", "RULE:[:$1]", "RULE:[1:$2]", "RULE:[3:$1]", "RULE:[1:$1]("]
BAD_ENDS = ["(*)", "s/a/$1/", "s/a", "/g", "/LL"]


@pytest.mark.parametrize("rules", [*BAD, *(f"RULE:[1:$1]{end}" for end in BAD_ENDS)])
def test_rules_that_are_none(rules: str) -> None:
    with pytest.raises(UsageError, match=r"rule [12]"):
        parse_rules(rules)
