"""The pages of breakpoints as a browser and curl ask them: who may, what is answered, which mistakes are named where."""

import json
import math
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from kproxy.config.structs import Page
from kproxy.protocol import ApiKey, message
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.records import Record
from kproxy.protocol.records.editing import RecordBatch, write_batches
from kproxy.proxy.codec_thread import end_codec_thread
from kproxy.proxy.messages import BreakpointGivenUp, Decide, Message, ShowStop, Stop, StopAnswer, Stopped
from kproxy.proxy.supervisor.admin import PageEntry, admin_app
from kproxy.proxy.supervisor.browser_guard import BrowserGuard
from kproxy.schemas.settings import SchemaSources
from tests.proxy.supervisor.test_admin import Client, Proxy
from tests.proxy.supervisor.test_stopped import Fleet
from tests.support.messages import make

TOKEN = "of-the-test"
HEARTBEAT = message("HeartbeatRequest")
BODY = HEARTBEAT.encode(4, make("HeartbeatRequest", group_id="a group", generation_id=3, member_id="m"))
ID = "0-77-1"


class StopPage:
    """A page with one stopped Heartbeat, and what its worker was told."""

    def __init__(self, body: bytes = BODY, *, records: bool = False, **stop: Any) -> None:
        self.body = body
        self.fleet = Fleet(Page(edits=True, records=records))
        self.worker = self.fleet.children[0]
        self.worker.answer = self._answer
        entry = PageEntry(self.fleet)  # type: ignore[arg-type]
        self.client = Client(admin_app(Proxy(), guard=BrowserGuard(token=TOKEN), edits=entry))
        self.ask("GET", "/stops")
        words = (
            "default",
            1,
            "c:1",
            "b:1",
            None,
            "app",
            "request",
            12,
            4,
            4,
            len(body),
            'apiName == "Heartbeat"',
            True,
            True,
        )
        made = Stop(ID, *words, 1, 5_001)  # type: ignore[arg-type]
        self.fleet.tell(0, Stopped(msgspec.structs.replace(made, **stop)))

    def _answer(self, message: Message) -> None:
        if isinstance(message, ShowStop):
            self.fleet.questions.note(0, StopAnswer(message.question, self.body))
        elif isinstance(message, Decide) and not message.more:
            self.fleet.questions.note(0, StopAnswer(message.question))

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        named = {"x-kproxy-token": TOKEN, **{name.replace("_", "-"): value for name, value in headers.items()}}
        content = None if body is None else json.dumps(body)
        return self.client.request(method, f"/page/api{path}", headers=named, content=content)

    def decided(self) -> Decide:
        found = self.worker.sent[-1]
        assert isinstance(found, Decide)
        return found


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    end_codec_thread()


@pytest.fixture
def page() -> StopPage:
    return StopPage()


CHANGES = [
    ("PUT", "/breakpoints"),
    ("POST", "/breakpoints/check"),
    *(("POST", f"/stops/{name}") for name in (ID, "resume-all", "check", "rule")),
]


@pytest.mark.parametrize(
    ("method", "path"), [*CHANGES, ("GET", "/stops"), ("GET", f"/stops/{ID}"), ("GET", "/breakpoints")]
)
def test_nothing_without_the_token_or_from_another_site_or_by_a_foreign_name(
    page: StopPage, method: str, path: str
) -> None:
    before = len(page.worker.sent)
    assert page.ask(method, path, [], x_kproxy_token="wrong").status_code == 403
    assert page.ask(method, path, [], host="evil.example").status_code == 421
    if method != "GET":
        assert page.ask(method, path, [], origin="http://evil.example").status_code == 403
        assert page.ask(method, path, [], sec_fetch_site="cross-site").status_code == 403
        cookie = {"cookie": f"kproxy_token_9644={TOKEN}"}
        assert page.client.request(method, f"/page/api{path}", headers=cookie).status_code == 403
    assert len(page.worker.sent) == before
    assert page.fleet.breakpoints is None


