"""The live page: exchanges of a running proxy, as the analyzer sends them.

    process.py    the process: ``python -m kproxy.page.live``
    feed.py       LiveFeed: receives the records that analyzers send
    exchanges.py  LiveExchanges: makes exchanges of these records
    rows.py       LiveRows: collects exchanges as rows until they are shown
    files.py      LiveFiles: rows as Parquet files; the oldest are removed or written to a directory
    room.py       Room: keeps all of it within its bounds, in memory and in a directory
    store.py      Live: the Store of the exchanges that are kept
    exporting.py  selections as packets and as tables

The supervisor makes a directory with two sockets:

    feed    the analyzer connects here and sends records (kproxy.proxy.page_records), with credentials withheld. First come the
            exchanges that it kept for the page (kproxy.proxy.analyzer.page_feed)
    http    the page
"""
