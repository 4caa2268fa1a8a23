"""What a key service has to do, as tests that its author runs: a class to derive from, for pytest.

class TestMyService(KeyServiceContract):
    key_name, other_key_name = "orders", "bills"      # two keys that it has

    @pytest.fixture
    def service(self):
        return MyService(MyOptions(...))

class TestMyServiceAndFaults(HttpFaults):              # if it is asked over HTTP
    def service_at(self, url):
        return MyService(MyOptions(url=url, token="env:MY_TOKEN"))
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from kproxy.encryption.services.contract import (
    DATA_KEY_SIZE,
    MOST_WRAPPED,
    KeyDestroyed,
    KeyManager,
    KeyRefused,
    KeyService,
    KeyServiceAway,
    KeyServiceError,
)

HOSTILE_NAMES = (
    "",
    ".",
    "..",
    "../x",
    "a/../b",
    "a?b=c",
    "a#b",
    "a%2fb",
    "a\r\nX-Y: z",
    "a\0b",
    "ä",
    "🔑",
    "x" * 300,
    "{a}",
)
CHANGES = 40  # single bits that are flipped in a wrapped data key
HUGE = 64 << 20  # bytes of an answer
TRICKLES_S = 20.0  # longer than all calls may take together


class KeyServiceContract:
    """What each key service does."""

    key_name: ClassVar[str]
    other_key_name: ClassVar[str]

    def test_data_keys_are_unwrapped(self, service: KeyService) -> None:
        """Two data keys differ, and neither stands in its wrapped form."""
        one, two = (service.new_data_key(self.key_name) for _ in range(2))
        for made in (one, two):
            assert len(made.plain) == DATA_KEY_SIZE and 0 < len(made.wrapped) <= MOST_WRAPPED
            assert made.plain not in made.wrapped and repr(made.plain) not in repr(made)
            assert service.unwrap(self.key_name, made.wrapped) == made.plain
        assert one.plain != two.plain and one.wrapped != two.wrapped

    def test_a_changed_data_key_is_refused(self, service: KeyService) -> None:
        """With a bit flipped, it is refused by an error after which nobody tries again."""
        wrapped = service.new_data_key(self.key_name).wrapped
        bits = len(wrapped) * 8
        for bit in range(0, bits, max(1, bits // CHANGES)):
            changed = bytearray(wrapped)
            changed[bit // 8] ^= 1 << bit % 8
            self._refuses(service, bytes(changed))
        for part in (wrapped[:-1], wrapped[1:], wrapped + b"\0", b"\0", bytes(MOST_WRAPPED)):
            self._refuses(service, part)

    def _refuses(self, service: KeyService, wrapped: bytes) -> None:
        with pytest.raises(KeyServiceError) as caught:
            service.unwrap(self.key_name, wrapped)
        assert not isinstance(caught.value, KeyServiceAway)

    def test_a_data_key_belongs_to_its_key(self, service: KeyService) -> None:
        """Another key of the same service does not unwrap it."""
        with pytest.raises(KeyServiceError):
            service.unwrap(self.other_key_name, service.new_data_key(self.key_name).wrapped)

    def test_a_key_that_there_is_not(self, service: KeyService) -> None:
        """It is destroyed as far as kproxy knows; a service may also say that kproxy has no right to it."""
        wrapped = service.new_data_key(self.key_name).wrapped
        for call in (lambda: service.new_data_key("no-such-key"), lambda: service.unwrap("no-such-key", wrapped)):
            with pytest.raises((KeyDestroyed, KeyRefused), match="no-such-key"):
                call()

    def test_hostile_names(self, service: KeyService) -> None:
        """The name of a key comes from a record, which anyone may have written."""
        wrapped = service.new_data_key(self.key_name).wrapped
        for name in HOSTILE_NAMES:
            with pytest.raises(KeyServiceError) as caught:
                service.unwrap(name, wrapped)
            assert not isinstance(caught.value, KeyServiceAway)
            with pytest.raises(KeyServiceError):
                service.new_data_key(name)

    def test_threads(self, service: KeyService) -> None:
        """Several call at once."""

        def round_trip(_: int) -> bool:
            made = service.new_data_key(self.key_name)
            return service.unwrap(self.key_name, made.wrapped) == made.plain

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(round_trip, range(16)))

    def test_rotation_needs_no_rewriting(self, service: KeyService) -> None:
        """What an earlier version has wrapped is unwrapped after a rotation; wrapped again, it is the same data key."""
        if not isinstance(service, KeyManager):
            pytest.skip("kproxy does not manage its keys")
        before = service.new_data_key(self.key_name)
        service.rotate(self.key_name)
        after = service.new_data_key(self.key_name)
        for made in (before, after):
            assert service.unwrap(self.key_name, made.wrapped) == made.plain
        rewrapped = service.rewrap(self.key_name, before.wrapped)
        assert rewrapped != before.wrapped and service.unwrap(self.key_name, rewrapped) == before.plain
        with pytest.raises(KeyDestroyed):
            service.rotate("no-such-key")


Answer = Callable[[BaseHTTPRequestHandler], None]


def answers(status: int, body: bytes = b"", *headers: tuple[str, str]) -> Answer:
    """Return what answers each request in this way."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for header in (("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers):
            request.send_header(*header)
        request.end_headers()
        request.wfile.write(body)

    return answer


