"""One exchange in detail, as a tree of fields beside its bytes, or compared with another exchange.

detail.py      the answer for one exchange: row, both sides, errors, records
frame_tree.py  the tree of a frame, including decoded contents of bytes fields
positions.py   where each field of a message is in its bytes
comparing.py   two exchanges, field by field
"""
