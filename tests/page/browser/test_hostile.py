"""Names that try to run as code, or to reorder, hide or break the text around them, are plain text in Chromium."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.page.asking import decoded
from tests.page.browser.driving import NARROW, WIDE, Page, opened
from tests.page.browser.test_exchanges import ROWS, title
from tests.support.canaries import Scene, capture
from tests.support.hostile_names import EXCHANGES, hostile_names, produced, scenes_of
from tests.support.sampled import sampled

pytestmark = pytest.mark.xdist_group("page-browser")
SEED = 20_261_123
FEW, MANY = 40, 10_000
OURS = "/page/static/"
# Handlers of events, markers of lit, letters from right to left, marks that pile up: more than hostile_names has
TEXTS = [
    "<img src=x onerror=alert(1)>", "<svg onload=alert(1)>", "</textarea><script>alert(1)</script>",
    '" onmouseover="alert(1)" x="', "' autofocus onfocus=alert(1) '", "</title></svg><iframe src=//evil>",
    "${alert(1)}", "{{constructor.constructor('alert(1)')()}}", "<?lit$1$>", "<!--?lit$-->", "</style><style>*{}",
    "שלום", "مرحبا", "אבג 123", "\u202eabc", "\u2067x", "\u2069\u2069", "\u200f", "e" + "\u0301" * 40, "漢字", "\u3164\u00a0",
]  # fmt: skip
AUDIT = Path(__file__).with_name("audit.js").read_text(encoding="utf-8")

# Scroll through the table for some seconds; returns the heights, tags and characters of all rows
WALK = """
const done = arguments[arguments.length - 1];
const begun = performance.now();
const scroller = document.querySelector(".table.scroller");
const frame = () => new Promise(requestAnimationFrame);
const tags = new Set(), heights = new Set(), numbers = new Set(), characters = new Set();
const look = () => {
  for (const row of scroller.querySelectorAll(".pane [data-number]")) {
    numbers.add(row.dataset.number);
    for (const one of row.textContent) characters.add(one);
    heights.add(row.getBoundingClientRect().height);
    for (const one of row.querySelectorAll("*")) {
      tags.add(one.localName);
      const [inside, around] = [one.getBoundingClientRect(), row.getBoundingClientRect()];
      if (one.localName === "span" && (inside.top < around.top - 1 || inside.bottom > around.bottom + 1)) heights.add("outside");
      if (one.localName === "bdi" && getComputedStyle(one).unicodeBidi !== "isolate") tags.add("not isolated");
    }
  }
};
(async () => {
  let still = 0;
  for (let before = -1; still < 3 && performance.now() - begun < 5000; ) {
    await frame(); await frame();
    if (scroller.querySelector(".waiting")) continue;
    look();
    before = scroller.scrollTop;
    scroller.scrollTop += scroller.clientHeight - 80;
    still = scroller.scrollTop === before ? still + 1 : 0;
  }
  done({ ended: still >= 3, numbers: [...numbers], tags: [...tags], heights: [...heights], text: [...characters].join("") });
})();
"""


# All characters of the page, without those that isolate names in tooltips
CHARACTERS = r"""const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), seen = new Set();
const isolated = (text) => text.replace(/\u2068([^\u2068\u2069]*)\u2069/g, "$1");
while (texts.nextNode()) {
  const { data, parentElement } = texts.currentNode;
  for (const one of parentElement.closest("svg title") ? isolated(parentElement.textContent) : data) seen.add(one);
}
return [...seen].join("")"""


def written(folder: Path, count: int) -> Path:
    """Write a capture with that many names, and TEXTS."""
    file = folder / "names.pcap"
    file.write_bytes(capture(scenes_of([*hostile_names(SEED, count), *(text.encode() for text in TEXTS)])))
    return file


@pytest.fixture(scope="module")
def capture_of_few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("few"), FEW)


@pytest.fixture(scope="module")
def hostile(driver: Any, capture_of_few: Path) -> Iterator[Page]:
    with opened(capture_of_few) as address:
        yield Page(driver, address)


def unseen(text: str) -> set[str]:
    """Return the characters of a text that kproxy escapes on terminals: the page may contain none."""
    return {character for character in set(text) if not character.isprintable()}


def shows_text_only(page: Page) -> None:
    """Assert that no name made an element, broke the security policy, or is drawn outside of its place."""
    active = "script, img, iframe, object, embed, form, base, style"
    made = page.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.src)", active)
    assert [one for one in made if OURS not in str(one)] == []
    links = page.run("return [...document.querySelectorAll('a[href]')].map((one) => one.getAttribute('href'))")
    assert [link for link in links if not link.startswith(("#", "page/", "https://"))] == []
    characters = page.run(CHARACTERS)
    assert unseen(characters.replace("\n", "")) == set()
    assert page.complaints() == []
    assert page.run(f"{AUDIT} return look()") == []


def walk(page: Page) -> int:
    """Scroll through the whole table; return how many rows it has."""
    page.show()
    page.one(f"{ROWS}[data-number]")
    numbers: set[str] = set()
    heights: set[int] = set()
    ended = False
    while not ended:
        seen = page.driver.execute_async_script(WALK)
        ended = seen["ended"]
        numbers.update(seen["numbers"])
        assert set(seen["tags"]) <= {"span", "bdi"}
        heights.update(seen["heights"])
        assert unseen(seen["text"]) == set()
    assert len(heights) == 1  # no name makes a row higher
    shows_text_only(page)
    return len(numbers)


@pytest.mark.parametrize("width", sampled([WIDE, NARROW], [WIDE]))
def test_the_table_of_exchanges(hostile: Page, width: int) -> None:
    hostile.size(width)
    seen = walk(hostile)
    assert f"{seen} exchanges" == hostile.texts(".total")[0]
    assert seen > FEW * 5


@pytest.mark.slow
def test_one_exchange_after_the_other(hostile: Page) -> None:
    hostile.size(WIDE)
    hostile.show(at="60")
    height = "return [...document.querySelectorAll('.tree .row')].map((one) => one.getBoundingClientRect().height)"
    for number in range(60, 60 + 2 * EXCHANGES):
        hostile.until(lambda at=number: title(hostile).startswith(f"#{at} "), "open")  # type: ignore[misc]
        assert set(hostile.run(height)) <= {22}
        hostile.press("]")
    shows_text_only(hostile)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("view", "width"), [("map", NARROW), ("time", WIDE), ("groups", WIDE), ("clients", NARROW), ("findings", WIDE)]
)
def test_the_other_views(hostile: Page, view: str, width: int) -> None:
    hostile.size(width)
    hostile.show(view, **({"by": "client"} if view == "time" else {}))
    assert hostile.all("main bdi") or view == "map"
    shows_text_only(hostile)
    for selector in (".finding summary", "svg.map .node", "[aria-label=Clients] td button", "main button.plain"):
        found = "const found = [...document.querySelectorAll(arguments[0])].slice(0, 12).at(-1);"
        hostile.run(f"{found} found?.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))", selector)
        hostile.drawn()
        shows_text_only(hostile)
    hostile.size(WIDE)


# Returns the words of a sentence in their order on the screen, from left to right
PLACES = """
const [text, done] = arguments;
Promise.all([import("/page/static/text.js"), import("/page/static/lit-html.js")]).then(([{ sentence }, { render }]) => {
  const place = document.body.appendChild(document.createElement("p"));
  place.style.whiteSpace = "nowrap";
  render(sentence(text), place);
  const left = (word) => {
    const texts = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    for (let one = texts.nextNode(); one; one = texts.nextNode()) {
      if (!one.data.includes(word)) continue;
      const range = document.createRange();
      range.setStart(one, one.data.indexOf(word));
      range.setEnd(one, one.data.indexOf(word) + word.length);
      return range.getBoundingClientRect().left;
    }
    return null;
  };
  const words = text.match(/[\\p{L}\\d]+/gu);
  const places = words.map((word) => [left(word), word]);
  place.remove();
  done(places.sort((a, b) => a[0] - b[0]).map(([, word]) => word).join(" "));
});
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "Produce of \u05d0\u05d1\u05d2, 3 times in 9 requests",
        "\u05d0\u05d1\u05d2, 3 times; then \u0627\u0644\u0641: 7 of \u05d3\u05d4\u05d5, 8 at last",
    ],
)
def test_a_name_from_right_to_left_leaves_the_words_around_it_in_their_order(hostile: Page, text: str) -> None:
    hostile.show("findings")
    words = hostile.driver.execute_async_script(PLACES, text)
    assert words == " ".join(re.findall(r"\w+", text))