def test_no_answer_may_be_read_by_another_site(page: StopPage) -> None:
    answer = page.ask("GET", "/stops", origin="http://evil.example")
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert answer.headers["cache-control"] == "no-store"
    assert page.ask("OPTIONS", "/stops", origin="http://evil.example").status_code == 403


def test_the_rest_of_the_admin_port_cannot_be_changed(page: StopPage) -> None:
    for path in ("/config", "/metrics", "/"):
        assert page.client.request("POST", path, headers={"x-kproxy-token": TOKEN}).status_code == 405


def test_what_is_stopped(page: StopPage) -> None:
    answer = page.ask("GET", "/stops").json()
    (stop,) = answer["stops"]
    assert (answer["generation"], answer["total"], answer["breakpoints"]) == (1, 1, [])
    assert answer["nowMs"] > 1_000_000_000_000
    none = page.ask("GET", "/stops?limit=0").json()
    assert (none["total"], none["stops"]) == (1, [])
    assert page.ask("GET", "/stops?limit=many").status_code == 400
    assert (stop["id"], stop["api"], stop["apiVersion"], stop["clientId"]) == (ID, "Heartbeat", 4, "app")
    assert (stop["stoppedMs"], stop["resumesMs"], stop["expectsResponse"], stop["canFail"]) == (1, 5_001, True, True)
    shown = page.ask("GET", f"/stops/{ID}").json()
    assert json.loads(shown["json"])["groupId"] == "a group"
    assert page.ask("GET", "/stops/0-77-2").status_code == 409


def test_breakpoints_are_set(page: StopPage) -> None:
    wanted = [
        {"condition": 'apiName == "Heartbeat"', "direction": "request"},
        {"condition": "true", "direction": "response"},
    ]
    assert page.ask("PUT", "/breakpoints", wanted).json() == wanted
    assert page.ask("GET", "/breakpoints").json() == wanted
    refused = page.ask("PUT", "/breakpoints", [{"condition": 'apiName == "SaslAuthenticate"'}])
    assert refused.status_code == 400
    assert "cannot be stopped" in refused.json()["error"]
    assert page.ask("GET", "/breakpoints").json() == wanted == page.ask("GET", "/stops").json()["breakpoints"]
    page.fleet.tell(0, BreakpointGivenUp("true", "response", "It takes too long."))
    assert page.ask("GET", "/stops").json()["givenUp"] == [{**wanted[1], "why": "It takes too long."}]
    wrong = page.ask("PUT", "/breakpoints", [*wanted, {"condition": "clientid == 'x'"}]).json()
    assert (wrong["column"], wrong["length"], wrong["error"].startswith("breakpoint 3: ")) == (1, 8, True)


def test_a_condition_is_checked_while_it_is_typed(page: StopPage) -> None:
    def check(condition: str, direction: str = "request") -> httpx.Response:
        return page.ask("POST", "/breakpoints/check", {"condition": condition, "direction": direction})

    assert check('apiName in ["Produce", "Fetch"] && clientId == "x"').json() == {
        "apis": ["Produce", "Fetch"],
        "all": False,
    }
    assert check("clientId == 'x'").json()["all"] is True
    wrong = check("clientId = 'x'")
    assert wrong.status_code == 422
    assert wrong.json() == {"error": "write == for =", "column": 10, "length": 1}
    assert check("errors == []").json()["column"] == 1
    assert check("errors == []", "response").status_code == 200
    assert "part of a login" in check('apiName == "SaslAuthenticate"').json()["error"]
    assert page.fleet.breakpoints is None, "nothing is set"


def test_the_errors_that_can_be_answered(page: StopPage) -> None:
    errors = page.ask("GET", "/stops/errors").json()
    assert {one["name"] for one in errors} == set(ErrorCode.__members__) - {"NONE"}
    (one,) = [one for one in errors if one["code"] == 27]
    assert (one["name"], one["retriable"]) == ("REBALANCE_IN_PROGRESS", False)
    assert one["meaning"]


