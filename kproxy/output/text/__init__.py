"""Text for people: one line an exchange, and the tree of its fields under ``-v``.

    lines.py          TextLines: one line an event
    exchange_words.pyx  what lines and the comments on packets say of an exchange
    tree.py           all fields of an exchange, special values by name, and what to do after an error
    key_facts.py      the facts of a line, by API; also of payloads inside bytes and records fields
    body_fields.py    the few fields of bodies that key facts read
    styles.py         colours, and cutting to a width

To add a fact to the line of an API: edit key_facts.py (and body_fields.py, if it is a field not read yet).
"""
