"""OAUTHBEARER (RFC 7628, KIP-255, KIP-768): JSON web tokens that are signed by a key of the identity provider.

A token is believed only if all of this holds: it is signed with one of ALGORITHMS by a key of the JWKS that is of the algorithm's
own kind; it has the issuer and an audience of the configuration; it has not ended and has begun, give or take the clock skew; it
has every scope that is asked for; the claim that names the principal is a text. So "alg": "none", an RSA key used as a secret, a
token for another service and a key in the token's own header (jwk, jku, x5u) get no client in.

joserfc checks signatures; claims are checked here, as what it leaves out by default is mandatory here.
"""

import contextlib
import math
import warnings
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kproxy.authentication.mechanisms import LoginFailed, Step
from kproxy.authentication.principal import Principal
from kproxy.authentication.scram import GS2_HEADERS
from kproxy.errors import UsageError

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    Key = ECKey | OKPKey | RSAKey

LARGEST = 131_072  # bytes of a token
LARGEST_HEADER = 8_192  # bytes of its first part, in base 64
LARGEST_KEYS = 1 << 20  # bytes of a JWKS
MOST_KEYS = 256
LEAST_RSA = 2_048  # bits
LONGEST_NAME = 1_024  # characters of a principal
MOST_GROUPS = 1_024
LATEST = 1 << 40  # seconds since the epoch; what is beyond is no time
ALGORITHMS = {  # of a signature -> key type (and curve); RFC 7518, RFC 8037
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "Ed25519": ("OKP", "Ed25519"),
    "EdDSA": ("OKP", "Ed25519"),
}
REFUSED = '{"status":"invalid_token"}'  # RFC 7628 section 3.2.2, as Kafka's OAuthBearerSaslServer says it


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must have."""

    issuer: str
    audiences: frozenset[str]
    scopes: frozenset[str] = frozenset()
    principal_claim: str = "sub"
    groups_claim: str | None = None
    skew_s: float = 30.0


@dataclass(frozen=True, slots=True)
class SignatureKey:
    """A public key of a JWKS."""

    key_id: str | None
    key_type: str
    curve: str | None
    algorithm: str | None  # None: any that fits the type
    key: "Key"

    def fits(self, algorithm: str) -> bool:
        """Return whether signatures of an algorithm may be by this key."""
        key_type, curve = ALGORITHMS[algorithm]
        return self.key_type == key_type and curve in (None, self.curve) and self.algorithm in (None, algorithm)


class Keys:
    """The keys of a JWKS (RFC 7517) that may sign tokens; secrets, keys for encryption and weak ones are left out.

    Raises UsageError if it is no JWKS, or has no such key.

    Attributes:
        public: a JWKS with these keys and nothing else.
    """

    def __init__(self, data: bytes) -> None:
        from joserfc.jwk import ECKey, OKPKey, RSAKey  # noqa: PLC0415 - an extra

        classes: dict[str, Any] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
        if len(data) > LARGEST_KEYS:
            raise UsageError(f"more than {LARGEST_KEYS:,} bytes, which are no JWKS")
        try:
            found = msgspec.json.decode(data, type=dict[str, Any]).get("keys")
        except (msgspec.DecodeError, RecursionError):
            found = None
        if not isinstance(found, list) or len(found) > MOST_KEYS:
            raise UsageError(f"it is not a JWKS of at most {MOST_KEYS} keys")
        self._keys = []
        shown = []
        for each in found:
            if isinstance(each, dict) and each.get("kty") in classes and each.get("use", "sig") == "sig":
                # without private parts, if there are any
                public = {name: value for name, value in each.items() if name in PUBLIC_PARTS}
                try:
                    with warnings.catch_warnings(action="ignore"):  # of small keys, which are left out here
                        key = classes[each["kty"]].import_key(public)
                except Exception:  # of joserfc and of cryptography: each key by itself
                    continue
                if each["kty"] == "RSA" and key.public_key.key_size < LEAST_RSA:
                    continue
                self._keys.append(
                    SignatureKey(_text(each, "kid"), each["kty"], _text(each, "crv"), _text(each, "alg"), key)
                )
                shown.append(public | ({"alg": each["alg"]} if _text(each, "alg") is not None else {}))
        if not self._keys:
            raise UsageError("it has no public key for signatures (RSA of 2048 bits or more, EC, Ed25519)")
        self.public = msgspec.json.encode({"keys": shown})

    def find(self, key_id: str | None, algorithm: str) -> SignatureKey | None:
        """Return the key of a token's header; without a key id, the only key that fits."""
        fitting = [key for key in self._keys if key.fits(algorithm) and key_id in (None, key.key_id)]
        return fitting[0] if len(fitting) == 1 else None


PUBLIC_PARTS = {"kty", "kid", "n", "e", "crv", "x", "y"}


class Bearer:
    """One login by OAUTHBEARER.

    Args:
        keys: those known now; None: none yet.
        refresh: reads them again, at a pace of its own, and returns those known then.
        now_s: seconds since the epoch.
    """

    def __init__(
        self,
        rules: TokenRules,
        keys: Callable[[], Keys | None],
        refresh: Callable[[], Awaitable[Keys | None]],
        now_s: Callable[[], float],
    ) -> None:
        self._rules = rules
        self._keys = keys
        self._refresh = refresh
        self._now_s = now_s

    async def evaluate(self, token: bytes) -> Step:
        if len(token) > LARGEST:
            raise LoginFailed(f"{len(token)} bytes; a token has {LARGEST} at most", REFUSED)
        authorization, bearer = _open(token)
        principal = check_claims(await self._claims(bearer), self._rules, self._now_s())
        if authorization not in ("", principal.name):
            raise LoginFailed("the authorization id is not the principal of the token", REFUSED, principal.name)
        return Step(b"", principal)

    async def _claims(self, bearer: str) -> dict[str, Any]:
        """Return the claims of a token. The keys are read again if none fits; some providers replace a key under its id."""
        header = _header(bearer)
        known = self._keys()
        if known is not None:
            with contextlib.suppress(LoginFailed):
                return _verified(bearer, *header, known)
        keys = await self._refresh()
        if keys is None:
            raise LoginFailed("the keys of the identity provider are not known yet", REFUSED)
        return _verified(bearer, *header, keys)


