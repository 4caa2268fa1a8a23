"""One exchange: whole, as a tree beside its bytes, or compared with another one.

detail.py      one exchange, whole
frame_tree.py  the tree of a frame, with what is inside its fields
positions.py   where each field of a message is in its bytes
comparing.py   two exchanges, field by field
"""
