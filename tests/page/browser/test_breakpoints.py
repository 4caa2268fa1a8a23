"""Breakpoints in Chromium before a real broker: stop, edit and answer messages of librdkafka and Kafka's own client."""

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from selenium.webdriver.common.keys import Keys

from tests.page.browser.breaking import BreakpointsPage
from tests.page.browser.driving import NARROW, WIDE
from tests.page.browser.test_accessibility import axe, looks_right
from tests.page.browser.test_hostile import shows_text_only, unseen
from tests.support.frames import request
from tests.support.hostile_names import exchanges_of, hostile_names
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.jars import NEWEST
from tests.support.messages import make, request_frame
from tests.support.sockets import address, end_offsets
from tests.support.stopping import PRODUCE, Stopping, stopping

__all__ = ["axe"]

pytestmark = pytest.mark.parametrize("single", [NEWEST], indirect=True)
VALUE = "topicData[0].partitionData[0].records[0].records[0].value"
Starts = Callable[..., tuple[Stopping, BreakpointsPage]]


@pytest.fixture
def start(driver: Any, single: Cluster, tmp_path: Path, topic_name: str) -> Iterator[Starts]:
    """Start proxies that allow breakpoints, and open their page; see Stopping."""
    with ExitStack() as started:

        def begin(**more: Any) -> tuple[Stopping, BreakpointsPage]:
            scene = started.enter_context(stopping(single, tmp_path / "proxy", topic_name, **more))
            return scene, BreakpointsPage(driver, scene)

        yield begin
        driver.get("about:blank")


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    """Close the sockets that are entered into it."""
    with ExitStack() as opened:
        yield opened


def outside(page: BreakpointsPage, selector: str) -> list[str]:
    """Return the texts of elements that are partly outside of the window."""
    page.drawn()
    script = """const isIn = ({left, right}) => left >= 0 && right <= document.documentElement.clientWidth;
        const found = [...document.querySelectorAll(arguments[0])].filter((one) => !isIn(one.getBoundingClientRect()));
        return found.map((one) => one.textContent)"""
    found: list[str] = page.run(script, selector)
    return found


@pytest.mark.slow
def test_a_person_stops_edits_and_answers_messages_in_the_page(start: Starts, tmp_path: Path) -> None:
    audit = {"use": "audit", "with": {"file": {"path": str(tmp_path / "audit.jsonl")}}}
    scene, page = start(filters=(audit,))
    page.condition().send_keys('apiName == "Produce" && topixs == []')
    page.until(lambda: "Column 25: nothing is called 'topixs'" in page.texts("#filter-said")[0], "what is wrong")
    page.size(NARROW)
    assert outside(page, "#bar nav a") == []
    page.size(WIDE)
    page.add(f'{PRODUCE} && "{scene.topic}" in topics')
    report = scene.produce(b"as the client wrote it")
    assert page.rows()[0].startswith("Produce v")

    page.press(Keys.ESCAPE)  # leave the line
    page.until(lambda: page.run("return document.activeElement.localName") == "button", "the row has the focus")
    page.press("4")  # other views show the number as well
    page.until(lambda: page.texts(".stopped-count") == ["1 stopped"], "the notice")
    assert page.run("return document.title") == "(1 stopped) Groups · kproxy"
    page.one(".stopped-count a").click()
    page.open(page.rows()[0])
    came = page.text
    page.edit(came.replace('"as the client wrote it"', "7"))
    page.said("Line ")
    page.edit(came.replace("as the client wrote it", "as the person wrote it, which is longer"))
    assert VALUE in page.said("Changed: ")
    page.press(Keys.CONTROL + Keys.ENTER)
    page.done("was sent as edited")
    assert report.result(60) is None
    assert scene.values(1, **{"check.crcs": True}) == [b"as the person wrote it, which is longer"]
    assert "no rule that changes fields" in page.done("It cannot be kept as a rule")

    report = scene.produce(b"answered", retries=0)
    page.open(page.rows()[0])
    page.press(Keys.ESCAPE, "e")
    page.until(lambda: page.all("#errors li"), "the errors")
    page.press("topic auth", Keys.ENTER)
    rule = page.done("was answered with TOPIC_AUTHORIZATION_FAILED")
    assert report.result(60).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert 'error: "TOPIC_AUTHORIZATION_FAILED"' in rule
    edits = [json.loads(one) for one in (tmp_path / "audit-0.jsonl").read_text(encoding="ascii").splitlines()]
    assert [(one["action"], one["changed"]) for one in edits if one["event"] == "edit"] == [
        ("replace", [VALUE]),
        ("error", []),
    ]
    assert end_offsets(scene.broker.open, scene.topic) == {0: 1}
    page.show()  # the table marks both, and one click selects them
    marked = "return [...document.querySelectorAll('.pane .edited .api')].map((one) => one.textContent)"
    page.until(lambda: page.run(marked) == ["Produce", "Produce"], "marked")
    titles = "return [...document.querySelectorAll('.pane .edited')].map((one) => one.title)"
    assert page.run(titles) == ["request changed by breakpoints", "answered by breakpoints"]
    assert max(page.run("return [...document.querySelectorAll('.pane .edited')].map((one) => one.offsetHeight)")) < 30
    page.run("[...document.querySelectorAll('.bar button')].find((one) => one.textContent === 'Edited').click()")
    page.until(lambda: "".join(page.texts(".total")).startswith("2 exchanges of"), "only these")
    assert page.complaints() == []


