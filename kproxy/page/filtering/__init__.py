"""Conditions in CEL over the rows of a Store, the same as those of ``kproxy decode --where``, and free text.

filter.py      Filter: checks a condition and selects the rows for which it is true
parts.py       the tokens of a condition; its parts, joined by &&, || and !; free text, which becomes CEL
sql.py         comparisons of columns, as SQL
worker.py      a process that evaluates CEL and can be killed
completion.py  what can be written next in a filter, or in the condition of a breakpoint

How a condition is answered: parts that sql.py knows are one scan by DuckDB. Other parts on columns are evaluated by CEL once for
each distinct combination of the values that they name. Parts on bodies are evaluated by CEL for the lines of the remaining rows.
"""
