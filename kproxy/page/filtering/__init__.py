"""Conditions in CEL over the rows of a store, as of ``kproxy decode --where``.

filter.py      Filter: a condition over the rows of a store
parts.py       a condition taken apart at &&, || and !
tokens.py      the tokens of a condition
syntax.py      its tree
sql.py         what SQL does exactly as CEL does, as SQL
operations.py  operations on values that take more than values.py knows
values.py      values of CEL as SQL, and operations on them
lists.py       lists that are written out, macros over lists
conversions.py conversions: string(), int() and the like
patterns.py    regular expressions that are the same to both
instants.py    times as texts, timestamps and durations
worker.py      a process that evaluates CEL, and can be killed
completion.py  what may stand at a place of a filter, or of a breakpoint's condition
"""
