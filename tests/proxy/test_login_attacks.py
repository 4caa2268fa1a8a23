"""What clients try that have no login: each gets Kafka's own error, is counted once, and is in the log and the audit by name."""

import json
import logging
from base64 import b64encode
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from kproxy.authentication import scram, users
from kproxy.authentication.mechanisms import LoginFailed, Plain, Scram
from kproxy.authentication.users import Users
from kproxy.config.structs import Addresses, Authentication, FilterUse, Tokens
from kproxy.proxy.tap.counted import Total
from tests.authentication.test_tokens import FOREIGN, JWKS, RSA, confused, message, signed, unsigned
from tests.proxy.test_client_logins import (
    HANDSHAKE_PLAIN,
    NAME,
    PASSWORD,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    plain,
    refused,
    write_users,
)
from tests.support.links import request
from tests.support.virtual_clusters import Broker, front

FAILED, STATE, MECHANISM = (
    58,
    34,
    33,
)  # Kafka's SASL_AUTHENTICATION_FAILED, ILLEGAL_SASL_STATE, UNSUPPORTED_SASL_MECHANISM
FIRST = f"n,,n={NAME},r={'r' * 24}".encode()
SECRET = "canary-in-a-token"


def handshake(mechanism: str, version: int = 1) -> bytes:
    return request(SASL_HANDSHAKE, version, 7, pack(">h", len(mechanism)) + mechanism.encode())


def token(data: bytes) -> bytes:
    return request(SASL_AUTHENTICATE, 1, 8, pack(">i", len(data)) + data)


def bearer(data: bytes) -> list[bytes]:
    return [handshake("OAUTHBEARER"), token(data)]


def scrammed(*data: bytes) -> list[bytes]:
    return [handshake("SCRAM-SHA-256"), *map(token, data)]


PROOF = b"c=biws,r=%s,p=" + b64encode(bytes(32))
ATTACKS: dict[str, tuple[list[bytes], int | None, str]] = {  # frames, error, who is said to have tried
    "wrong password": ([HANDSHAKE_PLAIN, plain(SECRET)], FAILED, NAME),
    "unknown user": ([HANDSHAKE_PLAIN, plain(SECRET, "nobody")], FAILED, "nobody"),
    "in the name of another": ([HANDSHAKE_PLAIN, token(f"root\0{NAME}\0{PASSWORD}".encode())], FAILED, NAME),
    "PLAIN beyond 4 KB": ([HANDSHAKE_PLAIN, plain("x" * 4_096)], FAILED, ""),
    "SCRAM beyond 4 KB": (scrammed(FIRST + b"r" * 4_096), FAILED, ""),
    "SCRAM without a name": (scrammed(b"n,,r=" + b"r" * 24), FAILED, ""),
    "SCRAM cut": (scrammed(FIRST[:-20]), FAILED, NAME),
    "SCRAM with channel binding": (scrammed(FIRST.replace(b"n,,", b"p=tls-unique,,")), FAILED, ""),
    "SCRAM by a delegation token": (scrammed(FIRST + b",tokenauth=true"), FAILED, ""),
    "SCRAM with an old nonce": (scrammed(FIRST, PROOF % (b"r" * 24 + b"old")), FAILED, NAME),
    "SCRAM begun twice": (scrammed(FIRST, FIRST), FAILED, NAME),
    "alg none": (bearer(message(unsigned({"alg": "none"}))), FAILED, ""),
    "the public key as a secret": (bearer(message(confused())), FAILED, ""),
    "another kind of key": (bearer(message(signed(RSA, kid="ec"))), FAILED, ""),
    "another's key": (bearer(message(signed(FOREIGN))), FAILED, ""),
    "its own key": (bearer(message(signed(FOREIGN, jwk=FOREIGN.as_dict(private=False)))), FAILED, ""),
    "a token beyond 128 KB": (bearer(message("x" * 131_072 + ".y.z")), FAILED, ""),
    "a mechanism that is not offered": ([handshake("SCRAM-SHA-512")], MECHANISM, ""),
    "none at all": ([handshake("ANONYMOUS")], MECHANISM, ""),
    "another mechanism in the midst": ([handshake("SCRAM-SHA-256"), token(FIRST), HANDSHAKE_PLAIN], STATE, ""),
    "no handshake": ([plain()], STATE, ""),
    "a request before the login": ([request(12, 0, 9)], None, ""),
    "a request in the midst": ([HANDSHAKE_PLAIN, request(12, 0, 9)], None, ""),
}


