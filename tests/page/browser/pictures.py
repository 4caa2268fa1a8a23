"""Draw pictures of every view, in a wide and a narrow window, light and dark, for people to look at.

    python -m tests.page.browser.pictures FOLDER [SOURCE...]

Without a source: two of the sample captures. Each file is named VIEW-WIDTH-THEME.png. That of README.md is
errors-1400-light.png (`--only errors`), kept as deploy/release/page.png.
"""

import argparse
from pathlib import Path

from tests.page.browser.driving import NARROW, WIDE, Page, driven, opened
from tests.support.corpus import CAPTURES

SOURCES = [CAPTURES / "04-transactions.pcap", CAPTURES / "03-classic-rebalance-range.pcap"]
SCENES: dict[str, tuple[str, dict[str, str], list[str]]] = {  # name -> view, parameters, selectors to click
    "exchanges": ("exchanges", {}, []),
    "exchange": ("exchanges", {"at": "9"}, []),
    "records": ("exchanges", {"at": "11"}, ["#tab-records"]),
    "errors": ("exchanges", {"filter": "size(errors) > 0", "at": "212"}, ["[role=tab]:nth-of-type(2)"]),
    "mistake": ("exchanges", {"filter": 'apiKey == 1 && clientld == "a"'}, []),
    "nothing": ("exchanges", {"filter": "apiKey == 70"}, []),
    "map": ("map", {}, []),
    "map-chosen": ("map", {}, ["svg .node"]),
    "time": ("time", {}, []),
    "groups": ("groups", {}, []),
    "clients": ("clients", {}, []),
    "client": ("clients", {}, ["[aria-label=Clients] td button"]),
    "findings": ("findings", {}, []),
    "finding": ("findings", {}, [".finding summary"]),
    "columns": ("exchanges", {}, [".controls .bar button:nth-of-type(3)"]),
    "export": ("exchanges", {}, [".controls .bar button:nth-of-type(4)"]),
}


def main() -> None:
    """Draw the pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("sources", type=Path, nargs="*", default=SOURCES)
    parser.add_argument("--only", action="append", choices=list(SCENES))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with opened(*options.sources, options=["--records"]) as address, driven() as driver:
        page = Page(driver, address)
        for name in options.only or SCENES:
            for width in (WIDE, NARROW):
                for dark in (False, True):
                    draw(page, name, width, dark)
                    file = options.folder / f"{name}-{width}-{'dark' if dark else 'light'}.png"
                    file.write_bytes(driver.get_screenshot_as_png())


def draw(page: Page, name: str, width: int, dark: bool) -> None:
    """Show a scene."""
    view, parameters, clicked = SCENES[name]
    page.size(width)
    page.dark(dark)
    page.show(view, **parameters)
    for selector in clicked:
        page.run("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", page.one(selector))
    page.drawn()


if __name__ == "__main__":
    main()
