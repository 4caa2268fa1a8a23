"""The live page: exchanges of a running proxy, as the analyzer sends them.

    process.py    the process: ``python -m kproxy.page.live``
    feed.py       LiveFeed: receives the records that analyzers send; Kept: what is kept of them, within its bounds
    exchanges.py  LiveExchanges: makes exchanges of these records
    files.py      LiveRows: collects exchanges as rows until they are shown; LiveFiles: rows as Parquet files
    store.py      Live: the Store of the exchanges that are kept

The supervisor makes a directory with two sockets:

    feed    the analyzer connects here and sends records (kproxy.proxy.page_records), with credentials withheld. First come the
            exchanges that it kept for the page (kproxy.proxy.analyzer.page_feed)
    http    the page
"""
