"""What a person sees of analyses: verdicts, and pages of text, Markdown, JSON and HTML.

    templates.py    the sentence of a verdict over rows
    verdicts.py     analyses over a database: answers, ordered by what matters
    words.py        sentences that every form has
    cells.py        values as text
    text.py         the summary and the rows on a terminal
    markdown.py     for a ticket or a chat
    json_page.py    everything, for programs
    charts/         queries, and their rows drawn as SVG
    html/           one page with the charts and the rows

Every name from the traffic goes through kproxy.output.escaping on its way to a terminal or a page, and is escaped as the form
needs it: HTML by Jinja2, SVG by Vega, Markdown by markdown.escaped.

To add a form, write a module beside json_page.py and choose it in kproxy/cli/report.py; a chart, see charts/gallery.py.
"""
