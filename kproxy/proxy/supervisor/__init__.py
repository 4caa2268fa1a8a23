"""The supervisor process: starts, watches, reconfigures and stops workers and analyzer; serves the admin port.

    start.py            main: from options to a Supervisor; imports what children will share
    process.py          Supervisor: one run, from its options to its exit code; signals, reloads, drain. FileWatch: changed files.
                        PageAddress: shows where the page is
    checking.py         a configuration is checked with its filters, in a process of its own
    fleet.py            Fleet: all children, their shared memory and their configuration; passes on what workers learn of brokers.
                        Questions: what is asked of workers, and their answers
    child.py            Child: one child process, started again when it dies, until stopped; its channel. Watchdog: whether it
                        hangs, and where (its stack)
    processes.py        how processes are started: forks, commands, environment; their ends, by pidfd
    overview.py         Overview: what the admin pages show of the whole run; asks workers for their connections; adds up the
                        counts of all analyzer processes of a run, so that metrics never go down
    admin.py            the admin port's pages
    browser_guard.py    BrowserGuard: which requests of browsers are allowed
    stop_pages.py       below /page/api: breakpoints and stopped messages, where page.edits allows them
    stopped.py          StoppedMessages: what breakpoints have stopped in all workers
    live_page.py        LivePage: the live page, which is a process of its own; passes requests on, and says why it has ended

Life of a run

    start    import what workers and analyzer need, as they are forked from this process; check that addresses are free, serve the
             admin port, start workers and analyzer; "serving" is logged when all are ready. A worker that cannot take its
             configuration ends the run (exit code 1)
    reload   after a changed file or SIGHUP all workers take the new configuration, or all keep the one before. If filters have
             changed, it is checked as at the start: a key service that refuses a key is asked before
    death    a child that dies is started again: at once the first time, then after up to 1.5 s. Its counters and tap ring stay
    hang     a child that sends nothing for 10 s in which it could have is killed, with its stack in the log, and started again
    drain    SIGTERM or SIGINT, also during the start: workers stop accepting, wait for responses to what is in flight and exit;
             then the analyzer reads the rest of the taps and exits. Connections still open after timeouts.drain are closed and
             logged; the exit code is 1 if a process had to be killed
"""
