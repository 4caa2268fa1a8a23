"""An identity provider as a process: no.nav.security's mock-oauth2-server, which issues signed tokens and shows its keys."""

import json
import os
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from joserfc.jwk import RSAKey

from tests.support.kafka.jars import fetch, folder_of
from tests.support.kafka.processes import Service, eventually, spawn
from tests.support.ports import free_ports

RELEASE = "2.1.10"
AUDIENCE = "kafka"
_MAIN = "no.nav.security.mock.oauth2.StandaloneMockOAuth2ServerKt"


class IdentityProvider(Service):
    """Issues tokens for *user*. Each start has a new key, under the id of the old one: that is how this server does it."""

    def __init__(self, folder: Path, user: str, lifetime_s: int) -> None:
        self._jars = folder_of(f"mock-oauth2-{RELEASE}")
        if not self._jars.is_dir():
            logging = ("org.slf4j", "slf4j-simple", "1.7.36")
            fetch(self._jars, [("no.nav.security", "mock-oauth2-server", RELEASE), logging])
        self._log = folder / "identity-provider.log"
        self._port = free_ports()
        self._claims = {"sub": user, "aud": [AUDIENCE]}
        self._lifetime_s = lifetime_s
        self.issuer = f"http://127.0.0.1:{self._port}/{AUDIENCE}"
        self.keys_url = f"{self.issuer}/jwks"

    def start(self) -> "IdentityProvider":
        key = RSAKey.generate_key(2048, {"use": "sig", "alg": "RS256"}, private=True)
        mapping = {"requestParam": "grant_type", "match": "client_credentials", "claims": self._claims}
        callback = {"issuerId": AUDIENCE, "tokenExpiry": self._lifetime_s, "requestMappings": [mapping]}
        keys = {"initialKeys": json.dumps(key.as_dict(private=True)), "algorithm": "RS256"}
        settings = {"httpServer": "NettyWrapper", "tokenProvider": {"keyProvider": keys}, "tokenCallbacks": [callback]}
        environment = {
            "SERVER_PORT": str(self._port),
            "SERVER_HOSTNAME": "127.0.0.1",
            "JSON_CONFIG": json.dumps(settings),
        }
        words = ["java", "-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{self._jars}/*", _MAIN]
        self._process = spawn(words, self._log, environment={**os.environ, **environment})
        eventually(lambda: urllib.request.urlopen(self.keys_url, timeout=5).status == 200, what="the provider answers")
        return self

    def token(self) -> tuple[str, float]:
        """A token by client credentials (RFC 6749, 4.4), and its lifetime in seconds. Raises OSError while it is stopped."""
        form = {"grant_type": "client_credentials", "client_id": "client", "client_secret": "secret", "scope": AUDIENCE}
        with urllib.request.urlopen(f"{self.issuer}/token", urlencode(form).encode(), timeout=5) as answer:
            given: dict[str, Any] = json.loads(answer.read())
        return given["access_token"], given["expires_in"]
