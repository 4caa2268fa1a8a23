"""The report as one self-contained HTML file, to attach to a ticket. It looks like kproxy's page (kproxy/page/static/page.css).

    page.py            the report as HTML, by the template
    page.html.jinja    the template; Jinja2 escapes every value
    page.css           colours (light, dark, paper) and layout (wide, phone)

The page forbids scripts and all loading (Content-Security-Policy), holds no script, and is at most 2 MB: tables are cut.
"""
