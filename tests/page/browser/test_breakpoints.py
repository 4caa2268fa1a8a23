"""Breakpoints in Chromium before a real broker: a person stops, edits and answers what librdkafka and Kafka's own client send."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from selenium.webdriver.common.keys import Keys

from tests.page.browser.breaking import BreakpointsPage
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.wire import end_offsets
from tests.support.stopping import PRODUCE, Stopping, stopping

pytestmark = pytest.mark.parametrize("single", [NEWEST], indirect=True)
VALUE = "topicData[0].partitionData[0].records[0].records[0].value"
Starts = Callable[..., tuple[Stopping, BreakpointsPage]]


@pytest.fixture
def start(driver: Any, single: Cluster, tmp_path: Path, topic_name: str) -> Iterator[Starts]:
    """Starts a proxy that allows breakpoints, and opens its page; see Stopping."""
    with ExitStack() as started:

        def begin(**more: Any) -> tuple[Stopping, BreakpointsPage]:
            scene = started.enter_context(stopping(single, tmp_path / "proxy", topic_name, **more))
            return scene, BreakpointsPage(driver, scene)

        yield begin
        driver.get("about:blank")


def test_a_person_stops_edits_and_answers_messages_in_the_page(start: Starts, tmp_path: Path) -> None:
    audit = {"use": "audit", "with": {"file": {"path": str(tmp_path / "audit.jsonl")}}}
    scene, page = start(filters=(audit,))
    page.condition().send_keys('api == "Produce" && topixs == []')
    page.until(lambda: "Column 21: nothing is called 'topixs'" in page.texts("#filter-said")[0], "what is wrong")
    page.add(f'{PRODUCE} && "{scene.topic}" in topics')
    report = scene.produce(b"as the client wrote it")
    assert page.rows()[0].startswith("Produce v")

    page.press(Keys.ESCAPE)  # leaves the line
    page.until(lambda: page.run("return document.activeElement.localName") == "button", "the row has the focus")
    page.press("4")  # another view: the number is there as well
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
    assert [one for one in page.complaints() if "422" not in one] == []
