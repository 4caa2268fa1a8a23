"""`kproxy doctor`: look at a set-up from where kproxy runs, and say what is wrong with it and what to do.

    findings.py    Finding: what was checked, the result, and what to do about it
    examine.py     examine(): all checks of a configuration in their order; the last go through the listeners of a running kproxy
    machine.py     this machine: open files, space for outputs, free ports, the clock; a kproxy that runs on it already
    broker.py      one broker as kproxy would reach it: name, port, login, clock, what it speaks; why TLS fails, in words
    keys.py        the filter encrypt: whether its key service makes and unwraps data keys, and whether there are its topics
    cluster.py     a cluster: its brokers and all that they advertise, logins, the clock, and the names that clients get

Nothing is changed anywhere: brokers get ApiVersions, SaslHandshake, Metadata for no topic (for all, if a rule of encrypt names
topics) and DescribeQuorum, and a login only where one is given; a key service makes data keys, which are thrown away; a folder
for outputs gets a file of 64 KiB for a moment. Every wait is bounded by the *patience* of the call, those for a key service by
its own timeout.

To add a check: a function that yields Finding, called in examine.py, and a set-up broken in that way in tests/doctor.
"""
