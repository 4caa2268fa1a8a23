"""Make facts.txt from Kafka's own jars. For developers only: nothing at run time imports it.

    python -m kproxy.extract            write kproxy/protocol/facts.txt, and the members of ApiKey and ErrorCode
    python -m kproxy.extract --check    fail, with the difference, when a file does not match the jars

It needs Maven (or, with --jars, a folder that holds the jars), a JDK of 17 or newer, and the extensions built.

    jars.py          the list of jars, fetched by Maven; the definitions and error codes in them
    definitions.py   one definition, in Kafka's dialect of JSON -> Message, Field; the definitions of one message in several
                     releases -> as few blocks as possible
    facts_text.py    blocks, APIs and error codes -> the text of facts.txt, and the members of ApiKey and ErrorCode

For a new release of Kafka, set NEWEST in jars.py, run the command, and read the difference. A new block for the previously
newest release means that a layout was changed in place, or that versions were removed: add that release to RELEASES to keep its
layout. Add a new minor release to SPOKEN, too. Then add its versions to kproxy/protocol/releases.txt by hand. For a new API, the
command asks for its place in api_judgements.txt.
"""
