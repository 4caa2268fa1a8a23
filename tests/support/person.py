"""A person at the page of a running proxy: sets breakpoints, looks at what is stopped and decides, by HTTP as the page does."""

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy

PATIENCE_S = 60.0
Stop = dict[str, Any]


class Person:
    """Has the token, from the proxy's log."""

    def __init__(self, proxy: Proxy) -> None:
        found = eventually(lambda: _url(proxy), what="the address of the page in the log")
        self.address = f"http://{urlsplit(found).netloc}/page/api"
        (self.token,) = parse_qs(urlsplit(found).query)["token"]

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and answer; header names have underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.address}{path}", data, {"x-kproxy-token": self.token, **named}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def done(self, method: str, path: str, body: Any = None) -> Any:
        """The answer, which must be no refusal."""
        status, answer = self.ask(method, path, body)
        assert status == 200, answer
        return answer

    def stop_at(self, *conditions: str, direction: str = "request") -> None:
        """Set breakpoints in place of those before."""
        self.done("PUT", "/breakpoints", [{"condition": one, "direction": direction} for one in conditions])

    def stops(self, count: int = 1) -> list[Stop]:
        """What is stopped, once it is so many."""
        generation, wait = -1, 0.0

        def stopped() -> Sequence[Stop] | None:
            nonlocal generation, wait
            answer = self.done("GET", f"/stops?after={generation}&wait={wait}")
            generation, wait = answer["generation"], 5.0
            return answer["stops"] if len(answer["stops"]) >= count else None

        return list(eventually(stopped, patience=PATIENCE_S, what=f"{count} stops"))

    def none(self) -> None:
        """Wait until nothing is stopped."""
        eventually(lambda: self.done("GET", "/stops")["stops"] == [], patience=PATIENCE_S, what="no stops")

    def shown(self, stop: Stop) -> Any:
        """A stop with its text."""
        return self.done("GET", f"/stops/{stop['id']}")

    def decide(self, stop: Stop, action: str, **more: Any) -> Any:
        """Do something with it."""
        return self.done("POST", f"/stops/{stop['id']}", {"action": action, **more})

    def replace(self, stop: Stop, before: str, after: str) -> None:
        """Replace a piece of text in it, which it has once."""
        text = self.shown(stop)["json"]
        assert text.count(before) == 1, text
        self.decide(stop, "replace", json=text.replace(before, after))


def _url(proxy: Proxy) -> str | None:
    for line in proxy.log.read_text(encoding="utf-8").splitlines():
        if line.startswith("{") and (event := json.loads(line))["event"] == "the page, where breakpoints may be set":
            return Path(event["file"]).read_text(encoding="ascii").strip()
    return None
