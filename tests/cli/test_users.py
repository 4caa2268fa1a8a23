"""kproxy users: what it writes lets the right ones in, and nothing that it shows is a secret."""

import io
import json
from base64 import b64encode
from hashlib import scrypt
from pathlib import Path

import pytest

from kproxy.authentication.scram import make_verifier
from kproxy.authentication.users import Users
from tests.cli.conftest import Kproxy

SECRET = "correct horse é"


def test_users_are_set_listed_and_removed(kproxy: Kproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "users.json"
    shown = []
    for words in (["alice", "--group", "ops"], ["bob", "--mechanism", "PLAIN"]):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{SECRET}\nnot read"))
        shown.append(kproxy("users", str(file), "--set", *words))
    monkeypatch.setattr("sys.stdin", io.StringIO(SECRET))
    shown.append(kproxy("users", str(file), "--set", "bob", "--mechanism", "PLAIN"))
    assert [out for _, out, _ in shown] == ["added the user alice\n", "added the user bob\n", "changed the user bob\n"]
    assert file.stat().st_mode & 0o777 == 0o600 and SECRET not in file.read_text(encoding="utf-8")
    users = Users(file)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        known = users.verifier(mechanism, "alice")
        assert known == make_verifier(mechanism, SECRET.encode(), known.salt, 4_096)
    assert users.groups("alice") == {"ops"}
    assert users.matches("bob", SECRET.encode()) and not users.matches("bob", b"other")
    assert not users.matches("alice", SECRET.encode()) and not users.matches("nobody", bytes(32))
    shown.append(kproxy("users", str(file)))
    assert shown[-1][1].splitlines() == ["alice  SCRAM-SHA-256, SCRAM-SHA-512  in ops", "bob  PLAIN"]
    shown.append(kproxy("users", str(file), "--format", "json"))
    assert json.loads(shown[-1][1])[1] == {"name": "bob", "mechanisms": ["PLAIN"], "groups": []}
    shown.append(kproxy("users", str(file), "--remove", "alice"))
    assert shown[-1] == (0, "removed the user alice\n", "")
    shown.append(kproxy("users", str(file), "--remove", "alice"))
    assert shown[-1][::2] == (2, f"kproxy: {file}: there is no user 'alice'\n")
    assert list(json.loads(file.read_bytes())["users"]) == ["bob"]
    stored = [b64encode(known.stored_key).decode(), b64encode(known.salt).decode(), SECRET]
    assert not any(one in text for _, out, errors in shown for text in (out, errors) for one in stored)


def test_the_hash_of_plain_is_scrypt(tmp_path: Path) -> None:
    """Written by hand, with Python's own scrypt."""
    hash_ = b64encode(scrypt(b"pencil", salt=b"NaCl", n=1024, r=8, p=2, dklen=32)).decode()
    user = {"PLAIN": f"salt={b64encode(b'NaCl').decode()},hash={hash_},n=1024,r=8,p=2"}
    file = tmp_path / "users.json"
    file.write_text(json.dumps({"unknown_users": b64encode(bytes(32)).decode(), "users": {"alice": user}}))
    assert Users(file).matches("alice", b"pencil")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is not JSON"),
        ("{}", "missing required field `unknown_users`"),
        ('{"unknown_users": "AAAA"}', "unknown_users is not 32 bytes"),
        ('{"unknown_users": "KEY", "users": {"": {}}}', "a name has 1 to 1024 characters"),
        ('{"unknown_users": "KEY", "users": {"a": {"PLAIN": "canary"}}}', "user 'a': the credential of PLAIN is not"),
        ('{"unknown_users": "KEY", "users": {"a": {"PLAIN": "salt=AA==,hash=AA==,n=1,r=8,p=1"}}}', "n, r and p"),
        ('{"unknown_users": "KEY", "users": {"a": {"PLAIN": "salt=AA==,hash=AA==,n=1048576,r=8,p=1"}}}', "n, r and p"),
        (
            '{"unknown_users": "KEY", "users": {"a": {"SCRAM-SHA-256": "canary"}}}',
            "the credential of SCRAM-SHA-256 is not",
        ),
        ('{"unknown_users": "KEY", "users": {"a": {"SCRAM-SHA-256": 7}}}', "Expected `str | null`, got `int`"),
        ('{"unknown_users": "KEY", "users": {"a": {"password": "canary"}}}', "unknown field `password`"),
    ],
)
def test_files_that_are_not_of_users(kproxy: Kproxy, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "users.json"
    file.write_text(text.replace("KEY", b64encode(bytes(32)).decode()))
    code, out, errors = kproxy("users", str(file))
    assert (code, out) == (2, "") and said in errors and "canary" not in errors and errors.count("\n") == 1


def test_the_answer_to_an_unknown_user_does_not_change(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    verifier = make_verifier("SCRAM-SHA-256", b"pencil", bytes(20), 5_000).render()
    content = {"unknown_users": b64encode(bytes(32)).decode(), "users": {"alice": {"SCRAM-SHA-256": verifier}}}
    file.write_text(json.dumps(content))
    one, two = Users(file), Users(file)
    unknown, again = one.verifier("SCRAM-SHA-256", "eve"), two.verifier("SCRAM-SHA-256", "eve")
    assert (unknown.salt, len(unknown.salt), unknown.iterations) == (again.salt, 20, 5_000)
    assert unknown.stored_key != again.stored_key
    assert unknown.salt != one.verifier("SCRAM-SHA-256", "eva").salt
    assert one.verifier("SCRAM-SHA-512", "alice").salt != bytes(20)  # alice has no credential of it
