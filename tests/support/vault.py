"""A stand-in for Vault: the transit engine and KV version 2, as its API documentation and the texts of its source have them.

The tests of the key service were run against Vault's own transit backend (1.21.4) as well, which needs Go and minutes to compile.
"""

import json
import os
import re
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Json = dict[str, Any]
CIPHERTEXT = re.compile(r"vault:v(\d+):(.*)")


class Refusal(Exception):
    def __init__(self, status: int, *errors: str) -> None:
        super().__init__(*errors)
        self.status = status


class Key:
    def __init__(self) -> None:
        self.versions: dict[int, tuple[AESGCM, int]] = {}
        self.config: Json = {
            "min_decryption_version": 1,
            "min_encryption_version": 0,
            "min_available_version": 0,
            "deletion_allowed": False,
        }
        self.rotate()

    @property
    def latest(self) -> int:
        return max(self.versions)

    def rotate(self) -> None:
        self.versions[len(self.versions) + 1 if self.versions else 1] = (AESGCM(os.urandom(32)), int(time.time()))

    def encrypt(self, plain: bytes) -> str:
        nonce = os.urandom(12)
        return f"vault:v{self.latest}:{b64encode(nonce + self.versions[self.latest][0].encrypt(nonce, plain, None)).decode()}"

    def decrypt(self, ciphertext: str) -> bytes:
        match = CIPHERTEXT.fullmatch(ciphertext)
        if match is None:
            raise Refusal(400, "invalid ciphertext: no prefix")
        version = int(match[1])
        if version > self.latest:
            raise Refusal(400, "invalid ciphertext: version is too new")
        if version < self.config["min_decryption_version"]:
            raise Refusal(400, "ciphertext or signature version is disallowed by policy (too old)")
        try:
            data = b64decode(match[2], validate=True)
        except ValueError:
            raise Refusal(400, "invalid ciphertext: could not decode base64") from None
        try:
            return self.versions[version][0].decrypt(data[:12], data[12:], None)
        except (InvalidTag, ValueError):
            raise Refusal(400, "cipher: message authentication failed") from None


class Vault(ThreadingHTTPServer):
    """Listens on the loopback until it is closed. ``token`` is the one that it takes; ``requests``: what it was asked for."""

    daemon_threads = True

    def __init__(self, token: str) -> None:
        self.token = token
        self.keys: dict[str, Key] = {}
        self.secrets: dict[str, Json] = {}  # of KV, mounted at "secret"
        self.requests: list[str] = []
        self.sealed = False
        vault = self

        class Request(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                vault.requests.append(f"{self.command} {self.path}")
                try:
                    if vault.sealed:
                        raise Refusal(503, "Vault is sealed")
                    if self.headers.get("X-Vault-Token") != vault.token:
                        raise Refusal(403, "permission denied")
                    data = vault.answered(
                        self.command, self.path.removeprefix("/v1/"), json.loads(body) if body else {}
                    )
                    status, answer = (204, b"") if data is None else (200, json.dumps({"data": data}).encode())
                except Refusal as refusal:
                    status, answer = refusal.status, json.dumps({"errors": list(refusal.args)}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST = do_PUT = do_DELETE = do_LIST = answer

            def log_message(self, format: str, *args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Request)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def answered(self, method: str, path: str, body: Json) -> Json | None:
        """Return the data of an answer; None: it has no content."""
        match path.split("/"):
            case ["secret", "data", *names] if method == "GET":
                if "/".join(names) not in self.secrets:
                    raise Refusal(404)
                return {"data": self.secrets["/".join(names)], "metadata": {"version": 1}}
            case ["transit", "keys"] if method == "LIST":
                if not self.keys:
                    raise Refusal(404)
                return {"keys": sorted(self.keys)}
            case ["transit", "keys", name]:
                return self._key(method, name)
            case ["transit", "keys", name, change] if method == "POST":
                return self._changed(self._known(name, "no existing key named " + name), change, body)
            case ["transit", *use, name] if method == "POST":
                return _used(self._known(name, "encryption key not found"), use, body)
            case ["transit", *_]:
                raise Refusal(404, "1 error occurred: * unsupported path")
        raise Refusal(404, f'no handler for route "{path}". route entry not found.')

    def _known(self, name: str, otherwise: str) -> Key:
        if name not in self.keys:
            raise Refusal(400, otherwise)
        return self.keys[name]

    def _key(self, method: str, name: str) -> Json | None:
        if method == "POST":
            self.keys.setdefault(name, Key())
        elif name not in self.keys:
            raise Refusal(404)
        key = self.keys[name]
        if method == "DELETE":
            if not key.config["deletion_allowed"]:
                raise Refusal(400, "error deleting policy: deletion is not allowed for this policy")
            del self.keys[name]
            return None
        times = {str(version): made_at for version, (_, made_at) in key.versions.items()}
        return {"name": name, "type": "aes256-gcm96", "latest_version": key.latest, "keys": times, **key.config}

    def _changed(self, key: Key, change: str, body: Json) -> Json | None:
        actions: dict[str, Callable[[], None]] = {
            "rotate": key.rotate,
            "config": lambda: _configure(key, body),
            "trim": lambda: _trim(key, body["min_available_version"]),
        }
        actions[change]()
        return None


def _used(key: Key, use: list[str], body: Json) -> Json:
    if use == ["datakey", "plaintext"]:
        plain = os.urandom(body.get("bits", 256) // 8)
        return {"plaintext": b64encode(plain).decode(), "ciphertext": key.encrypt(plain), "key_version": key.latest}
    plain = key.decrypt(body["ciphertext"])
    if use == ["rewrap"]:
        return {"ciphertext": key.encrypt(plain), "key_version": key.latest}
    return {"plaintext": b64encode(plain).decode()}


def _configure(key: Key, body: Json) -> None:
    if body.get("min_encryption_version", key.latest) < key.config["min_available_version"]:
        raise Refusal(400, "min encryption version should not be less than min available version")
    key.config.update(body)


def _trim(key: Key, version: int) -> None:
    if not key.config["min_encryption_version"]:
        raise Refusal(400, "minimum available version cannot be set when minimum encryption version is not set")
    if version > key.config["min_decryption_version"]:
        raise Refusal(400, "minimum available version cannot be higher than minimum decryption version")
    key.config["min_available_version"] = version
    for gone in [one for one in key.versions if one < version]:
        del key.versions[gone]