def last_error(received: bytes) -> int | None:
    """The error code of the last response, if it has one."""
    error = None
    while received:
        size = int.from_bytes(received[:4], "big")
        error = int.from_bytes(received[8:10], "big") or None
        received = received[4 + size :]
    return error


@pytest.mark.parametrize(("frames", "error", "claimed"), ATTACKS.values(), ids=ATTACKS)
async def test_it_is_refused_counted_and_audited(
    tmp_path: Path, frames: list[bytes], error: int | None, claimed: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "keys.json").write_text(json.dumps(JWKS))
    authentication = Authentication(
        mechanisms=["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"],
        users=write_users(tmp_path / "users.json", **{NAME: PASSWORD}),
        tokens=Tokens(issuer="https://idp", audience=["kafka"], keys_file=str(tmp_path / "keys.json")),
        plain_without_tls=True,
        failure_delay=0.05,
    )
    words: dict[str, Any] = {"addresses": Addresses(mode="fixed"), "authentication": authentication}
    words["filters"] = [FilterUse(use="audit", with_={"file": {"path": str(tmp_path / "audit.jsonl")}})]
    caplog.set_level(logging.INFO)
    async with Broker() as broker, front(broker.address, **words) as proxy:
        assert last_error(await refused(proxy, *frames)) == error
        assert broker.came == 0
        assert proxy.total(Total.CLIENT_LOGINS_FAILED) == 1 and proxy.total(Total.CLIENT_LOGINS_OK) == 0
    audited = (tmp_path / "audit-0.jsonl").read_text()
    [line] = [line for line in map(json.loads, audited.splitlines()) if line["event"] == "request"]
    assert line["principal"] is None and line["outcome"] == "kproxy has refused the login"
    assert [each["name"] for each in line["resources"]] == ([claimed] if claimed else [])
    said = caplog.text + audited
    assert [each.getMessage() for each in caplog.records if each.name == "kproxy"] == ["a login failed"]
    assert SECRET not in said and PASSWORD not in said and "eyJ" not in said


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_an_unknown_user_takes_the_same_work(
    tmp_path: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: hashes, and bytes of the answers."""
    known = Users(Path(write_users(tmp_path / "users.json", **{NAME: PASSWORD})))
    done: list[str] = []

    def counting(module: Any, name: str) -> None:
        real = getattr(module, name)

        def counted(*given: Any, **words: Any) -> Any:
            done.append(name)
            return real(*given, **words)

        monkeypatch.setattr(module, name, counted)

    counting(users, "_scrypt")
    for name in ("digest", "compare_digest"):
        counting(scram.hmac, name)

    async def tried(user: str) -> tuple[list[str], list[int]]:
        done.clear()
        sizes, nonce = [], b""

        async def in_thread(function: Any) -> Any:
            return function()

        login: Any = Plain(known, in_thread, lambda _: None)
        tokens = [f"\0{user}\0wrong".encode()]
        if mechanism != "PLAIN":
            login = Scram(known, mechanism, lambda _: None)
            tokens = [f"n,,n={user},r={'r' * 24}".encode(), b""]
        with pytest.raises(LoginFailed) as failed:
            for data in tokens:
                answer = (await login.evaluate(data or PROOF % nonce)).answer
                sizes.append(len(answer))
                nonce = answer.partition(b",")[0].removeprefix(b"r=")
        assert (failed.value.said or "").count(user) == 0
        return sorted(done), sizes

    of_known, of_unknown = await tried(NAME), await tried("mallo")
    assert of_known == of_unknown and of_known[0]
