"""Conditions in CEL over the rows of a Store, the same as those of ``kproxy decode --where``, and free text.

filter.py      Filter: checks a condition and selects the rows for which it is true
free_text.py   free text in a filter becomes CEL
parts.py       takes a condition apart at &&, || and !
tokens.py      the tokens of a condition
sql.py         simple comparisons with literals, as SQL
worker.py      a process that evaluates CEL and can be killed
names.py       the names that a filter may use
completion.py  what can be written next in a filter, or in the condition of a breakpoint

How a condition is answered: parts that sql.py knows are one scan by DuckDB. Other parts on columns are evaluated by CEL once for
each distinct combination of the values that they name. Parts on bodies are evaluated by CEL for the lines of the remaining rows.
"""
