"""Ten thousand hostile names in each place of the page except the table of exchanges: `-m long`, some minutes.

What is in one exchange comes from captures whose messages have hundreds of names. Charts and lists show some dozens at once:
there the server's answers about a few plain names are answered again and again, each time with other names in their place.
"""

import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from struct import pack
from typing import Any
from urllib.parse import urlencode

import pytest
from selenium.webdriver.common.keys import Keys

from kproxy.output.escaping import word
from tests.page.browser.driving import NARROW, WIDE, Page, opened
from tests.page.browser.test_exchanges import title
from tests.page.browser.test_hostile import shows_text_only
from tests.support.canaries import Scene, capture
from tests.support.frames import array, batch, record
from tests.support.hostile_names import PIECES, answered, asked, crowded, login, produced, scenes_of, string

pytestmark = [pytest.mark.xdist_group("page-browser"), pytest.mark.long, pytest.mark.timeout(2400)]
SEED = 20_261_124
MANY = 10_000
IN_ONE = 500  # names in a message
LONGEST = 120  # UTF-16 units: every place shows names of this length whole
PLAIN = 40
MARKER = "kpname%03dx"
TEXTS = [
    "<img src=x onerror=kproxyRan(1)>", "<svg onload=kproxyRan(1)>", "</textarea><script>kproxyRan(1)</script>",
    '" onmouseover="kproxyRan(1)" x="', "' autofocus onfocus=kproxyRan(1) '", "</title></svg><iframe src=//evil>",
    "${kproxyRan(1)}", "{{constructor.constructor('kproxyRan(1)')()}}", "<?lit$1$>", "<!--?lit$-->", "</style><style>*{}",
    "שלום", "مرحبا", "אבג 123", "\u202eabc", "\u2067x", "\u2069\u2069", "\u200f", "e" + "\u0301" * 40, "漢字", "\u3164\u00a0",
]  # fmt: skip
MORE = [text.encode() for text in TEXTS]
IGNORED = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0" + "".join(map(chr, range(0xFE00, 0xFE10)))

# Runs before the page's scripts: functions that no name must call
CANARY = "window.kproxyRan = window.alert = () => { window.kproxyDid = true; }; performance.setResourceTimingBufferSize(1e6);"

AUDIT = Path(__file__).with_name("audit.js").read_text(encoding="utf-8")

# Scroll through all fields and all bytes of one side of an exchange
WALK = f"""{AUDIT}
const done = arguments[arguments.length - 1];
const [fields, bytes] = [".tree.scroller", ".hex .scroller"].map((one) => document.querySelector(one));
const frame = () => new Promise(requestAnimationFrame);
(async () => {{
  const wrong = [], shown = new Set();
  for (let before = -1; before !== fields.scrollTop && !wrong.length; ) {{
    await frame(); await frame();
    const found = look(".tree .value bdi");
    wrong.push(...found.wrong);
    found.shown.forEach((one) => shown.add(one));
    before = fields.scrollTop;
    fields.scrollTop += fields.clientHeight - 44;
    bytes.scrollTop = bytes.scrollHeight * fields.scrollTop / fields.scrollHeight;
  }}
  done({{ wrong, shown: [...shown] }});
}})();
"""

# Replace the plain names in the server's answers by others, and repeat rows so that each has a new name
OTHERS = r"""
const [names, most] = arguments;
const real = window.fetch, known = new Map();
let next = 0, used = new Map();
window.kproxyAnew = () => { used = new Map(); };
const put = (value, copy, url) => JSON.parse(JSON.stringify(value).replace(/kpname\d{3}x/g, (marker) => {
  const key = `${marker} ${copy} ${url}`;
  if (!used.has(key)) used.set(key, next++ % names.length);
  return JSON.stringify(names[used.get(key)]).slice(1, -1);
}));
const copies = (list, url) => Array.from({ length: Math.ceil(most / list.length) }, (_, at) => put(list, at, url)).flat();
const copied = (list, url) => (/kpname/.test(JSON.stringify(list)) ? copies(list, url) : list);
window.fetch = async (url, how) => {
  if (/page\/api\/(analyses\/|activity|complete)/.test(url)) {
    if (!known.has(url)) known.set(url, await (await real(url, how)).json());
    const answer = known.get(url);
    const lists = ["rows", "series", "choices"].filter((one) => answer[one]?.length);
    const other = put({ ...answer, ...Object.fromEntries(lists.map((one) => [one, []])) }, 0, url);
    for (const one of lists) other[one] = copied(answer[one], url);
    return new Response(JSON.stringify(other));
  }
  return real(url, how);
};
"""

ANEW = """
const done = arguments[arguments.length - 1];
window.kproxyAnew();
window.addEventListener("hashchange", async () => {
  const frame = () => new Promise(requestAnimationFrame);
  do { await frame(); await frame(); } while (document.getElementById("view").ariaBusy !== "false");
  await frame();
  done();
}, { once: true });
location.hash = arguments[0];
"""