@pytest.mark.parametrize(
    "body", [7, {"condition": "true"}, [{"condition": 1}], [{"condition": "true", "colour": 1}], "["]
)
def test_breakpoints_of_another_shape_are_refused(page: StopPage, body: Any) -> None:
    answer = page.ask("PUT", "/breakpoints", body)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("the request is wrong")


def test_a_message_is_replaced_by_json(page: StopPage) -> None:
    after = HEARTBEAT.encode(4, make("HeartbeatRequest", group_id="another", generation_id=3, member_id="m"))
    text = page.ask("GET", f"/stops/{ID}").json()["json"].replace("a group", "another")
    assert page.ask("POST", f"/stops/{ID}", {"action": "replace", "json": text}).json() == {"done": True}
    sent = page.decided()
    assert (sent.action, sent.part, sent.more) == ("replace", after, False)
    assert sent.by.startswith("127.0.0.1:")


@pytest.mark.parametrize("records", [True, False])
def test_a_value_is_replaced_by_its_schema(tmp_path: Path, records: bool) -> None:
    def produce(value: bytes) -> bytes:
        batch = write_batches([RecordBatch([Record(value=value)])])
        topic = {"name": "orders", "partition_data": [{"index": 0, "records": batch}]}
        return message("ProduceRequest").encode(9, make("ProduceRequest", topic_data=[topic]))

    (tmp_path / "7.avsc").write_text(
        '{"type": "record", "name": "Order", "fields": [{"name": "total", "type": "long"}]}'
    )
    page = StopPage(produce(b"\0\0\0\0\7\x0a"), records=records, api_key=ApiKey.PRODUCE, api_version=9)
    page.fleet.config = msgspec.structs.replace(page.fleet.config, schemas=SchemaSources(folders=[str(tmp_path)]))
    text = page.ask("GET", f"/stops/{ID}").json()["json"]
    assert ('"total": 5' in text) == records  # zigzag 0x0a
    wrong = page.ask("POST", f"/stops/{ID}", {"action": "replace", "json": text.replace('"total": 5', '"total": "x"')})
    if records:
        assert wrong.json()["error"].endswith("records[0].value.json.total: is not a whole number")
    edited = text.replace('"total": 5', '"total": 6')
    assert page.ask("POST", f"/stops/{ID}", {"action": "replace", "json": edited}).json() == {"done": True}
    assert page.decided().part == (produce(b"\0\0\0\0\7\x0c") if records else page.body)


def test_the_other_decisions(page: StopPage) -> None:
    for action in ("resume", "drop", "close"):
        assert page.ask("POST", f"/stops/{ID}", {"action": action}).status_code == 200
        assert page.decided().action == action
    page.ask("POST", f"/stops/{ID}", {"action": "error", "error": "REBALANCE_IN_PROGRESS"})
    assert (page.decided().action, page.decided().error) == ("error", 27)
    page.ask("POST", f"/stops/{ID}", {"action": "keep", "seconds": 60})
    assert (page.decided().action, page.decided().seconds) == ("keep", 60.0)
    assert page.ask("POST", "/stops/resume-all").json() == {"resumed": 1}


