"""Tokens of OAUTHBEARER: the signature of RFC 7515's example, and every way in which a token may be wrong."""

import asyncio
import base64
import hmac
import json
from collections.abc import Mapping
from typing import Any

import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from kproxy.authentication.mechanisms import LoginFailed
from kproxy.authentication.principal import Principal
from kproxy.authentication.tokens import Bearer, Keys, TokenRules, check_claims
from kproxy.errors import UsageError

NOW_S = 1_800_000_000.0
RULES = TokenRules("https://idp", frozenset({"kafka"}), frozenset({"produce"}), groups_claim="groups")
CLAIMS = {
    "iss": "https://idp",
    "aud": "kafka",
    "sub": "alice",
    "exp": NOW_S + 60,
    "scope": "produce consume",
    "groups": ["ops"],
}
RSA = RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"})
JWKS = {"keys": [key.as_dict(private=False) for key in (RSA, EC, ED)]}
# RFC 7515, appendix A.2: a public key, and a token that it signs
RFC_KEY = {
    "kty": "RSA",
    "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMs"
    "D1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdV"
    "MTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ",
    "e": "AQAB",
}
RFC_TOKEN = (
    "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZ"
    "cAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-e"
    "OkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
)


def message(token: str, header: str = "n,,") -> bytes:
    return f"{header}\x01auth=Bearer {token}\x01\x01".encode()


def signed(key: Any = RSA, algorithm: str = "RS256", claims: Mapping[str, Any] = CLAIMS, **header: Any) -> str:
    fields = {"alg": algorithm, "kid": key.kid, **header}
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    return jwt.encode(
        {name: value for name, value in fields.items() if value is not None}, dict(claims), key, registry=registry
    )


def evaluated(token: bytes, keys: Any = JWKS, rules: TokenRules = RULES) -> Principal:
    known = Keys(json.dumps(keys).encode())

    async def refresh() -> Keys:
        return known

    step = asyncio.run(Bearer(rules, lambda: None, refresh, lambda: NOW_S).evaluate(token))
    assert step.principal is not None and step.answer == b""
    return step.principal


def test_a_key_that_is_replaced_under_its_id_is_asked_for() -> None:
    other = RSAKey.generate_key(2048, {"kid": "rsa"})
    old, new = (Keys(json.dumps({"keys": [key.as_dict(private=False)]}).encode()) for key in (other, RSA))
    asked: list[Keys] = []

    async def refresh() -> Keys:
        asked.append(new)
        return new

    step = asyncio.run(Bearer(RULES, lambda: old, refresh, lambda: NOW_S).evaluate(message(signed())))
    assert step.principal is not None and step.principal.name == "alice" and asked == [new]


@pytest.mark.parametrize(
    ("key", "algorithm"), [(RSA, "RS256"), (RSA, "PS512"), (EC, "ES256"), (ED, "EdDSA"), (ED, "Ed25519")]
)
@pytest.mark.filterwarnings("ignore:EdDSA")
def test_a_token_lets_its_subject_in(key: Any, algorithm: str) -> None:
    principal = evaluated(message(signed(key, algorithm)))
    assert principal == Principal("alice", "OAUTHBEARER", frozenset({"ops"}), CLAIMS, 60_000)


def test_the_signature_of_the_rfcs_example() -> None:
    rules = TokenRules("joe", frozenset({"kafka"}))
    with pytest.raises(LoginFailed, match="another audience"):  # so the signature and the issuer are right
        evaluated(message(RFC_TOKEN), {"keys": [RFC_KEY]}, rules)
    with pytest.raises(LoginFailed, match="signature is wrong"):
        evaluated(message(RFC_TOKEN[:-5] + "AAAAA"), {"keys": [RFC_KEY]}, rules)


def unsigned(header: Mapping[str, Any], signature: str = "") -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (header, CLAIMS))
    return f"{'.'.join(parts)}.{signature}"


def confused() -> str:
    """Signed with the public key of the provider, taken for a secret."""
    text = unsigned({"alg": "HS256", "kid": "rsa"}).removesuffix(".")
    signature = hmac.digest(RSA.as_pem(private=False), text.encode(), "sha256")
    return f"{text}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


FOREIGN = RSAKey.generate_key(2048, {"kid": "rsa"})