def _huge(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(HUGE))
    request.end_headers()
    for _ in range(HUGE >> 16):
        request.wfile.write(bytes(1 << 16))


def _cut(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    request.wfile.write(b'{"data": {"plaintext": "')


def _stops(request: BaseHTTPRequestHandler) -> None:
    _cut(request)
    request.wfile.flush()
    time.sleep(2)


def _trickles(request: BaseHTTPRequestHandler) -> None:
    _cut(request)
    _slowly(request)


def _trickles_in_its_head(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.flush_headers()
    _slowly(request)


def _slowly(request: BaseHTTPRequestHandler) -> None:
    """Write a byte now and then, until the connection is closed."""
    until = time.monotonic() + TRICKLES_S
    while time.monotonic() < until:
        request.wfile.write(b"X")
        request.wfile.flush()
        time.sleep(0.05)


def _hangs_up(request: BaseHTTPRequestHandler) -> None:
    request.close_connection = True


# What the service answers, whatever it is asked for -> the error of kproxy
FAULTS: dict[str, tuple[Answer, type[KeyServiceError]]] = {
    "internal error": (answers(500, b'{"errors": ["canary-of-the-service"]}'), KeyServiceAway),
    "unavailable": (answers(503), KeyServiceAway),
    "bad gateway": (answers(502, b"<html>canary-of-the-service</html>"), KeyServiceAway),
    "throttled": (answers(429), KeyServiceAway),
    "not found by another": (answers(404, b"<html>canary-of-the-service</html>"), KeyServiceAway),
    "not understood by another": (answers(400, b"canary-of-the-service"), KeyServiceAway),
    "hangs up": (_hangs_up, KeyServiceAway),
    "forbidden": (answers(403, b'{"errors": ["permission denied"], "__type": "AccessDeniedException"}'), KeyRefused),
    "forbidden by another": (answers(403, b"<html>canary-of-the-service</html>"), KeyServiceAway),
    "forbidden by a gateway": (answers(403, b'{"message": "Forbidden"}'), KeyServiceAway),
    "trickles": (_trickles, KeyServiceAway),
    "trickles in its head": (_trickles_in_its_head, KeyServiceAway),
    "cut": (_cut, KeyServiceAway),
    "stops": (_stops, KeyServiceAway),
    "no JSON": (answers(200, b"<html>canary-of-the-service</html>"), KeyServiceAway),
    "half of it": (answers(200, b'{"data": {'), KeyServiceAway),
    "empty": (answers(200, b"{}"), KeyServiceAway),
    "no object": (answers(200, b"[1]"), KeyServiceAway),
    "other types": (
        answers(200, b'{"data": 7, "Plaintext": [], "CiphertextBlob": {}, "KeyMetadata": 7, "Aliases": 7}'),
        KeyServiceAway,
    ),
    "no base 64": (
        answers(
            200,
            b'{"data": {"plaintext": "\xc3\xa4", "ciphertext": "\xc3\xa4"}, "Plaintext": "!", "CiphertextBlob": "!"}',
        ),
        KeyServiceAway,
    ),
    "no content": (answers(204), KeyServiceAway),
    "huge": (_huge, KeyServiceAway),
    "deep": (answers(200, b"[" * 100_000), KeyServiceAway),
}


class FaultyServer(ThreadingHTTPServer):
    """Answers each request in the same way, *answer*, which can be set anew, and counts them."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[str] = []
        server = self

        class Request(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65_537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.requests.append(f"{self.command} {self.path}")
                self.close_connection = True
                server.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Request)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        """The URL, without a path."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: clients stop reading on purpose here."""

    def close(self) -> None:
        """Stop."""
        self.shutdown()
        self.server_close()


def _error_of(call: Callable[[], object]) -> KeyServiceError | None:
    try:
        call()
    except KeyServiceError as error:
        return error
    return None


def _managing(service: KeyService, key_name: str, wrapped: bytes) -> list[Callable[[], object]]:
    """The calls of `kproxy keys`; some find nothing wrong with an empty answer."""
    if not isinstance(service, KeyManager):
        return []
    return [
        service.list_keys,
        lambda: service.describe_key(key_name),
        lambda: service.make(key_name),
        lambda: service.rotate(key_name),
        lambda: service.destroy(key_name),
        lambda: service.rewrap(key_name, wrapped),
    ]


class HttpFaults:
    """What a key service that is asked over HTTP makes of faults: errors as the contract has them, without what was answered."""

    key_name: ClassVar[str] = "orders"
    wrapped: ClassVar[bytes] = b"vault:v1:" + b"A" * 80  # bytes that the service would send

    def service_at(self, url: str) -> KeyService:
        """Return the service at a URL."""
        raise TypeError("a test class that derives from HttpFaults defines it")

    @pytest.fixture
    def calls(self) -> Iterator[Callable[[str], list[KeyServiceError]]]:
        """What the two calls of the service at a URL raise."""
        services: list[KeyService] = []

        def errors(url: str) -> list[KeyServiceError]:
            service = self.service_at(url)
            services.append(service)
            needed = (
                lambda: service.new_data_key(self.key_name),
                lambda: service.unwrap(self.key_name, self.wrapped),
            )
            with ThreadPoolExecutor(8) as pool:  # some take until the service gives up
                caught = list(pool.map(_error_of, (*needed, *_managing(service, self.key_name, self.wrapped))))
            assert None not in caught[: len(needed)], "a call raised nothing"
            return [error for error in caught if error is not None]

        yield errors
        for service in services:
            service.close()

    @pytest.mark.parametrize("fault", FAULTS)
    def test_faults(self, calls: Callable[[str], list[KeyServiceError]], fault: str) -> None:
        """Each call raises the error that tells what to do."""
        answer, expected = FAULTS[fault]
        begun = time.monotonic()
        with closing(FaultyServer(answer)) as server:
            errors = calls(server.url)
            assert time.monotonic() - begun < TRICKLES_S
            for error in errors:
                assert isinstance(error, expected)
                assert "\n" not in str(error) and "canary" not in str(error)

    def test_away(self, calls: Callable[[str], list[KeyServiceError]]) -> None:
        """The server has been stopped: each call raises KeyServiceAway."""
        with closing(FaultyServer(_hangs_up)) as server:
            url = server.url
        assert all(isinstance(error, KeyServiceAway) for error in calls(url))

    def test_slow(self, calls: Callable[[str], list[KeyServiceError]]) -> None:
        """It takes the request and does not answer."""
        end = threading.Event()
        with closing(FaultyServer(lambda request: (end.wait(60), None)[1])) as server:
            assert all(isinstance(error, KeyServiceAway) for error in calls(server.url))
            end.set()

    def test_redirected(self, calls: Callable[[str], list[KeyServiceError]]) -> None:
        """Credentials are not sent to where an answer points."""
        with closing(FaultyServer(answers(200, b"{}"))) as other:
            for status in (301, 302, 307, 308):
                with closing(FaultyServer(answers(status, b"", ("Location", f"{other.url}/v1/x")))) as server:
                    calls(server.url)
            assert other.requests == []
