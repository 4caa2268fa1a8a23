"""The supervisor process: starts, watches, reconfigures and stops workers and analyzer; serves the admin port.

    process.py        Supervisor: one run, from its options to its exit code; signals, reloads, drain
    fleet.py          Fleet: all children, their shared memory, their configuration; passes brokers on between workers
    child.py          Child: one child, started again when it dies, until stopped; its channel
    watchdog.py       Watchdog: whether a child hangs; what counts as a hang and what does not
    stack_dump.py     where it hangs: its stack, by faulthandler
    processes.py      how processes are started: commands, environment, inherited descriptors; exit by pidfd
    file_watch.py     FileWatch: configuration and certificate files that have changed
    overview.py       Overview: what is shown of the whole; asks workers for their connections
    admin.py          the admin port's pages; admin_server.py: uvicorn on its socket
    browser_guard.py  BrowserGuard: which requests of browsers are obeyed
    page_entry.py     below /page/api: breakpoints and stopped messages, where page.edits allows them
    stop_pages.py     their answers; stopped.py: StoppedMessages, what all workers have stopped
    live_page.py      LivePage: the page as a process of its own; forwarding_page.py passes requests on to it,
                      page_ending.py says why it has ended

Life of a run

    start    check that addresses are free, serve the admin port, start workers and analyzer; "serving" is logged when all are
             ready. A worker that cannot take its configuration ends the run (exit code 1)
    reload   a changed file or SIGHUP: all workers take the new configuration, or all keep the one before
    death    a child that dies is started again, at once the first time, then after up to 1.5 s. Its counters and tap ring stay
    hang     a child that sends nothing for 10 s in which it could have is killed, with its stack in the log, and started again
    drain    SIGTERM or SIGINT, also during the start: workers stop accepting, wait for responses to what is in flight, exit; then
             the analyzer reads the taps' rest and exits. What exceeds timeouts.drain is closed and logged; a process that has to
             be killed makes the exit code 1
"""
