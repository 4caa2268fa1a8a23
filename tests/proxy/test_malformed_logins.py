"""Ten thousand malformed logins: real exchanges of each mechanism with bytes changed, added, removed, repeated and cut."""

import asyncio
import json
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any

import msgspec
import pytest

from kproxy.authentication.users import SlowHash, _scrypt
from kproxy.config.structs import Addresses, Authentication, Kerberos, Tokens
from kproxy.login.client_settings import Credentials
from kproxy.login.log_in import CONVERSATIONS
from tests.authentication.test_states import mutated
from tests.authentication.test_tokens import JWKS, signed
from tests.conftest import Require
from tests.proxy.test_client_logins import API_VERSIONS, PASSWORD, SASL_AUTHENTICATE, SASL_HANDSHAKE, write_users
from tests.support import kerberos
from tests.support.kafka.processes import resident_size
from tests.support.links import request
from tests.support.virtual_clusters import Broker, Front, front

pytestmark = pytest.mark.slow
MECHANISMS: Any = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]
EACH = 2_000  # malformed logins of a mechanism
GOOD_EVERY = 100  # so often a good one is among them
AT_A_TIME = 8
GROWTH = 4 << 20  # bytes, of the second half: the first fills the table of budgets
HOST = "kproxy.test"
TOKENS = {"SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2, "GSSAPI": 3}  # of a login; others have one


def cheap_users(path: Path) -> str:
    """The user alice, with a hash of PLAIN that takes no time."""
    file = msgspec.json.decode(Path(write_users(path, alice=PASSWORD)).read_bytes())
    cost = (16, 1, 1)
    file["users"]["alice"]["PLAIN"] = SlowHash(b"salt", _scrypt(PASSWORD.encode(), b"salt", cost), cost).render()
    path.write_bytes(msgspec.json.encode(file))
    return str(path)


@pytest.fixture
def credentials(require: Require, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What alice logs in with, by mechanism; and kproxy's settings under "authentication"."""
    reason = kerberos.missing()
    require("kerberos", reason is None, reason or "")
    (tmp_path / "keys.json").write_text(json.dumps(JWKS))
    claims = {"iss": "https://idp", "aud": "kafka", "sub": "alice", "exp": time.time() + 3_600}
    with kerberos.running(tmp_path / "realm") as realm:
        for name, value in realm.environment.items():
            monkeypatch.setenv(name, value)
        made = {name: Credentials(name, "alice", PASSWORD) for name in MECHANISMS}
        made["OAUTHBEARER"] = Credentials("OAUTHBEARER", "", signed(claims=claims))
        made["GSSAPI"] = Credentials("GSSAPI", "alice", "", keytab=realm.keytab("alice"), service="kafka")
        settings = Authentication(
            mechanisms=MECHANISMS,
            users=cheap_users(tmp_path / "users.json"),
            tokens=Tokens(issuer="https://idp", audience=["kafka"], keys_file=str(tmp_path / "keys.json")),
            kerberos=Kerberos(keytab=realm.keytab(f"kafka/{HOST}")),
            plain_without_tls=True,
            failure_delay=0.001,
            failures_per_address=0,
            failures_per_user=0,
        )
        yield {"authentication": settings, **made}


class Written(logging.Handler):
    """Keeps the events that were logged, each once, and fails on a secret."""

    def __init__(self, events: list[str]) -> None:
        super().__init__()
        self._events = events

    def emit(self, record: logging.LogRecord) -> None:
        assert PASSWORD not in f"{record.__dict__}"
        if record.getMessage() not in self._events:
            self._events.append(record.getMessage())


def changed(token: bytes, earlier: list[bytes], chance: random.Random) -> bytes:
    """Another token: mutated, or one of before."""
    while True:
        other = chance.choice([mutated(token, chance) if token else b"\0", chance.choice([*earlier, b""])])
        if other != token:
            return other


async def is_let_in(proxy: Front, credentials: Credentials, chance: random.Random | None) -> bool:
    """Log in, with one token changed if there is *chance*; say whether kproxy has accepted the login."""
    reader, writer = await proxy.connect()
    conversation, earlier = CONVERSATIONS[credentials.mechanism](credentials, HOST), [b""]
    name = credentials.mechanism.encode()
    at, bad = 0, chance.randrange(TOKENS.get(credentials.mechanism, 1)) if chance else 0
    try:
        await asked(reader, writer, SASL_HANDSHAKE, pack(">h", len(name)) + name)
        token = next(conversation)
        while True:
            sent = changed(token, earlier, chance) if chance and at == bad else token
            earlier.append(token)
            answer = await asked(reader, writer, SASL_AUTHENTICATE, pack(">i", len(sent)) + sent)
            if answer[:2] != b"\0\0":
                return False
            at += 1
            token = conversation.send(answer[8 : 8 + int.from_bytes(answer[4:8], "big")])
    except StopIteration:
        assert {link.facts and link.facts.principal for link in proxy.worker.links} <= {None, "alice"}
        return True
    except (asyncio.IncompleteReadError, ConnectionError):
        return False
    except Exception as error:  # the client sees that the server has another view of the exchange
        assert chance is not None, error
        return False
    finally:
        conversation.close()
        writer.close()


async def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: int, body: bytes) -> bytes:
    """The response behind its correlation id."""
    writer.write(request(key, 1 if key == SASL_HANDSHAKE else 0, 7, body))
    return (await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big")))[4:]


@pytest.mark.timeout(600)
async def test_none_passes_and_good_ones_go_on(
    credentials: dict[str, Any], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    logger = logging.getLogger("kproxy")
    monkeypatch.setattr(logger, "propagate", False)  # pytest keeps each record
    monkeypatch.setattr(logger, "handlers", [Written(written)])
    chance = random.Random(14)
    passed: Counter[str] = Counter()
    good = 0
    jobs = [name for name in MECHANISMS for _ in range(EACH)]
    chance.shuffle(jobs)
    sizes: list[int] = []
    cluster: dict[str, Any] = {"addresses": Addresses(mode="fixed"), "authentication": credentials["authentication"]}
    async with Broker() as broker, front(broker.address, **cluster) as proxy:

        async def work() -> None:
            nonlocal good
            while jobs:
                name = jobs.pop()
                left = len(jobs)
                passed[name] += await is_let_in(proxy, credentials[name], chance)
                if left % GOOD_EVERY == 0:
                    good += await is_let_in(proxy, credentials[name], None)
                for link in proxy.worker.closed_links:  # as a worker does once a second
                    link.forget()
                proxy.worker.closed_links.clear()
                proxy.sent.clear()
                if left in (len(MECHANISMS) * EACH // 2, 0):
                    sizes.append(resident_size(os.getpid()))

        await asyncio.gather(*(work() for _ in range(AT_A_TIME)))
        await proxy.until(lambda: not proxy.worker.links)
        # what RFC 4120 leaves outside the encryption of a ticket, as its service's name: it is still alice's
        assert passed.pop("GSSAPI", 0) < EACH // 50
        assert {name for name, number in passed.items() if number} == set()
        assert good == len(MECHANISMS) * EACH // GOOD_EVERY
        assert {key for key, _ in broker.asked} <= {API_VERSIONS}
        assert sizes[-1] - sizes[0] < GROWTH
    assert set(written) == {"a login failed"}
    assert "Traceback" not in "".join(capfd.readouterr())
