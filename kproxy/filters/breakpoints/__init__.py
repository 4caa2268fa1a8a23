"""Breakpoints, if page.edits allows them: a person stops requests and responses, changes them and lets them go.

    breakpoint.py   Breakpoint: a condition in CEL and a direction; ActiveBreakpoint: the same in use, within bounds of CPU; which
                    messages cannot be stopped, as they carry credentials
    filter.py       Breakpoints: the filter, and its lines in audit logs. A Holder holds what it stops until there is a Decision
    decision.py     Stopped, Decision, Holder: the question to a person, and the answer
    editing.py      a stopped message as JSON to edit, with its record batches, and edited JSON back as a message
    described.py    keys and values in it as JSON by their schemas, and back
    kept_rules.py   what was done to a message, as a rule of the filter faults in YAML

A breakpoint is not part of the configuration: a person sets it while a page is open, and it ends when the page closes
(kproxy.proxy.supervisor.stopped).
The filter stands before all others: a person sees requests as the client sent them, and a response that a person changed is what
the client gets. A changed request still passes all other filters: deny, audit, topic_prefix.

What a stop does to traffic

    Kafka's responses come in the order of their requests. A stopped request holds everything that the client sends behind it on
    that connection, a stopped response all responses behind it. Nothing else waits. A stop ends by itself after page.hold (5 s),
    so that a consumer does not count as dead; the frame then leaves as it came. It also leaves once the client or the broker
    closes the connection, even if only in its own direction.

    What a person can do with it

    resume    the message goes on, byte for byte as it came
    replace   the changed message goes on: encoded at the same version, with unknown tagged fields, and with valid CRCs
    error     a request is answered with this error and does not reach the broker; a response gets the error as its content
    drop      the message is dropped. As no other response may take its place, everything that follows in its direction on this
              connection is dropped as well; only a Produce with acks=0, which has no response, is dropped alone
    close     both sides of the connection are closed

Messages that match and pass all the same are counted (events of the filter "breakpoints" in /filters): beyond page.most_stops or
page.most_stopped_size, larger than limits.held_frame_size or MOST_TEXT_SIZE, with credentials, or while the process drains.
A breakpoint whose condition takes too long is given up (breakpoint.py): counted, logged, and reported on the page.

A condition is first evaluated with the header of the message and its connection alone: a message for which it cannot hold is not
decoded.
"""
