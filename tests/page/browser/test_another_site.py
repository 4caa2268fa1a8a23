"""Pages of other sites, in a browser that has the page's cookie, read nothing from a running proxy and change nothing.

A page of another port of 127.0.0.1 is another origin on the same site, to which the browser sends the cookie; one of localhost is
another site; evil.localhost is a name that leads here, as after DNS rebinding (Chromium resolves it to a loopback address).
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.page.browser.driving import Page, driven, missing, opened
from tests.support.corpus import CAPTURES
from tests.support.http_servers import Quiet, serving
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.stopping import Person

pytestmark = pytest.mark.xdist_group("page-browser")
BREAKPOINT = [{"condition": "true", "direction": "request"}]

# Each attempt returns true if the page got something from the other one. Arguments: address, token, body, done
ATTEMPTS = """
const [where, token, body, done] = arguments;
const api = `${where}/page/api`;
const json = { "Content-Type": "application/json", "X-Kproxy-Token": token };
const text = { "Content-Type": "text/plain" };
const tunnel = { ...text, "X-HTTP-Method-Override": "PUT" };
const element = (tag, address, name = "src") => new Promise((told) => {
  const made = document.createElement(tag);
  made.onload = () => told(true);
  made.onerror = () => told(false);
  if (tag === "link") made.rel = "stylesheet";
  made[name] = address;
  document.body.append(made);
});
const asked = async (address, how) => (await (await fetch(address, { credentials: "include", ...how })).text()) !== "";
const framed = (address) => new Promise((told) => {
  const made = document.createElement("iframe");
  made.onload = () => { try { told(made.contentDocument.body.textContent !== ""); } catch { told(false); } };
  made.src = address;
  document.body.append(made);
});
const sent = (enctype) => new Promise((told) => {
  const target = document.createElement("iframe");
  target.name = `target ${enctype}`;
  const form = document.createElement("form");
  const field = document.createElement("input");
  Object.assign(form, { method: "POST", action: `${api}/breakpoints`, enctype, target: target.name });
  Object.assign(field, { type: "hidden", name: '[{"condition":"true","direction":"request"}]', value: "" });
  form.append(field);
  document.body.append(target, form);
  target.onload = () => { try { told(target.contentDocument.body.textContent !== ""); } catch { told(false); } };
  form.submit();
});
const attempts = {
  read: () => asked(`${api}/source`),
  "read, no CORS": () => asked(`${api}/source`, { mode: "no-cors" }),
  "read with the token": () => asked(`${api}/source`, { headers: json }),
  "read stops": () => asked(`${api}/stops`),
  "read an export": () => asked(`${api}/export?format=jsonl`),
  script: () => element("script", `${where}/page/static/main.js`),
  "JSON as a script": () => element("script", `${api}/source`),
  module: () => import(`${where}/page/static/text.js`).then(() => true),
  style: () => element("link", `${where}/page/static/page.css`, "href"),
  picture: () => element("img", `${where}/page/static/icon.svg`),
  object: () => element("object", `${api}/source`, "data"),
  frame: () => framed(`${where}/`),
  "frame of JSON": () => framed(`${api}/source`),
  events: () => new Promise((told) => {
    const source = new EventSource(`${api}/events`, { withCredentials: true });
    source.addEventListener("rows", () => { source.close(); told(true); });
    source.onerror = () => { source.close(); told(false); };
  }),
  socket: () => new Promise((told) => {
    const socket = new WebSocket(`${api.replace("http", "ws")}/events`);
    socket.onopen = () => { socket.close(); told(true); };
    socket.onerror = () => told(false);
  }),
  window: async () => {
    const other = window.open(`${where}/`);
    await new Promise((told) => setTimeout(told, 200));
    try { return other.document.body.textContent !== ""; } catch { return false; } finally { other?.close(); }
  },
  "change by PUT": () => asked(`${api}/breakpoints`, { method: "PUT", body, headers: json }),
  "change by PUT of text": () => asked(`${api}/breakpoints`, { method: "PUT", body, headers: text }),
  "change by POST of text": () => asked(`${api}/breakpoints`, { method: "POST", body, headers: text, mode: "no-cors" }),
  "change by POST in the name of PUT": () => asked(`${api}/breakpoints?_method=PUT`, { method: "POST", body, headers: tunnel }),
  "resume all": () => asked(`${api}/stops/resume-all`, { method: "POST", body: "{}", headers: text, mode: "no-cors" }),
  "form of text": () => sent("text/plain"),
  form: () => sent("application/x-www-form-urlencoded"),
  beacon: async () => (navigator.sendBeacon(`${api}/breakpoints`, body), false),
};
(async () => {
  const got = [];
  for (const [name, attempt] of Object.entries(attempts)) {
    // the browser does not report every refusal
    const nothing = new Promise((told) => setTimeout(() => told(false), 2000));
    if (await Promise.race([attempt().catch(() => false), nothing])) got.push(name);
  }
  done(got);
})();
"""
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class Site(Quiet):
    """A site on which all attempts succeed."""

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        kind = next((kind for ending, kind in TYPES.items() if path.endswith(ending)), "text/html")
        body = b"<svg xmlns='http://www.w3.org/2000/svg'/>" if kind == "image/svg+xml" else b"/* here */"
        if path.endswith("/events"):
            kind, body = "text/event-stream", b"event: rows\ndata: {}\n\n"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.do_GET()

    do_PUT = do_POST


@pytest.fixture(scope="module")
def driver(require: Callable[[str, object, str], None]) -> Iterator[Any]:
    """A browser of its own: the windows that these sites open would leave other tests' pages in the background, undrawn."""
    require("chromium", not missing(), missing())
    with driven() as driver:
        yield driver


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of the attacker's site."""
    with serving(Site) as url:
        yield int(url.rpartition(":")[2])


