"""The report as one HTML file that holds everything and asks the network for nothing: what people attach to a ticket.

    page.py            the report as HTML, by the template
    page.html.jinja    the template; Jinja2 escapes every value
    page.css           colours (light, dark, paper) and layout (wide, phone)

The page forbids scripts and all loading (Content-Security-Policy), holds no script, and is at most 2 MB: tables are cut.
"""
