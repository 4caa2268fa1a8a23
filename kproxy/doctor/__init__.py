"""`kproxy doctor`: look at a set-up from where kproxy runs, and say what is wrong with it and what to do.

    findings.py    Finding: what was checked, the result, and what to do about it
    examine.py     examine(): all checks of a configuration in their order
    machine.py     this machine: open files, space for outputs, whether ports are free, the clock
    broker.py      one broker as kproxy would reach it: name, port, TLS, what it speaks, login, its clock
    tls_words.py   why TLS fails, in words with the setting to change; dates and names of a certificate
    cluster.py     a cluster: its bootstrap brokers, and all that they advertise
    access.py      its logins and clock, and what brokers tell only after a login
    names.py       the names that clients get: DNS, and the certificate for them
    running.py     a kproxy that runs already: its admin pages
    through.py     the clusters through its listeners

Nothing is changed anywhere: brokers get ApiVersions, SaslHandshake, Metadata for no topic and DescribeQuorum, and a login only
where one is given; a folder for outputs gets a file of 64 KiB for a moment. Every wait is bounded by the *patience* of the call.

To add a check: a function that yields Finding, called in examine.py, and a set-up broken in that way in tests/doctor.
"""
