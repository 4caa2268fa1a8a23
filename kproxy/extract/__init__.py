"""How facts.txt is made from Kafka's own jars. For developers only: nothing at run time imports it.

    python -m kproxy.extract            write kproxy/protocol/facts.txt, and the members of ApiKey and ErrorCode
    python -m kproxy.extract --check    fail, with the difference, when a file does not match the jars

It needs Maven (or, with --jars, a folder that holds the jars), a JDK of 17 or newer, and the extensions built.

    jars.py          which jars, fetched by Maven; the definitions in them
    dialect.py       one definition, JSON with Kafka's habits -> Message, Field
    merge.py         one message in several releases -> as few blocks as its bytes allow
    error_codes.py   error codes from Kafka's enum; ErrorCodes.java is run against each kafka-clients jar
    facts_text.py    blocks, APIs and error codes -> the text
    enums.py         APIs and error codes -> the members of ApiKey and ErrorCode

A new release of Kafka: set NEWEST in jars.py, run the command, and read the difference. A block that appears for the
release that was the newest so far means that a layout was changed in place, or that versions were removed: put that
release among RELEASES, so that its form is kept. A new minor release also goes among SPOKEN. Then add its
versions to kproxy/protocol/releases.txt by hand.
"""