@pytest.mark.long
def test_a_message_is_held_while_it_is_open(start: Starts) -> None:
    scene, page = start(page={"hold": 8})
    page.add(PRODUCE)
    report = scene.produce(b"looked at")
    page.open(page.rows()[0])
    page.until(lambda: "held while it is open" in "".join(page.texts(".stop .time span")), "said")
    began = scene.person.stops()[0]["stoppedMs"]
    page.until(lambda: time.time() * 1_000 > began + 9_000, "its time would be over")
    assert not report.done()
    page.click("Resume")
    assert report.result(60) is None


@pytest.mark.long
def test_keys_mean_the_chosen_message_or_none(start: Starts) -> None:
    """The second message is open, the first one chosen. When another user resumes the first, no key acts on the second."""
    scene, page = start()
    page.add(PRODUCE)
    first = scene.produce(b"first")
    page.rows()
    second = scene.produce(b"second")
    page.rows(2)
    page.all(".stops .name")[1].send_keys(Keys.ENTER)
    page.until(lambda: page.all("section.stop textarea"), "the text of the second")
    page.press(Keys.ESCAPE, "k")  # to the list, and to the first
    scene.person.decide(scene.person.stops(2)[0], "resume")
    assert first.result(60) is None
    page.until(lambda: page.all(".stops li.ended.chosen"), "the first has gone on, and is chosen still")
    page.press("D", "X", "e")
    assert page.all("#errors li") == []
    page.press("j", "r")
    assert "went on as it came" in page.done("Produce")
    assert len(page.texts(".done > *")) == 1
    assert second.result(60) is None
    assert scene.values(2) == [b"first", b"second"]


@pytest.mark.long
def test_an_edit_that_was_not_sent_is_kept_until_its_stop_is_over_and_shown_then(start: Starts) -> None:
    """An edit survives other views, another user's decision, and the end of the client's connection."""
    scene, page = start()
    page.add(PRODUCE)
    report = scene.produce(b"as the client wrote it", retries=0)
    page.open(page.rows()[0])
    edited = page.text.replace("as the client wrote it", "as I wrote it")
    page.edit(edited)
    page.said("Changed: ")
    page.press(Keys.ESCAPE, "4", "7")  # another view, and back
    page.open(page.rows()[0])
    assert page.text == edited
    page.said("Changed: ")
    scene.person.decide(scene.person.stops()[0], "error", error="INVALID_RECORD")
    assert report.result(60).code() == KafkaError.INVALID_RECORD
    status = page.until(lambda: "".join(page.texts("section.stop [role=status]")), "that it is over")
    assert re.search(
        r"not stopped any more: 127\.0\.0\.1:\d+ answered it with an error\. What is below was not sent", status
    )
    assert page.text == edited
    assert page.one("section.stop textarea").get_attribute("readonly")
    assert "as I wrote it" in page.done("answered it with an error")

    page.add('clientId == "leaving"')
    with socket.create_connection(address(scene.proxy.bootstrap()), 60) as leaving:
        leaving.sendall(request(18, 0, 1, b"", client_id="leaving"))
        page.rows()
    assert "the client closed the connection" in page.done("leaving")


@pytest.mark.long
def test_another_configuration_takes_the_view_away_and_gives_it_back(start: Starts) -> None:
    scene, page = start()
    page.add(PRODUCE)
    report = scene.produce(b"let go")
    page.rows()
    scene.proxy.config["timeouts"] = {"idle": 600}
    scene.proxy.write()
    scene.logged("the configuration was taken")
    page.rows()  # it still waits
    scene.proxy.config["page"] = {}
    scene.proxy.write()
    assert report.result(60) is None
    page.until(lambda: "Breakpoints" not in page.texts("nav a"), "the view has gone")
    page.until(lambda: "the configuration has changed" in "".join(page.texts("#view .warning")), "why")
    assert page.texts("#view pre") == ["page:\n  edits: true"], "how they are allowed"
    page.show("breakpoints")
    assert page.texts("#view pre") == ["page:\n  edits: true"]
    scene.proxy.config["page"] = {"edits": True}
    scene.proxy.write()

    def is_back() -> bool:
        page.show("breakpoints")
        return "Breakpoints" in page.texts("nav a") and page.texts(".breakpoints li") == [
            "None is set: all messages pass."
        ]

    page.until(is_back, "the view is back, and nothing set")


