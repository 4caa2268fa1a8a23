"""A registry that speaks Confluent's REST API: Confluent's own, Apicurio's below /apis/ccompat/v7, Karapace, Redpanda's.

Only the host that was named is asked: no redirect is followed. An answer has MOST_ANSWER bytes at most and TIMEOUT_S seconds.
What a registry does not have is remembered for MISSING_S. After FAULTS_ALLOWED failures in a row it is not asked for PAUSE_S, so
that a registry that is away costs a capture a few seconds, not a few for each record.
"""

import json
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from kproxy.errors import UsageError
from kproxy.schemas.formats import MOST_TEXT, require
from kproxy.schemas.store import MOST_MISSING, MOST_SCHEMAS, Id, Schema, schema_of

TIMEOUT_S = 3.0
MOST_ANSWER = 2 * MOST_TEXT
MISSING_S = 60.0
FAULTS_ALLOWED, PAUSE_S = 3, 30.0
USER_INFO = "SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO"  # USER:PASSWORD in the environment, as Confluent's own tools take it
NOT_FOUND = 404


class Registry:
    """One registry; a source of schemas.

    Args:
        url: http:// or https://, without credentials.
        ca: certificates that are trusted, in PEM, in place of the system's.

    Raises UsageError for a URL that is none.
    """

    def __init__(self, url: str, ca: Path | None = None) -> None:
        parts = urlsplit(url)
        if parts.username is not None or parts.password is not None:
            raise UsageError(
                f"credentials of a registry come from the environment, {USER_INFO}=USER:PASSWORD, not from the URL"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url!r} is no address of a registry: write http://HOST:PORT or https://HOST")
        self.name = url.rstrip("/")
        urllib3 = require("urllib3")
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if login := os.environ.get(USER_INFO):
            headers |= urllib3.make_headers(basic_auth=login)
        timeout = urllib3.Timeout(connect=TIMEOUT_S, read=TIMEOUT_S)
        self._http = urllib3.PoolManager(
            num_pools=1, headers=headers, retries=False, timeout=timeout, ca_certs=None if ca is None else str(ca)
        )
        self._known: dict[tuple[str, ...], Schema] = {}
        self._missing: dict[tuple[str, ...], float] = {}
        self._faults, self._asked_again = 0, 0.0
        self.fault: str | None = None  # why it was not asked, or did not answer, the last time

    def by_id(self, schema_id: Id, topic: str | None) -> Schema | None:
        """Return the schema with an id."""
        path = ("schemas", "ids", str(schema_id)) if isinstance(schema_id, int) else ("schemas", "guids", schema_id)
        return self._look_up(path, schema_id)

    def by_subject(self, subject: str, version: int | None = None) -> Schema | None:
        """Return a version of a subject, the newest for None."""
        return self._look_up(("subjects", subject, "versions", "latest" if version is None else str(version)), None)

    def _look_up(self, path: tuple[str, ...], schema_id: Id | None) -> Schema | None:
        if path in self._known:
            return self._known[path]
        now = time.monotonic()
        if now < max(self._asked_again, self._missing.get(path, 0.0)):
            return None
        schema = self._ask(path, schema_id, now)
        if schema is None and self._faults == 0:
            if len(self._missing) >= MOST_MISSING:
                self._missing.clear()
            self._missing[path] = now + MISSING_S
        elif schema is not None and len(self._known) < MOST_SCHEMAS:
            self._known[path] = schema
        return schema

    def _ask(self, path: tuple[str, ...], schema_id: Id | None, now: float) -> Schema | None:
        try:
            fields = self._get(path)
            if fields is None:
                return None
            schema_of(fields)  # it is one: only then ask for its name
            named = self._named(path) if schema_id is not None and not fields.get("subject") else {}
            known = {} if schema_id is None else {"id": schema_id}
            schema = schema_of({**fields, **named}, **known)
        except (
            require("urllib3").exceptions.HTTPError,
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            self._faults += 1
            self.fault = f"{self.name} did not answer: {type(error).__name__}"
            if self._faults >= FAULTS_ALLOWED:
                self._asked_again = now + PAUSE_S
            return None
        self._faults, self.fault = 0, None
        return schema

    def _named(self, path: tuple[str, ...]) -> dict[str, Any]:
        """Return the subject and version of an id; of several the first."""
        answer = self._get((*path, "versions"))
        first: Any = answer[0] if isinstance(answer, list) and answer else {}
        return {name: first[name] for name in ("subject", "version") if name in first}

    def _get(self, path: tuple[str, ...]) -> Any:
        """Return the JSON of a resource; None if there is none. Raises HTTPError, ValueError."""
        url = "/".join((self.name, *(quote(part, safe="") for part in path)))
        answer = self._http.request("GET", url, preload_content=False, redirect=False)
        try:
            if answer.status == NOT_FOUND:
                return None
            if answer.status != 200:
                raise ValueError(f"HTTP status {answer.status}")
            data = answer.read(MOST_ANSWER + 1)
            if len(data) > MOST_ANSWER:
                raise ValueError(f"an answer of more than {MOST_ANSWER:,} bytes")
            return json.loads(data)
        finally:
            answer.close()
