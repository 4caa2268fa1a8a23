"""A registry that speaks Confluent's REST API: Confluent's own, Apicurio's below /apis/ccompat/v7, Karapace, Redpanda's.

Only the host that was named is asked: no redirect is followed. An answer has MOST_ANSWER bytes at most. Each question is asked in
a thread, and waited for *wait_s* at most, also if the registry sends a byte now and then; a later answer is there for the next
question. While a registry is late, questions do not wait for it. Schemas that it does not have are remembered for MISSING_S.
After FAULTS_ALLOWED failures in a row it is not asked for PAUSE_S.
"""

import json
import os
import threading
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from kproxy.errors import UsageError
from kproxy.schemas.formats import MOST_TEXT, require
from kproxy.schemas.framings import GlobalId
from kproxy.schemas.settings import WAIT_S, RegistryOptions
from kproxy.schemas.store import MOST_MISSING, MOST_SCHEMAS, MOST_SUBJECTS, Id, Schema, schema_of

MOST_ANSWER = 2 * MOST_TEXT
TIMEOUT_S = 3.0  # to connect, and between two bytes
MOST_QUESTIONS = 8  # at a time
MISSING_S = 60.0
FAULTS_ALLOWED, PAUSE_S = 3, 30.0
# In the environment, as Confluent's own tools take them
USER_INFO, TOKEN = "SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO", "SCHEMA_REGISTRY_BEARER_AUTH_TOKEN"  # USER:PASSWORD; a token
MOST_SECRET = 65_536
CONFLUENT_API, OWN_API = "/apis/ccompat/", "/apis/registry/v2"  # of Apicurio: the latter has global ids
NOT_FOUND = 404
LATE = "has not answered yet"

Resource = tuple[str, ...]