@contextmanager
def running(folder: Path) -> Iterator[Person]:
    """The page of a proxy that allows edits."""
    proxy = Proxy(folder, [cluster(["127.0.0.1:1"])], page={"edits": True})
    try:
        proxy.start(reaches_brokers=False)
        yield Person(proxy)
    finally:
        proxy.stop(patience=60)


def got(driver: Any, site: str, where: str, token: str) -> list[str]:
    """Return the attempts that succeeded from a page at *site*."""
    driver.get(site)
    found: list[str] = driver.execute_async_script(ATTEMPTS, where, token, json.dumps(BREAKPOINT))
    return found


@pytest.mark.slow
def test_pages_of_other_sites_read_nothing_and_change_nothing(driver: Any, port: int, tmp_path: Path) -> None:
    own = f"http://127.0.0.1:{port}"
    assert len(got(driver, own, own, "")) > 15, "with itself it succeeds"
    with running(tmp_path) as person:
        host = urlsplit(person.address).netloc
        page = Page(driver, f"http://{host}/?token={person.token}")
        page.settled()
        assert person.token not in str(page.run("return location.href + document.cookie + document.referrer"))
        driver.back()
        assert person.token not in driver.current_url, "not in the history either"
        before = person.done("GET", "/breakpoints")
        for name in ("127.0.0.1", "localhost", "evil.localhost"):
            for where in (f"http://{host}", f"http://{host.replace('127.0.0.1', 'evil.localhost')}"):
                assert got(driver, f"http://{name}:{port}", where, person.token) == [], (name, where)
        page.complaints()  # drop the refusals
        assert person.done("GET", "/breakpoints") == before == []
        page.show("breakpoints")
        own_complaints = [
            one for one in page.complaints() if one.startswith(f"http://{host}/")
        ]  # a refusal may come late
        assert own_complaints == [], "the page itself is as before"


@pytest.mark.slow
def test_a_name_that_leads_here_shows_nothing_of_what_is_open(driver: Any) -> None:
    with opened(CAPTURES / "01-java-produce-consume-group.pcap") as address:
        page = Page(driver, address)
        page.settled()
        rebound = urlsplit(address)._replace(netloc=urlsplit(address).netloc.replace("127.0.0.1", "evil.localhost"))
        for path in ("/", "/page/api/source", "/page/static/main.js"):
            driver.get(rebound._replace(path=path).geturl())
            shown = eventually(lambda: page.run("return document.body.textContent"), what="an answer")
            assert "not a name of kproxy" in shown and "produce-consume" not in shown
        page.complaints()


@pytest.mark.slow
def test_links_to_another_site_tell_it_nothing(driver: Any, port: int) -> None:
    """They send no Referer, and the other page cannot reach its opener."""
    with opened(CAPTURES / "01-java-produce-consume-group.pcap") as address:
        page = Page(driver, address)
        page.settled()
        open_ = "const a = document.createElement('a'); a.href = arguments[0]; document.body.append(a); a.click()"
        page.run(open_, f"http://localhost:{port}/")
        page.until(lambda: page.run("return location.port") == str(port), "the other site")
        assert page.run("return [document.referrer, window.opener]") == ["", None]
        page.complaints()