COMPARED = """const [a, b, done] = arguments; const at = [...document.scripts].find((one) => /main.js/.test(one.src)).src;
import(new URL("dialogs.js", at)).then((one) => one.compare(a, b)).then(done)"""
ANALYSES = """fetch("page/api/analyses").then((one) => one.json())
  .then((all) => arguments[0](all.map((one) => one.id).join(",")))"""
OPENED = """const rows = [...document.querySelectorAll(".tree .row")];
rows.find((one) => /topics/.test(one.textContent)).querySelector(".twist").click()"""
MORE_RECORDS = """const buttons = [...document.querySelectorAll("#part button")];
const more = buttons.find((one) => /more$/.test(one.textContent)); more?.click(); return !more"""
TEXTS_OF = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"


CHOICES = """const done = arguments[0];
const line = document.querySelector("[role=combobox]");
const offered = () => document.querySelector(".choices:not([hidden]) li");
const press = (key, more) => line.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
window.kproxyAnew();
if (offered()) press("Escape");
press(" ", { ctrlKey: true });
const look = () => requestAnimationFrame(offered() ? done : look);
look();"""


def shown(text: str) -> str:
    """Return a name as the page shows it: invisible characters made visible, at most three marks on a letter."""
    marks, out = 0, []
    for char in text:
        marks = marks + 1 if unicodedata.category(char).startswith("M") and char not in IGNORED else 0
        if marks <= 3:
            out.append(char if char.isprintable() and char not in IGNORED else picture(ord(char)))
        elif marks == 4:
            out.append("…")
    return "".join(out)


def picture(code: int) -> str:
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"\\u{{{code:x}}}" if code > 0xFFFF else f"\\u{code:04x}"


def endless() -> Iterator[bytes]:
    numbers = Random(SEED)
    while True:
        yield b"".join(numbers.choices(PIECES + MORE * 2, k=numbers.randint(1, 6)))


def cases(count: int, is_wanted: Callable[[bytes], bool] = bool) -> list[bytes]:
    """Return that many names that are shown whole, each one differently."""
    made: dict[str, bytes] = {}
    for name in endless():
        text = shown(name.decode("utf-8", "replace"))
        if 0 < len(text.encode("utf-16-le")) // 2 <= LONGEST and is_wanted(name):
            made.setdefault(text, name)
        if len(made) == count:
            return list(made.values())
    raise AssertionError


def texts_of(names: list[bytes]) -> set[str]:
    return {shown(name.decode("utf-8", "replace")) for name in names}


def is_text(data: bytes) -> bool:
    """Whether a key or value of a record is shown as text, not as bytes."""
    text = data.decode("utf-8", "replace")
    if data.strip().startswith((b"{", b"[")):  # JSON has its own form
        return False
    return text.encode() == data and all(char.isprintable() or char in "\n\r\t" for char in text)


def in_parts(names: list[bytes]) -> list[list[bytes]]:
    return [names[at : at + IN_ONE] for at in range(0, len(names), IN_ONE)]


def audit(page: Page, selector: str = "main bdi") -> set[str]:
    """Assert that nothing is drawn wrong; return the texts of the selected elements."""
    found = page.run(f"{AUDIT} return look(arguments[0]);", selector)
    assert found["wrong"] == []
    return set(found["shown"])


def fetched(name: bytes) -> list[tuple[bool, bytes]]:
    """Return a request and response that fetch a record from a topic of that name."""
    records = batch(record(name, name), 1)
    partition = array(pack(">ihqqi", 0, 0, 1, 1, -1) + pack(">i", len(records)) + records)
    wanted = array(pack(">iqi", 0, 0, 1_000))
    return [
        asked(1, 4, name, pack(">iiiib", -1, 1, 1, 1_000_000, 0) + array(string(name) + wanted)),
        answered(pack(">i", 0) + array(string(name) + partition)),
    ]


Crowd = tuple[Page, list[tuple[list[bytes], list[bytes]]]]  # for each part: names, contents of records