class Registry:
    """One registry; a source of schemas.

    Args:
        options: its address, and files with the login and for TLS.
        wait_s: the longest time that a question waits for the answer.

    Raises UsageError for a URL that is none, and for a file that cannot be used.
    """

    def __init__(self, options: RegistryOptions, wait_s: float = WAIT_S) -> None:
        parts = urlsplit(options.url)
        if parts.username is not None or parts.password is not None:
            raise UsageError(
                f"credentials of a registry come from a file (login=FILE) or the environment, {USER_INFO}=USER:PASSWORD, "
                "not from the URL"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{options.url!r} is no address of a registry: write http://HOST:PORT or https://HOST")
        self.name = options.url.rstrip("/")
        self._topics = options.topics
        self._http = _client(options)
        self._wait_s = wait_s
        self._known: dict[Resource, Schema] = {}
        self._missing: dict[Resource, float] = {}
        self._questions: dict[Resource, threading.Event] = {}  # without an answer yet; set with the answer
        self._is_late = False
        self._faults, self._asked_again = 0, 0.0
        self._fault: str | None = None

    @property
    def fault(self) -> str | None:
        """Return why it was not asked, or did not answer, the last time."""
        return self._fault or (f"{self.name} {LATE}" if self._questions else None)

    @property
    def is_asked(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._questions)

    def serves(self, topic: str | None) -> bool:
        return not self._topics or topic is None or any(fnmatchcase(topic, one) for one in self._topics)

    def by_id(self, schema_id: Id, topic: str | None) -> Schema | None:
        if not self.serves(topic):
            return None
        if isinstance(schema_id, GlobalId) and CONFLUENT_API in self.name:
            return self._look_up((OWN_API, "ids", "globalIds", str(schema_id)), schema_id)
        path = ("schemas", "ids", str(schema_id)) if isinstance(schema_id, int) else ("schemas", "guids", schema_id)
        return self._look_up(path, schema_id)

    def by_subject(self, subject: str, version: int | None = None) -> Schema | None:
        """Return a version of a subject, the newest for None."""
        return self._look_up(("subjects", subject, "versions", "latest" if version is None else str(version)), None)

    def _look_up(self, path: Resource, schema_id: Id | None) -> Schema | None:
        if path in self._known:
            return self._known[path]
        if time.monotonic() < max(self._asked_again, self._missing.get(path, 0.0)):
            return None
        answered = self._questions.get(path)
        if answered is None:
            if len(self._questions) >= MOST_QUESTIONS:
                return None
            answered = self._questions[path] = threading.Event()
            threading.Thread(target=self._ask, args=(path, schema_id, answered), daemon=True).start()
        if not answered.wait(0.0 if self._is_late else self._wait_s):
            self._is_late = True
        return self._known.get(path)

    def _ask(self, path: Resource, schema_id: Id | None, answered: threading.Event) -> None:
        """Ask, and remember the answer; in a thread of its own."""
        try:
            schema = self._schema(path, schema_id)
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
            self._fault = f"{self.name} did not answer: {type(error).__name__}"
            if self._faults >= FAULTS_ALLOWED:
                self._asked_again = time.monotonic() + PAUSE_S
        else:
            self._faults, self._fault = 0, None
            if schema is None:
                if len(self._missing) >= MOST_MISSING:
                    self._missing.clear()
                self._missing[path] = time.monotonic() + MISSING_S
            else:
                if len(self._known) >= MOST_SCHEMAS:
                    self._known.clear()
                self._known[path] = schema
        self._is_late = False
        self._questions.pop(path, None)
        answered.set()

    def _schema(self, path: Resource, schema_id: Id | None) -> Schema | None:
        """Ask for a schema, and for its name if the answer has none. Raises what ``_ask`` handles."""
        if path[0] == OWN_API:
            return self._of_global_id(path, schema_id)
        fields = self._get(path)
        if fields is None:
            return None
        schema_of(fields)  # it is one: only then ask for its names
        named = {} if schema_id is None else self._named(path)
        known = {} if schema_id is None else {"id": schema_id}
        subjects = tuple(named.pop("subjects", ()))
        return schema_of({**fields, **named}, source=self.name, subjects=subjects, **known)

    def _of_global_id(self, path: Resource, schema_id: Id | None) -> Schema | None:
        """Ask Apicurio's own API, which answers with the text, and elsewhere with type, name and references."""
        if (text := self._read(path)) is None:
            return None
        found = self._get((OWN_API, "search", f"artifacts?globalId={schema_id}"))["artifacts"]
        references = [
            {"name": one["name"], "subject": one["artifactId"], "version": one["version"]}
            for one in self._get((*path, "references")) or ()
        ]
        known = {"schemaType": found[0]["type"], "subject": found[0]["id"]} if found else {}
        fields = {"schema": text.decode(), "references": references, **known}
        return schema_of(fields, source=self.name, id=schema_id)

    def _named(self, path: Resource) -> dict[str, Any]:
        """Return the subject and version of an id, of several the first, and all its subjects."""
        answer = self._get((*path, "versions"))
        rows: list[Any] = answer[:MOST_SUBJECTS] if isinstance(answer, list) else []
        if not rows:
            return {}
        known = {name: rows[0][name] for name in ("subject", "version") if name in rows[0]}
        return {**known, "subjects": [str(row["subject"]) for row in rows if "subject" in row]}

    def _get(self, path: Resource) -> Any:
        """Return the JSON of a resource; None if there is none. Raises HTTPError, ValueError."""
        data = self._read(path)
        return None if data is None else json.loads(data)

    def _read(self, path: Resource) -> bytes | None:
        """Return the bytes of a resource; None if there is none. Raises HTTPError, ValueError."""
        if path[0] == OWN_API:
            url = "/".join((self.name.partition(CONFLUENT_API)[0] + OWN_API, *path[1:]))
        else:
            url = "/".join((self.name, *(quote(part, safe="") for part in path)))
        answer = self._http.request("GET", url, preload_content=False, redirect=False, decode_content=False)
        try:
            if answer.status == NOT_FOUND:
                return None
            if answer.status != 200:
                raise ValueError(f"HTTP status {answer.status}")
            data: bytes = answer.read(MOST_ANSWER + 1)
            if len(data) > MOST_ANSWER:
                raise ValueError(f"an answer of more than {MOST_ANSWER:,} bytes")
            return data
        finally:
            answer.close()


def _client(options: RegistryOptions) -> Any:
    urllib3 = require("urllib3")
    headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
    if login := _secret(options.login, USER_INFO):
        headers |= urllib3.make_headers(basic_auth=login)
    elif token := _secret(options.token, TOKEN):
        headers["Authorization"] = f"Bearer {token}"
    if (options.certificate is None) != (options.key is None):
        raise UsageError("a registry's certificate and key belong together: give both")
    for file in (options.ca, options.certificate, options.key):
        if file is not None and not os.access(file, os.R_OK):
            raise UsageError(f"{file} cannot be read")
    timeout = urllib3.Timeout(connect=TIMEOUT_S, read=TIMEOUT_S)
    return urllib3.PoolManager(
        num_pools=1,
        headers=headers,
        retries=False,
        timeout=timeout,
        ca_certs=options.ca,
        cert_file=options.certificate,
        key_file=options.key,
    )


def _secret(file: str | None, variable: str) -> str | None:
    """Return a secret of a file, or else of the environment. Raises UsageError, without the secret."""
    if file is None:
        return os.environ.get(variable)
    try:
        with Path(file).open(encoding="utf-8") as opened:
            secret = opened.read(MOST_SECRET).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None
    if not secret or any(character in secret for character in "\r\n"):
        raise UsageError(f"{file}: write the login or the token of the registry as its only line")
    return secret
