"""One exchange, whole."""

import base64

from kproxy.page.detail import detail_of
from tests.page.asking import opened
from tests.page.test_recorded import ORDERS, decoded


def test_an_exchange() -> None:
    lines = decoded(ORDERS)
    with opened(ORDERS) as store:
        every = [detail_of(store, number) for number in range(len(lines) + 2)]
    assert (every[0], every[-1]) == (None, None)
    for line, found in zip(lines, every[1:-1], strict=True):
        assert found is not None
        assert found["row"]["apiName"] == line["apiName"]
        for side in ("request", "response"):
            if line[f"{side}Size"] is not None:
                assert len(base64.b64decode(found[side]["bytes"])) == found[side]["size"] == line[f"{side}Size"]
        assert [error["code"] for error in found["errors"]] == list(dict.fromkeys(e["code"] for e in line["errors"]))
