"""The charts of the HTML report: a query over the tables, and its rows as a Vega-Lite chart, drawn as SVG.

    gallery.py         which charts there are, which analyses each belongs to; NAME.sql has the query of each
    drawing.py         rows as Vega-Lite, and that as SVG by vl-convert: colours by CSS, and nothing in it that a page would run

vl-convert draws SVG (20 KB a chart, no script in the page, so that the page can forbid scripts) and is one wheel without
dependencies. Bokeh was the other candidate: 1.3 MB of script in each page before the first chart, which needs scripts allowed.
"""