@pytest.mark.slow
def test_two_exchanges_compared_and_a_selection_taken_out(hostile: Page) -> None:
    hostile.size(NARROW)
    hostile.show()
    hostile.one(f"{ROWS}[data-number]")
    hostile.one(".table.scroller").send_keys(*"j" * 9, "c", *"j" * EXCHANGES, "c")
    hostile.until(lambda: hostile.all("dialog[open] .differ td"), "differences")
    shows_text_only(hostile)
    hostile.press(Keys.ESCAPE)
    hostile.show(filter='clientId != "\x1b[2J\u202e<img src=x onerror=alert(1)>"')
    hostile.one(f"{ROWS}[data-number]")
    hostile.one(".table.scroller").send_keys("e")
    hostile.until(lambda: hostile.texts("dialog pre.command"), "the command")
    shows_text_only(hostile)
    hostile.press(Keys.ESCAPE)


@pytest.mark.slow
@pytest.mark.parametrize("count", [10, pytest.param(4 * FEW, marks=pytest.mark.long)])
def test_records_and_messages_of_errors(driver: Any, tmp_path: Path, count: int) -> None:
    names = [name for name in hostile_names(SEED, count) if name and len(name) < 32_000]
    file = tmp_path / "records.pcap"
    file.write_bytes(capture([Scene("records", [step for name in names for step in produced(name)])]))
    with opened(file, options=["--records"]) as address:
        page = Page(driver, address)
        page.show(at="1")
        for number in range(1, len(names) + 1):
            page.until(lambda at=number: title(page).startswith(f"#{at} Produce"), "open")  # type: ignore[misc]
            page.one("#tab-records").click()
            page.until(lambda: page.all("#part td bdi"), "records")
            shows_text_only(page)
            if number < len(names):
                page.press("]")
        page.one("#tab-text").click()
        page.until(lambda: page.all("#part pre"), "as text")
        shows_text_only(page)