@pytest.fixture(scope="module")
def crowd(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    """Exchanges with IN_ONE names each, three for each part."""
    parts = list(zip(in_parts(cases(MANY)), in_parts(cases(MANY, is_text)), strict=True))
    file = tmp_path_factory.mktemp("crowd") / "names.pcap"
    steps = [step for part in parts for step in crowded(*part)]
    file.write_bytes(capture([Scene("crowd", login(b"x") + steps)]))
    with opened(file, options=["--records"]) as address:
        page = Page(driver, address)
        page.complaints()
        with page.before_scripts(CANARY):
            yield page, parts


WIDTHS = (WIDE, NARROW)  # alternately
LOGIN = 2  # exchanges before the first


def topics_of(at: int) -> int:
    """Return the exchange whose response has an error for each topic of a part."""
    return LOGIN + 3 * at + 2


def records_of(at: int) -> int:
    return topics_of(at) + 1


def shows(page: Page, number: int, api: str, tab: str) -> None:
    page.show(at=str(number))
    page.until(lambda: title(page).startswith(f"#{number} {api}"), "open")
    page.one(f"#tab-{tab}").click()


def test_fields_and_bytes(crowd: Crowd) -> None:
    page, parts = crowd
    for at, (names, _) in enumerate(parts):
        page.size(WIDTHS[at % 2])
        shows(page, topics_of(at), "CreateTopics", "response")
        page.run(OPENED)
        found = page.driver.execute_async_script(WALK)
        assert found["wrong"] == []
        assert texts_of(names) - set(found["shown"]) == set()
    shows_text_only(page)


def test_an_exchange_as_text(crowd: Crowd) -> None:
    page, parts = crowd
    for at, (names, _) in enumerate(parts):
        page.size(WIDTHS[at % 2])
        shows(page, topics_of(at), "CreateTopics", "text")
        request, response = page.texts("#part pre")
        written = [shown(word(name.decode("utf-8", "replace"), LONGEST * 2)) for name in names]
        assert [text for text in written if request.count(text) < 2 or response.count(text) < 2] == []
        audit(page)
        shows(page, topics_of(at) - 1, "Metadata", "text")
        assert [text for text in written if text not in page.texts("#part pre")[0]] == []
        audit(page)
    shows_text_only(page)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_records(crowd: Crowd, width: int) -> None:
    page, parts = crowd
    page.size(width)
    for at, (_, contents) in enumerate(parts):
        shows(page, records_of(at), "Produce", "records")
        page.until(lambda: page.run(MORE_RECORDS), "all records")
        audit(page)
        for column in ("key", "value", "headers"):
            assert texts_of(contents) - set(page.run(TEXTS_OF, f"#part td[data-of={column}] bdi")) == set(), column
    shows_text_only(page)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_exchanges_compared(crowd: Crowd, width: int) -> None:
    page, parts = crowd
    page.size(width)
    page.show()
    for at in range(0, len(parts) - 1, 2):
        page.driver.execute_async_script(COMPARED, records_of(at), records_of(at + 1))
        found = audit(page, "dialog[open] .differ td bdi")
        assert texts_of(parts[at][0] + parts[at + 1][0]) - found == set()
    shows_text_only(page)
    page.press(Keys.ESCAPE)


@pytest.fixture(scope="module")
def plain(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Exchanges of all kinds with a few plain names."""
    names = [(MARKER % at).encode() for at in range(PLAIN)]
    steps = [step for name in names for step in produced(name) + fetched(name)]
    file = tmp_path_factory.mktemp("plain") / "plain.pcap"
    file.write_bytes(capture([*scenes_of(names), Scene("records", login(b"x") + steps)]))
    with opened(file, options=["--records"]) as address:
        page = Page(driver, address)
        page.complaints()
        with page.before_scripts(CANARY):
            yield page


@pytest.mark.parametrize(
    ("view", "more", "rows", "selector"),
    [
        ("map", {}, PLAIN, "svg.map .label"),
        ("time", {"by": "client"}, IN_ONE, ".legend bdi"),
        ("time", {"by": "topic"}, IN_ONE, ".legend bdi"),
        ("groups", {}, IN_ONE, "td bdi"),
        ("clients", {}, IN_ONE, "td bdi"),
        ("findings", {}, IN_ONE, "details[open] td bdi"),
    ],
    ids=["map", "clients over time", "topics over time", "groups", "clients", "findings"],
)
def test_the_other_views(plain: Page, view: str, more: dict[str, str], rows: int, selector: str) -> None:
    names = cases(2 * MANY)  # not every name is shown
    expected, found, rounds = texts_of(names), set[str](), 0
    plain.size(WIDE)
    plain.show(view, **more)
    if view == "findings":
        more = {"open": plain.driver.execute_async_script(ANALYSES)}
    plain.run(OTHERS, [name.decode("utf-8", "replace") for name in names], rows)
    while len(found) < MANY or rounds < len(WIDTHS):
        plain.size(WIDTHS[rounds % 2])
        plain.driver.execute_async_script(ANEW, f"#{view}?{urlencode({**more, 'round': rounds})}")
        before = len(found)
        found |= audit(plain, selector) & expected
        rounds += 1
        assert rounds < MANY / 20, f"{before:,}, then {len(found):,}"
    shows_text_only(plain)


def test_what_the_filter_line_offers(plain: Page) -> None:
    names = cases(MANY)
    expected, found, rounds = texts_of(names), set[str](), 0
    plain.size(WIDE)
    plain.show()
    plain.run(OTHERS, [name.decode("utf-8", "replace") for name in names], PLAIN)
    plain.one("[role=combobox]").send_keys("clientId == ")
    while len(found) < MANY:
        plain.size(WIDTHS[rounds % 2])
        plain.driver.execute_async_script(CHOICES)
        before = len(found)
        found |= {text[1:-1] for text in audit(plain, ".choices code")} & expected
        assert len(found) > before
        rounds += 1
    shows_text_only(plain)