def check_claims(claims: Mapping[str, Any], rules: TokenRules, now_s: float) -> Principal:
    """Return who the token is about, if its claims are as they must be. Raises LoginFailed."""
    name = claims.get(rules.principal_claim)
    who = name if isinstance(name, str) else ""
    if claims.get("iss") != rules.issuer:
        raise LoginFailed("the token is of another issuer", REFUSED, who)
    if not _texts(claims.get("aud")) & rules.audiences:
        raise LoginFailed("the token is for another audience", REFUSED, who)
    ends_at = _time(claims, "exp", who)
    if ends_at is None:
        raise LoginFailed("the token has no end (exp)", REFUSED, who)
    if now_s >= ends_at + rules.skew_s:
        raise LoginFailed("the token has ended", REFUSED, who)
    for claim in ("nbf", "iat"):
        begins_at = _time(claims, claim, who)
        if begins_at is not None and now_s < begins_at - rules.skew_s:
            raise LoginFailed(f"the token has not begun ({claim})", REFUSED, who)
    scopes = _words(claims.get("scope")) | _words(claims.get("scp"))
    if not rules.scopes <= scopes:
        raise LoginFailed("the token lacks a scope", REFUSED, who)
    if not 0 < len(who) <= LONGEST_NAME or "\0" in who:
        raise LoginFailed(f"the claim {rules.principal_claim} is no name", REFUSED)
    groups = _texts(claims.get(rules.groups_claim)) if rules.groups_claim is not None else frozenset()
    left_s = ends_at - now_s if ends_at > now_s else ends_at + rules.skew_s - now_s
    return Principal(who, "OAUTHBEARER", groups, dict(claims), max(1, math.floor(left_s * 1_000)))


def _open(token: bytes) -> tuple[str, str]:
    """Split the client's message (RFC 7628 section 3.1) into the authorization id and the token."""
    try:
        text = token.decode("ascii")
    except UnicodeDecodeError:
        raise LoginFailed("the message is not ASCII", REFUSED) from None
    header, *pairs = text.split("\x01")
    flag, _, rest = header.partition(",")
    authorization, comma, after = rest.partition(",")
    if flag not in GS2_HEADERS or not comma or after or pairs[-2:] != ["", ""]:
        raise LoginFailed("the message is not as RFC 7628 has it", REFUSED)
    bearers = [pair[5:] for pair in pairs if pair.startswith("auth=")]
    scheme, _, bearer = bearers[0].partition(" ") if len(bearers) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or bearer.count(".") != 2:
        raise LoginFailed("the message has no signed token", REFUSED)
    return authorization.removeprefix("a="), bearer.strip()


def _header(bearer: str) -> tuple[str, str | None]:
    """Return the algorithm and the key id of a token. What else its header names is not used."""
    encoded = bearer.partition(".")[0]
    try:
        if len(encoded) > LARGEST_HEADER:
            raise ValueError
        header = msgspec.json.decode(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)), type=dict[str, Any])
    except (ValueError, msgspec.DecodeError, RecursionError):
        raise LoginFailed("the token's header cannot be read", REFUSED) from None
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise LoginFailed("the token's algorithm is none that is trusted", REFUSED)
    if "crit" in header or not (key_id is None or isinstance(key_id, str)):
        raise LoginFailed("the token's header has critical extensions, or a key id that is no text", REFUSED)
    return algorithm, key_id


def _verified(bearer: str, algorithm: str, key_id: str | None, keys: Keys) -> dict[str, Any]:
    """Return the claims, if the signature is right. Raises LoginFailed."""
    key = keys.find(key_id, algorithm)
    if key is None:
        raise LoginFailed(f"the identity provider has no key of {algorithm} by which to check the token", REFUSED)
    from joserfc import jws  # noqa: PLC0415 - an extra
    from joserfc.errors import JoseError  # noqa: PLC0415

    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    registry.max_header_length, registry.max_payload_length = LARGEST_HEADER, LARGEST
    try:
        with warnings.catch_warnings(action="ignore"):  # "EdDSA" has a newer name (RFC 9864)
            signed = jws.deserialize_compact(bearer, key.key, registry=registry)
        return msgspec.json.decode(signed.payload, type=dict[str, Any])
    except (JoseError, msgspec.DecodeError, ValueError, RecursionError):
        raise LoginFailed("the token's signature is wrong, or it has no claims", REFUSED) from None


def _time(claims: Mapping[str, Any], name: str, who: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LATEST:
        raise LoginFailed(f"the claim {name} is no time", REFUSED, who)
    return float(value)


def _texts(value: object) -> frozenset[str]:
    """Return a claim that is a text or a list of texts."""
    if isinstance(value, str):
        return frozenset((value,))
    texts = value[:MOST_GROUPS] if isinstance(value, list) else []
    return frozenset(each for each in texts if isinstance(each, str))


def _words(value: object) -> frozenset[str]:
    """Return scopes: words in a text, or a list of texts."""
    return frozenset(value.split()) if isinstance(value, str) else _texts(value)


def _text(key: Mapping[str, Any], name: str) -> str | None:
    value = key.get(name)
    return value if isinstance(value, str) else None