@pytest.mark.parametrize(
    "token",
    [
        message(unsigned({"alg": "none"})),
        message(unsigned({"alg": "None", "kid": "rsa"})),
        message(unsigned({"alg": "RS256", "kid": "rsa"})),
        message(confused()),
        message(signed(FOREIGN)),
        message(signed(FOREIGN, jwk=FOREIGN.as_dict(private=False))),
        message(signed(FOREIGN, jku="https://evil/keys")),
        message(signed(RSA, kid="ec")),  # a key of another kind
        message(signed(RSA, kid="unknown")),
        message(unsigned({"alg": "RS256", "kid": "rsa", "crit": ["exp"], "exp": 1}, "AA")),
        message(signed().replace(".", "!.", 1)),
        message(signed()[:-20]),
        message(signed() + ".x"),
        message("x" * 200_000 + ".y.z"),
        message(unsigned({"alg": "RS256", "kid": "x" * 10_000}, "AA")),
        message(unsigned({"alg": ["RS256"], "kid": 7}, "AA")),
        message(signed(), "n,a=root,"),
        message(signed(), "p=tls-unique,,"),
        message(signed()).replace(b"Bearer", b"Basic"),
        message(signed())[:-1],
        message(signed()) + message(signed()),
        b"",
        b"\x01",
        b"n,,\x01\xff\x01\x01",
        b"[" * 4_000,
    ],
)
def test_tokens_that_are_not_believed(token: bytes) -> None:
    with pytest.raises(LoginFailed) as failed:
        evaluated(token)
    assert failed.value.said == '{"status":"invalid_token"}'
    assert not any(part in failed.value.why for part in token.decode("latin-1").split(".") if len(part) > 8)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"iss": "https://idp/"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"iss": ["https://idp"]}, "another issuer"),
        ({"aud": None}, "another audience"),
        ({"aud": ["other", 7]}, "another audience"),
        ({"exp": None}, "no end"),
        ({"exp": NOW_S - 30}, "has ended"),
        ({"exp": "2100"}, "no time"),
        ({"exp": True}, "no time"),
        ({"exp": 1e300}, "no time"),
        ({"nbf": NOW_S + 31}, "not begun"),
        ({"iat": NOW_S + 31}, "not begun"),
        ({"scope": "produces"}, "lacks a scope"),
        ({"scope": None}, "lacks a scope"),
        ({"sub": None}, "no name"),
        ({"sub": ""}, "no name"),
        ({"sub": {"x": 1}}, "no name"),
    ],
)
def test_claims_that_are_refused(changed: Mapping[str, Any], why: str) -> None:
    with pytest.raises(LoginFailed, match=why):
        check_claims({name: value for name, value in {**CLAIMS, **changed}.items() if value is not None}, RULES, NOW_S)


@pytest.mark.parametrize(
    ("changed", "lifetime_ms"),
    [
        ({"aud": ["other", "kafka"]}, 60_000),
        ({"exp": NOW_S - 29.5}, 500),
        ({"nbf": NOW_S + 29, "iat": NOW_S}, 60_000),
        ({"scope": ["produce"]}, 60_000),
        ({"scope": None, "scp": "produce"}, 60_000),
    ],
)
def test_claims_that_are_taken(changed: Mapping[str, Any], lifetime_ms: int) -> None:
    assert check_claims({**CLAIMS, **changed}, RULES, NOW_S).lifetime_ms == lifetime_ms


@pytest.mark.parametrize(
    "keys",
    [
        {},
        [],
        {"keys": {}},
        {"keys": []},
        {"keys": [{"kty": "oct", "k": "c2VjcmV0"}]},
        {"keys": [{**RSA.as_dict(private=False), "use": "enc"}]},
        {"keys": [{"kty": "RSA", "n": "_" * 170 + "8", "e": "AQAB"}]},  # 1024 bits
        {"keys": [{"kty": "RSA", "n": "AA", "e": "AQAB"}, {"kty": "EC", "crv": "P-256", "x": 7}]},
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_keys_that_check_nothing(keys: Any) -> None:
    with pytest.raises(UsageError):
        Keys(json.dumps(keys).encode())


def test_a_token_without_a_key_id_needs_the_only_key_of_its_kind() -> None:
    assert evaluated(message(signed(kid=None))).name == "alice"
    two = {"keys": [*JWKS["keys"], FOREIGN.as_dict(private=False)]}
    with pytest.raises(LoginFailed, match="no key"):
        evaluated(message(signed(kid=None)), two)
