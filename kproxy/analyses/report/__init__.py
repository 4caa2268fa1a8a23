"""Reports of analyses: verdicts, and pages of text, Markdown, JSON and HTML.

    templates.py    the sentence of a verdict over rows
    verdicts.py     analyses over a database: answers, ordered by what matters
    words.py        phrases that all forms share
    cells.py        values as text
    text.py         the summary and the rows on a terminal
    markdown.py     for a ticket or a chat
    json_page.py    everything, for programs
    charts/         queries, and their rows drawn as SVG
    html/           one page with the charts and the rows

Every name from the traffic goes through kproxy.output.escaping on its way to a terminal or a page, and is escaped for
its form: HTML by Jinja2, SVG by Vega, Markdown by markdown.escaped.

To add a form, write a module like json_page.py, choose it in kproxy/cli/report.py and name it in Format and SUFFIXES of
kproxy/cli/report_request.py. To add a chart, see charts/gallery.py.
"""
