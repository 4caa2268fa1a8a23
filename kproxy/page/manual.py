"""The manual as pages: /page/help/TOPIC, from the Markdown that ``kproxy help`` shows in a terminal."""

import html

from markdown_it import MarkdownIt

from kproxy.manual import TOPICS, text

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{topic} - kproxy</title>
<link rel="icon" href="/page/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/page/static/page.css">
</head>
<body class="manual">
<nav aria-label="Topics"><a href="/">kproxy</a>{links}</nav>
<main>
{body}</main>
</body>
</html>
"""


def manual_page(topic: str) -> str:
    """Return the HTML document of *topic*. Raises UsageError when there is no such topic."""
    links = "".join(
        f'<a href="/page/help/{name}" title="{html.escape(line)}"{" aria-current=page" if name == topic else ""}>{name}</a>'
        for name, line in TOPICS.items()
    )
    return _PAGE.format(topic=html.escape(topic), links=links, body=_MARKDOWN.render(text(topic)))
