"""As whom kproxy logs in: by the client's name, from files, and with tokens of an identity provider."""

import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs

import pytest

from kproxy.config.structs import Identity, Login, TokenEndpoint
from kproxy.errors import LoginRefused
from kproxy.login.client_settings import Credentials
from kproxy.login.identities import Identities
from kproxy.login.tokens import RETRY_S
from tests.support.http_servers import Quiet, serving

NOW = 1_000_000.0


def identities(login: Login, clock: list[float] | None = None) -> Identities:
    times = clock or [NOW]
    return Identities(login, lambda: times[0])


def test_a_table_a_template_and_one_for_all(tmp_path: Path) -> None:
    for name, secret in (("alice", "of-alice\n"), ("all", "of-all\r\n")):
        (tmp_path / name).write_text(secret)
    one = {"alice": Identity(username="svc-alice", password=f"file:{tmp_path / 'alice'}")}
    login = Login(mechanism="PLAIN", username="kproxy", password=f"file:{tmp_path / 'all'}", principals=one)
    assert identities(login).known("alice") == Credentials("PLAIN", "svc-alice", "of-alice")
    assert identities(login).known("bob") == identities(login).known(None) == Credentials("PLAIN", "kproxy", "of-all")
    assert identities(login).has_own
    template = Login(mechanism="SCRAM-SHA-256", username="k-{principal}", password=f"file:{tmp_path}/{{principal}}")
    assert identities(template).known("alice") == Credentials("SCRAM-SHA-256", "k-alice", "of-alice")
    assert not identities(template).has_own
    for name, said in (
        ("bob", "cannot be read"),
        ("../all", "cannot be put"),
        (".", "cannot be put"),
        (None, "no name"),
    ):
        with pytest.raises(LoginRefused, match=said):
            identities(template).known(name)
    with pytest.raises(LoginRefused, match="nothing for bob"):
        identities(Login(mechanism="PLAIN", principals=one)).known("bob")


class Provider(Quiet):
    """A token endpoint; the tokens have their number."""

    asked: ClassVar[list[tuple[str | None, dict[str, list[str]]]]]
    answers: ClassVar[list[tuple[int, object]]]

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.asked.append((self.headers["Authorization"], form))
        status, answer = self.answers.pop(0)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def provider(*answers: tuple[int, object]) -> Iterator[tuple[str, type[Provider]]]:
    handler = type("Asked", (Provider,), {"asked": [], "answers": list(answers)})
    with serving(handler) as url:
        yield f"{url}/token", handler


def test_client_credentials(tmp_path: Path) -> None:
    """RFC 6749, sections 2.3.1 and 4.4; a token is used for 80 % of its lifetime, and to its end if there is no other."""
    (tmp_path / "secret").write_text("s:e/cret")
    answers = [(200, {"access_token": "one", "expires_in": 100}), (503, {})]
    answers += [(200, {"access_token": text, "expires_in": 100}) for text in ("two", "three")]
    clock = [NOW]
    with provider(*answers) as (url, asked):
        endpoint = TokenEndpoint(url=url, client_id="kproxy", client_secret=f"file:{tmp_path / 'secret'}", scope="a b")
        login = Login(mechanism="OAUTHBEARER", token=endpoint, extensions={"logicalCluster": "lkc-1"})
        made = identities(login, clock)
        assert made.known(None) is None
        bearer = Credentials("OAUTHBEARER", "", "one", extensions=(("logicalCluster", "lkc-1"),))
        assert made.fetch() == made.known("anyone") == bearer
        [(authorization, form)] = asked.asked
        assert form == {"grant_type": ["client_credentials"], "scope": ["a b"]}
        assert authorization == "Basic " + base64.b64encode(b"kproxy:s%3Ae%2Fcret").decode()
        clock[0] = NOW + 81
        assert made.known(None) is None
        assert made.fetch().password == "one"  # the provider is away
        clock[0] = NOW + 83
        assert made.known(None) is None and made.fetch().password == "two"
        made.note_refusal(None)  # the broker does not believe it; but not each refusal fetches another
        kept = made.known(None)
        assert kept is not None and kept.password == "two"
        clock[0] += RETRY_S
        assert made.known(None) is None and made.fetch().password == "three"


def test_the_exchange_of_a_token(tmp_path: Path) -> None:
    """RFC 8693, section 2.1."""
    (tmp_path / "subject").write_text("subject-token")
    with provider((200, {"access_token": "x", "expires_in": 9})) as (url, asked):
        endpoint = TokenEndpoint(
            url=url, client_id="me", subject_token=f"file:{tmp_path / 'subject'}", audience="kafka"
        )
        identities(Login(mechanism="OAUTHBEARER", token=endpoint)).fetch()
    assert asked.asked[0] == (
        None,
        {
            "grant_type": ["urn:ietf:params:oauth:grant-type:token-exchange"],
            "subject_token": ["subject-token"],
            "subject_token_type": ["urn:ietf:params:oauth:token-type:jwt"],
            "audience": ["kafka"],
            "client_id": ["me"],
        },
    )


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (401, {"error": "invalid_client", "error_description": "secret"}, "answers 401: invalid_client$"),
        (200, ["secret"], "answers 200, without JSON"),
        (200, {"access_token": "sec\nret"}, "answers 200$"),
    ],
)
def test_a_provider_that_refuses(status: int, answer: object, said: str) -> None:
    with provider((status, answer)) as (url, _), pytest.raises(LoginRefused, match=said) as refused:
        identities(Login(mechanism="OAUTHBEARER", token=TokenEndpoint(url=url))).fetch()
    assert "secret" not in f"{refused.value} {refused.value.__cause__}"


def test_a_token_of_aws_names_the_cluster_s_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """MSK's token is a presigned URL in base 64 (aws-msk-iam-auth); made here without a request."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    made = identities(Login(mechanism="AWS_MSK_IAM", region="eu-north-1"))
    token = made.fetch()
    assert token.mechanism == "OAUTHBEARER" and made.known("anyone") == token
    url = base64.urlsafe_b64decode(token.password + "==").decode()
    assert url.startswith("https://kafka.eu-north-1.amazonaws.com/?Action=kafka-cluster%3AConnect")
    assert "X-Amz-Signature=" in url and "canary-secret" not in url
