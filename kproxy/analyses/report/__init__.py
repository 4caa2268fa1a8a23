"""Reports of analyses: verdicts, and pages of text, Markdown, JSON and HTML.

    templates.py    the sentence of a verdict over rows
    verdicts.py     analyses over tables: answers, ordered by what matters
    words.py        values as text, and phrases that all forms share
    text.py         the summary and the rows on a terminal
    pages.py        Markdown for a ticket or a chat; JSON for programs
    html_page.py    one page with the charts and the rows, by page.html.jinja and page.css
    charts/         queries, and their rows drawn as SVG

Every name from the traffic goes through kproxy.output.escaping on its way to a terminal or a page, and is escaped for
its form: HTML by Jinja2, SVG by Vega, Markdown by pages.escaped.

To add a form, write a function like json_page in pages.py, choose it in kproxy/cli/report.py and name it in Format and
SUFFIXES of kproxy/cli/report_request.py. To add a chart, see charts/gallery.py.
"""
