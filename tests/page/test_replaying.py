"""Replay from the page, before a broker that answers with the recorded bytes."""

import asyncio
from typing import Any

from kproxy.page.server import page_app
from kproxy.protocol import ApiKey
from tests.page.asking import HERE, TOKEN, Browser, opened
from tests.support.ports import free_ports
from tests.support.replayed import RecordedBroker, before, capture, recorded

HEADERS = {"x-kproxy-token": TOKEN, "origin": HERE}


def test_a_plan_is_shown_and_sent_once() -> None:
    async def work() -> None:
        broker = RecordedBroker(recorded(1))
        with opened(capture(1)) as store:
            browser = Browser(page_app(store, TOKEN))
            await asyncio.to_thread(browser.get, "/", params={"token": TOKEN})

            async def post(path: str, body: Any) -> tuple[int, Any]:
                answer = await asyncio.to_thread(browser.post, f"/page/api/{path}", json=body, headers=HEADERS)
                return answer.status_code, answer.json()

            async with before(broker) as cluster:
                broker.asked.clear()
                wanted = {"to": f"127.0.0.1:{cluster.bootstrap.port}", "speed": "max"}
                status, shown = await post("replay/plan", wanted)
                assert status == 200 and "Nothing was sent" in shown["text"]
                assert [api for api, _ in broker.asked] == [ApiKey.API_VERSIONS, ApiKey.METADATA]
                status, done = await post("replay", {"plan": shown["plan"]})
                assert (status, done["differs"], done["interrupted"]) == (200, False, False)
                assert ApiKey.PRODUCE in {api for api, _ in broker.asked}
                status, refused = await post("replay", {"plan": shown["plan"]})
                assert status == 400 and "show the plan first" in refused["error"]
            status, refused = await post("replay/plan", {"to": f"127.0.0.1:{free_ports(1)}"})
            assert status == 400 and "refused" in refused["error"].lower()
            status, refused = await post("replay/plan", {"to": "h:1", "filter": "apiName ="})
            assert status == 400
            assert (await post("replay/plan", {"where": 1}))[0] == 400
            without = await asyncio.to_thread(browser.post, "/page/api/replay/plan", json=wanted)
            assert without.status_code == 403, "no token in a header"

    asyncio.run(work())