@pytest.mark.long
def test_an_exchange_of_the_table_becomes_the_breakpoint_that_stops_its_like(start: Starts) -> None:
    scene, page = start()
    assert scene.produce(b"first", **{"client.id": "payer"}).result(60) is None
    page.show("exchanges", filter='apiName == "Produce"')
    page.until(lambda: page.texts(".pane .row[data-number]"), "the exchange")
    page.one(".pane .row[data-number]").click()
    page.press("b")
    page.until(lambda: page.all(".choices-of-stops button"), "what may be stopped")
    assert page.texts(".choices-of-stops button")[:3] == [
        "Stop Produce of client payer",
        "Stop all of client payer",
        "Stop all Produce",
    ]
    page.press(Keys.ENTER)
    page.until(lambda: len(page.all(".breakpoints .kind")) == 1, "it is set")
    assert page.texts(".breakpoints code") == ['apiName == "Produce" && clientId == "payer"']
    other = scene.produce(b"of another")
    assert other.result(60) is None
    stopped = scene.produce(b"second", **{"client.id": "payer"})
    page.rows()
    page.click("Resume")
    assert stopped.result(60) is None


@pytest.mark.long
def test_every_state_of_the_view_passes_axe_and_names_are_text(start: Starts, sockets: ExitStack, axe: str) -> None:
    scene, page = start(page={"hold": 300})
    page.condition().send_keys("topixs == []")
    page.until(lambda: "nothing is called 'topixs'" in page.texts("#filter-said")[0], "what is wrong")
    assert looks_right(page, axe) == [], "a mistake in a condition"
    page.add("topics.all(a, topics.exists(b, b == a))")
    asked = sockets.enter_context(socket.create_connection(address(scene.proxy.bootstrap()), 60))
    topics = [{"name": f"none-{number}"} for number in range(1_000)]
    body = make("MetadataRequest", topics=topics, allow_auto_topic_creation=False)
    asked.sendall(request_frame("MetadataRequest", 12, body))
    page.until(lambda: "go through the 1,000 items" in "".join(page.texts(".breakpoints .warning")), "it is given up")
    assert int.from_bytes(asked.recv(8, socket.MSG_WAITALL)[:4], "big") > 1_000, "traffic goes on"
    assert looks_right(page, axe) == [], "a breakpoint that was given up"
    page.click("Remove")
    page.until(lambda: not page.all(".breakpoints .kind"), "it is removed")
    page.add("true")
    names = [name for name in hostile_names(11, 60) if len(name) < 2_000]
    for frame in (frame for name in names[:25] for is_request, frame in exchanges_of(name) if is_request):
        sockets.enter_context(socket.create_connection(address(scene.proxy.bootstrap()), 60)).sendall(frame)
    page.until(lambda: len(page.all(".stops li")) > 50, "stops")
    heights = """return [...document.querySelectorAll(".stops li")].map(
        (one) => [one.querySelector(".name").textContent, one.getBoundingClientRect().height])"""
    for width in (WIDE, NARROW):
        page.size(width)
        page.drawn()
        found = {tuple(one) for one in page.run(heights)}
        assert len(found) == len({title for title, _ in found}), "no name of a client makes a row higher"
        shows_text_only(page)
    assert looks_right(page, axe) == []
    titles = page.texts(".stops .name")
    for at in range(0, len(titles), 7):
        page.run("document.querySelectorAll('.stops .name')[arguments[0]].click()", at)
        page.until(lambda at=at: any(titles[at] in one for one in page.texts("section.stop h2")), "open")  # type: ignore[misc]
        page.until(lambda: page.all("section.stop textarea"), "its text")
        assert unseen(page.text.replace("\n", "")) == set()
        shows_text_only(page)
    assert looks_right(page, axe) == [], "an open stop"
    page.edit(page.text + "x")
    page.said("Line ")
    assert looks_right(page, axe) == [], "a mistake in the text"
    page.click("Undo the edit")
    page.said("As it came")
    page.press(Keys.ESCAPE, "e")
    page.until(lambda: page.all("#errors li"), "the errors")
    assert looks_right(page, axe) == [], "the choice of an error"
    page.press("unknown", Keys.ENTER)
    page.done("was answered with")
    page.press("D")  # the next one
    page.done("was dropped")
    assert looks_right(page, axe) == [], "what was done"
