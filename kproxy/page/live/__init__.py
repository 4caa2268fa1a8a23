"""The live page: exchanges of a running proxy, as the analyzer sends them.

    process.py    the process: ``python -m kproxy.page.live``
    feed.py       LiveFeed: takes what analyzers send
    exchanges.py  LiveExchanges: records of the analyzer to exchanges
    cluster.py    SharedView: topic ids and names of a cluster, for several threads
    rows.py       LiveRows: exchanges as rows, collected until they are shown
    files.py      LiveFiles: rows as Parquet files, of which the oldest leave or are written to a directory
    room.py       Room: bounds of all that, in memory and in a directory
    store.py      Live: the Store of what is kept
    exporting.py  selections as packets and as tables

Two sockets are in a directory of the supervisor's:

    feed    the analyzer connects and sends records (kproxy.proxy.page_records), credentials withheld. One that was killed is
            followed by another
    http    the page
"""
