"""Conditions in CEL over the rows of a store, as of ``kproxy decode --where``.

filter.py      Filter: a condition over the rows of a store
parts.py       a condition taken apart at &&, || and !
sql.py         comparisons with literals as SQL
worker.py      a process that evaluates CEL, and can be killed
names.py       what a filter may name
completion.py  what may stand at a place of a filter, or of a breakpoint's condition
"""