@pytest.mark.parametrize(
    ("asked", "status", "words"),
    [
        ({"action": "explode"}, 400, 'there is no action "explode"'),
        ({"action": "error", "error": "REBALANCE"}, 422, "did you mean REBALANCE_IN_PROGRESS?"),
        ({"action": "error", "error": "NONE"}, 422, "there is no error"),
        ({"action": "error"}, 422, "there is no error"),
        ({"action": "replace"}, 400, "give the message as json"),
        ({"action": "replace", "json": "{}"}, 422, "groupId: is missing"),
        ({"action": "replace", "json": "9" * 5_000}, 422, "a number has more than 4,300 digits"),
        ({"action": "replace", "json": "[" * 100_000}, 422, "too many brackets inside each other"),
        ({"action": "keep", "seconds": math.nan}, 400, "the request is wrong: JSON is malformed"),
        ({"action": "keep", "seconds": math.inf}, 400, "the request is wrong: JSON is malformed"),
        ({"action": 7}, 400, "the request is wrong"),
    ],
)
def test_decisions_that_cannot_be(page: StopPage, asked: Any, status: int, words: str) -> None:
    answer = page.ask("POST", f"/stops/{ID}", asked)
    assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.json()
    assert not any(isinstance(message, Decide) for message in page.worker.sent)


def test_an_api_without_a_place_for_an_error_is_not_answered_with_one() -> None:
    page = StopPage(can_fail=False)
    answer = page.ask("POST", f"/stops/{ID}", {"action": "error", "error": "NOT_CONTROLLER"})
    assert answer.status_code == 422
    assert "has no place for an error" in answer.json()["error"]


def test_edited_text_is_checked_while_it_is_typed(page: StopPage) -> None:
    text = page.ask("GET", f"/stops/{ID}").json()["json"]
    good = page.ask(
        "POST", "/stops/check", {"id": ID, "json": text.replace('"generationId": 3', '"generationId": 4')}
    ).json()
    assert good["changed"] == ["generationId"]
    assert json.loads(good["json"])["generationId"] == 4
    assert good["size"] == len(BODY)
    bad = page.ask("POST", "/stops/check", {"id": ID, "json": text.replace('"generationId": 3', '"generationId": "3"')})
    assert (bad.status_code, bad.json()["path"]) == (422, "generationId")
    line = text.split("\n")[bad.json()["line"] - 1]
    assert line[bad.json()["column"] - 1 :].startswith("3")
    broken = page.ask("POST", "/stops/check", {"id": ID, "json": "{\n,"}).json()
    assert (broken["line"], broken["column"]) == (2, 1)


def test_what_was_done_is_shown_as_a_rule(page: StopPage) -> None:
    answer = page.ask("POST", "/stops/rule", {"id": ID, "action": "error", "error": "REBALANCE_IN_PROGRESS"})
    assert 'error: "REBALANCE_IN_PROGRESS"' in answer.json()["yaml"]
    text = page.ask("GET", f"/stops/{ID}").json()["json"]
    refused = page.ask("POST", "/stops/rule", {"id": ID, "action": "replace", "json": text})
    assert refused.status_code == 422
    assert "no rule that changes fields" in refused.json()["error"]


def test_text_that_no_utf8_has_is_refused_and_no_fault(page: StopPage) -> None:
    for text, status in (
        ("\ud800", 400),
        ("\\ud800", 422),
    ):  # the second is an escape in the text, as the page shows it
        answer = page.ask("POST", "/stops/check", {"id": ID, "json": f'{{"groupId": "{text}"}}'})
        assert answer.status_code == status


def test_a_request_is_not_read_without_bound(page: StopPage) -> None:
    answer = page.client.request(
        "POST", f"/page/api/stops/{ID}", headers={"x-kproxy-token": TOKEN}, content=b" " * (33 << 20)
    )
    assert answer.status_code == 413


def test_a_request_of_another_shape_is_refused_without_being_made(page: StopPage) -> None:
    """As objects of Python it would take a gigabyte."""
    content = b'{"id": "a", "json": [' + b"[]," * (10 << 20) + b"[]]}"
    tracemalloc.start()
    try:
        answer = page.client.request(
            "POST", f"/page/api/stops/{ID}", headers={"x-kproxy-token": TOKEN}, content=content
        )
        assert answer.status_code == 400
        assert "Expected `str | null`, got `array`" in answer.json()["error"]
        assert tracemalloc.get_traced_memory()[1] < 6 * len(content)
    finally:
        tracemalloc.stop()
