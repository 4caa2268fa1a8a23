"""What `ps`, `top` and `pgrep` show of our processes.

    kproxy run --listen ... --bootstrap ...    the supervisor (or: kproxy run -c FILE); name: kproxy
    kproxy: worker 0                           a worker, numbered as in the log and at /connections; name: kproxy:worker0
    kproxy: analyzer (kproxy-analyzer)         the analyzer; name: kproxy:analyzer

By setproctitle: it writes over the command line in memory, and moves the environment away so that a longer title fits. Without
it: prctl(PR_SET_MM_ARG_START) needs CAP_SYS_RESOURCE, and our own code would have to write to a raw address.
"""

from setproctitle import setproctitle, setthreadtitle


def set_process_title(title: str, name: str) -> None:
    """Show *title* as the command line of this process and *name*, cut to 15 bytes, as its name (/proc/PID/comm)."""
    setproctitle(title)
    setthreadtitle(name)