INSIDE = ("__proto__", "<img src=x onerror=alert(1)>", "\u202e\x1b[2J", "9" * 40)
KNOWN = {
    "exchanges": ("filter", "sort", "at", "columns"),
    "map": ("topic", "filter"),
    "time": ("measure", "__proto__"),
    "groups": ("group",),
    "clients": ("client",),
    "findings": ("open",),
    "breakpoints": ("condition", "direction"),
    "__proto__": ("__proto__",),
    "constructor": ("prototype",),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "view", ["exchanges", *(pytest.param(view, marks=pytest.mark.long) for view in list(KNOWN)[1:])]
)
def test_a_link_with_anything_in_it_runs_nothing_and_does_nothing(hostile: Page, view: str) -> None:
    hostile.size(WIDE)
    before = hostile.run("return JSON.stringify([Object.keys(localStorage), document.cookie])")
    for hostile_text in INSIDE:
        hostile.show(view, **dict.fromkeys([*KNOWN[view], "__proto__"], hostile_text))
        assert hostile.texts("#view")[0], "it says what is wrong"
        wrong = [one for one in hostile.complaints() if "404 (Not Found)" not in one]
        assert wrong == [], hostile_text
        shows_text_only(hostile)
        assert hostile.run("return [{}.polluted, Object.keys(Object.prototype).length, {}.view]") == [None, 0, None]
    assert hostile.run("return JSON.stringify([Object.keys(localStorage), document.cookie])") == before


@pytest.mark.parametrize("at", sampled([60, 74, 95, 130], [95]))
def test_a_name_becomes_a_literal_of_the_filter(hostile: Page, capture_of_few: Path, at: int) -> None:
    """A click writes a filter that finds exactly the exchanges of this client."""
    clients = [line["clientId"] for line in decoded(capture_of_few)]
    expected = clients.count(clients[at - 1])
    assert 0 < expected < len(clients)
    hostile.size(WIDE)
    hostile.show(at=str(at))
    hostile.until(lambda: title(hostile).startswith(f"#{at} "), "open")
    hostile.driver.find_element(By.XPATH, "//button[text()='Only this client']").click()
    hostile.until(lambda: hostile.texts(".total")[0].startswith(f"{expected} exchange"), "its exchanges")
    assert hostile.all(".filter mark") == []


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_ten_thousand_of_them(driver: Any, tmp_path: Path) -> None:
    with opened(written(tmp_path, MANY), patience=900) as address:
        page = Page(driver, address)
        assert walk(page) > MANY * 5
