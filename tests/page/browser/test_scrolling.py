"""A million exchanges in Chromium: each one can be scrolled to, small steps stay small, and the page's memory is bounded."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest
from selenium.webdriver.common.keys import Keys

from kproxy.cli import main
from tests.page.browser.driving import WIDE, Page, measured, opened
from tests.page.browser.test_exchanges import ROWS
from tests.support.corpus import CAPTURES

pytestmark = [pytest.mark.xdist_group("page-browser"), pytest.mark.long, pytest.mark.timeout(1200)]
CAPTURE = CAPTURES / "03-classic-rebalance-range.pcap"
MANY = 1_000_000
MOST_HEAP = 200 << 20  # bytes, the page's heap
NUMBERS = "return [...document.querySelectorAll('.table .pane [data-number]')].map((one) => Number(one.dataset.number))"

# Scroll to a share of the whole height; returns the numbers of the rows shown there, and how many milliseconds it took
JUMP = """
const [share, done] = arguments;
const scroller = document.querySelector(".table.scroller");
const began = performance.now();
scroller.scrollTop = share * (scroller.scrollHeight - scroller.clientHeight);
const look = () => {
  const rows = [...scroller.querySelectorAll(".pane [role=row]")];
  if (rows.length < 10 || scroller.querySelector(".waiting")) return requestAnimationFrame(look);
  done({ took: performance.now() - began, numbers: rows.map((one) => Number(one.dataset.number)) });
};
requestAnimationFrame(() => requestAnimationFrame(look));
"""


def multiplied(folder: Path) -> Path:
    """Write tables with a million exchanges, copies of a capture's, with their numbers as correlation ids."""
    tables = folder / "tables"
    with pytest.raises(SystemExit) as ended:
        main(["decode", "-q", "--format", "parquet", "-o", str(tables), str(CAPTURE)])
    assert not ended.value.code
    (file,) = (tables / "exchanges").glob("*.parquet")
    few = file.rename(folder / "few.parquet")
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE few AS SELECT * FROM '{few}'")
        ((size,),) = database.execute("SELECT count(*) FROM few").fetchall()
        database.execute(
            f"COPY (SELECT * EXCLUDE turn REPLACE (turn * {size} + row_number() OVER (PARTITION BY turn) AS correlation_id)"
            f" FROM few, range({-(-MANY // size)}) AS turns(turn) ORDER BY correlation_id LIMIT {MANY})"
            f" TO '{file}' (FORMAT parquet)"
        )
    return tables


@pytest.fixture(scope="module")
def million(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with opened(multiplied(tmp_path_factory.mktemp("tables")), patience=600) as address:
        page = Page(driver, address)
        page.size(WIDE)
        yield page


def test_anywhere(million: Page) -> None:
    million.show()
    million.one(f"{ROWS}[data-number]")
    assert million.texts(".total") == [f"{MANY:,} exchanges"]
    took = []
    for share in (0.5, 0.001, 0.999, 0.25, 0.75, 0.1234, 1, 0):
        seen = million.driver.execute_async_script(JUMP, share)
        took.append(round(seen["took"]))
        numbers = seen["numbers"]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert abs((numbers[0] - 1) / (MANY - len(numbers)) - share) < 0.001
    print("milliseconds from a scroll to its rows:", took)


# Drag the scroll bar to a share of its way in 60 frames; returns the numbers of the rows there, and the times of requests
DRAG = """
const [share, done] = arguments;
const scroller = document.querySelector(".table.scroller");
const far = () => scroller.scrollHeight - scroller.clientHeight;
performance.clearResourceTimings();
let frames = 60;
const move = () => {
  scroller.scrollTop = far() * (share + (0.9 - share) * frames / 60);
  if (frames-- > 0) return requestAnimationFrame(move);
  requestAnimationFrame(() => requestAnimationFrame(look));
};
const look = () => {
  const rows = [...scroller.querySelectorAll(".pane [role=row]")];
  if (rows.length < 10 || scroller.querySelector(".waiting")) return requestAnimationFrame(look);
  const asked = performance.getEntriesByType("resource").filter((one) => one.name.includes("/exchanges?"));
  done({ numbers: rows.map((one) => Number(one.dataset.number)), asked: asked.map((one) => [one.startTime, one.responseEnd]) });
};
move();
"""


@pytest.mark.parametrize("sort", ["", "-correlationId"])
def test_who_drags_asks_one_question_at_a_time_and_sees_the_end(million: Page, sort: str) -> None:
    million.show(**({"sort": sort} if sort else {}))
    million.one(f"{ROWS}[data-number]")
    for share in (0.2, 0.6):
        seen = million.driver.execute_async_script(DRAG, share)
        numbers, asked = seen["numbers"], sorted(seen["asked"])
        expected = range(numbers[0], numbers[0] + (-len(numbers) if sort else len(numbers)), -1 if sort else 1)
        assert numbers == list(expected)
        at = MANY - numbers[0] if sort else numbers[0] - 1
        assert abs(at / (MANY - len(numbers)) - share) < 0.001
        assert 1 <= len(asked) < 60
        assert all(next_begins >= ended for (_, ended), (next_begins, _) in pairwise(asked))


def test_held_page_down_passes_no_row_over(million: Page) -> None:
    million.show()
    million.one(f"{ROWS}[data-number]")
    page = len(million.run(NUMBERS))
    for _ in range(40):
        million.press(Keys.PAGE_DOWN)
    chosen = "return Number(document.querySelector('.pane [aria-selected=true]')?.dataset.number ?? 0)"
    steps = [1 + 40 * rows for rows in range(page - 3, page + 1)]  # forty pages of one size
    million.until(lambda: million.run(chosen) in steps, "there, when the last one is drawn")
    numbers = million.run(NUMBERS)
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_small_steps_are_small(million: Page) -> None:
    million.show()
    million.driver.execute_async_script(JUMP, 0.5)
    before = million.run(NUMBERS)[0]
    million.run("document.querySelector('.table.scroller').scrollTop += 240")
    million.until(lambda: million.run(NUMBERS)[:1] == [before + 10], "ten rows on")


def test_the_keyboard_reaches_both_ends(million: Page) -> None:
    million.show()
    million.one(f"{ROWS}[data-number]")
    million.one(".table.scroller").send_keys(Keys.END)
    million.until(lambda: million.run(NUMBERS)[-1:] == [MANY], "the last")
    million.press(Keys.ARROW_UP, Keys.ENTER)
    million.until(lambda: "".join(million.texts(".detail h2")).startswith(f"#{MANY - 1} "), "the last but one is open")
    million.press(Keys.ESCAPE, Keys.HOME)
    million.until(lambda: million.run(NUMBERS)[:1] == [1], "the first")


def test_the_page_keeps_little(million: Page) -> None:
    million.show()
    for share in range(1, 100):
        million.driver.execute_async_script(JUMP, share / 100)
    heap = measured(million)["JSHeapUsedSize"]
    print(f"heap of the page: {heap / 1e6:.0f} MB")
    assert heap < MOST_HEAP
