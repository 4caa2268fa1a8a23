"""What clients get while a key service fails: each service, each way to fail, for new data keys and for known ones."""

import json
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kproxy.encryption.services.contract import KeyRefused
from kproxy.encryption.services.key_set import KeySet, KeySetOptions
from kproxy.filters.contract import Send
from kproxy.filters.encrypt import Encrypt
from kproxy.protocol.error_codes import ErrorCode
from kproxy.testing.key_services import FAULTS, Answer, FaultyServer, answers
from tests.filters.test_encrypt import RULES, VALUES, Encrypting, errors_in, values_in

AGE_S, AWAY_S = 60.0, 30.0  # how long a data key is fresh, and how much longer it is used
# What the filter does: the errors of Produce and Fetch, and whether known data keys are given up at once
AWAY = ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR, False
REFUSED = ErrorCode.POLICY_VIOLATION, ErrorCode.TOPIC_AUTHORIZATION_FAILED, True
DESTROYED = ErrorCode.POLICY_VIOLATION, ErrorCode.CORRUPT_MESSAGE, True
WRONG_LENGTH = ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CORRUPT_MESSAGE, False

Expected = tuple[ErrorCode, ErrorCode, bool]

pytestmark = pytest.mark.slow


def _answer(plain: bytes) -> bytes:
    """An answer to each question, of Vault and of AWS KMS."""
    key = b64encode(plain).decode()
    vault = {"plaintext": key, "ciphertext": f"vault:v1:{'A' * 80}"}
    return json.dumps({"data": vault, "Plaintext": key, "CiphertextBlob": "AAAA"}).encode()


GONE = b'{"__type": "NotFoundException", "errors": ["encryption key not found"]}'
ANSWERS: dict[str, tuple[Answer, Expected]] = {
    **{name: (answer, REFUSED if error is KeyRefused else AWAY) for name, (answer, error) in FAULTS.items()},
    "hangs": (lambda request: time.sleep(1), AWAY),
    "redirected": (answers(307, b"", ("Location", "http://127.0.0.1:1/v1")), AWAY),
    "destroyed": (answers(400, GONE), DESTROYED),
    "wrong length": (answers(200, _answer(bytes(16))), WRONG_LENGTH),
}


@pytest.mark.parametrize("fault", [*ANSWERS, "connection refused"])
@pytest.mark.parametrize("service", ["vault", "aws_kms"])
def test_a_key_service_over_http_that_fails(monkeypatch: pytest.MonkeyPatch, service: str, fault: str) -> None:
    for name in ("VAULT_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "canary-of-the-token")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/none")
    answer, expected = ANSWERS.get(fault, (None, AWAY))
    with closing(FaultyServer(answers(200, _answer(bytes(32))))) as server:

        def fail() -> None:
            if answer is None:
                server.server_close()
            else:
                server.answer = answer

        region = {"region": "eu-central-1"} if service == "aws_kms" else {}
        check(monkeypatch, {"use": service, "with": {"url": server.url, "timeout": 0.3, **region}}, fail, expected)


OTHERS = bytes.maketrans(b"ABCDEFGHIJKLM", b"NOPQRSTUVWXYZ")  # base 64 has one of them

FILES: dict[str, tuple[Callable[[KeySet, Path, Path], object], Expected]] = {
    "not there": (lambda keys, file, seal: file.unlink(), AWAY),
    "cut": (lambda keys, file, seal: file.write_bytes(file.read_bytes()[:-20]), AWAY),
    "empty": (lambda keys, file, seal: file.write_bytes(b""), AWAY),
    "no key set": (lambda keys, file, seal: file.write_bytes(b"{}"), AWAY),
    "another format": (lambda keys, file, seal: file.write_bytes(file.read_bytes().replace(b"set 1", b"set 2")), AWAY),
    "changed": (lambda keys, file, seal: file.write_bytes(file.read_bytes().translate(OTHERS)), AWAY),
    "a folder": (lambda keys, file, seal: (file.unlink(), file.mkdir()), AWAY),
    "destroyed": (lambda keys, file, seal: keys.destroy("kek-orders"), DESTROYED),
    "another key set": (lambda keys, file, seal: (file.unlink(), keys.make("kek-bills")), DESTROYED),
}


@pytest.mark.parametrize("fault", FILES)
def test_a_key_set_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str) -> None:
    file, seal = tmp_path / "keys", tmp_path / "seal"
    seal.write_bytes(bytes(range(32)))
    keys = KeySet(KeySetOptions(path=str(file), key_file=str(seal)))
    keys.make("kek-orders")
    settings = {"use": "file", "with": {"path": str(file), "key_file": str(seal)}}
    break_, expected = FILES[fault]
    check(monkeypatch, settings, lambda: break_(keys, file, seal), expected)


def check(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], fail: Callable[[], object], expected: Expected
) -> None:
    """What a worker does that has data keys when *fail* is called, and one that has none, by each policy."""
    produced, fetched, is_given_up = expected
    options: dict[str, Any] = {"keys": settings, "data_key_age": AGE_S, "while_away": AWAY_S, "wait": 5.0}
    known = Encrypting(monkeypatch, **options)
    written = known.written()
    assert values_in(known.fetch(written).records) == VALUES
    fail()
    for seconds in (AGE_S - 1, *(() if is_given_up else (AWAY_S,))):  # fresh, and the longest that it is used
        known.runtime.at += seconds
        again = known.written()
        assert b"canary" not in again
        assert values_in(known.fetch(again).records) == VALUES
        settle(known)
    known.runtime.at += 1 + (AGE_S if is_given_up else 0)
    while isinstance(known.produce("orders"), Send):
        assert is_given_up  # it is asked whether the key still is what it was
        settle(known)
    check_closed(known, written, produced, fetched)
    known.chain.stop()
    for policy in ("skip",) if fetched == ErrorCode.KAFKA_STORAGE_ERROR else ("fail", "skip", "pass"):
        fresh = Encrypting(monkeypatch, **options, rules=[{**RULES[0], "unreadable": policy}])
        if policy == "fail" or fetched == ErrorCode.KAFKA_STORAGE_ERROR:  # nothing is skipped while it is away
            check_closed(fresh, written, produced, fetched)
        else:
            left = [value for value in values_in(written) if value is None or policy == "pass"]
            assert values_in(fresh.fetch(written).records) == left
        fresh.chain.stop()


def check_closed(bench: Encrypting, written: bytes, produced: ErrorCode, fetched: ErrorCode) -> None:
    """Nothing is written, and nothing read; no word of the service is logged."""
    assert errors_in(bench.produce("orders"))["orders"][0] == produced
    partition = bench.fetch(written)
    assert (partition.error_code, partition.records) == (fetched, b"")
    assert "canary" not in repr(bench.runtime.warnings)


def settle(bench: Encrypting) -> None:
    """Wait until the key service has answered."""
    (keys,) = (one._keys for one in bench.chain.filters if isinstance(one, Encrypt))
    while keys._asked:
        time.sleep(0.001)
