# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Write rows into Arrow's memory value by value, without lists of rows; each value is looked at once.

A row's values may come in any order. A column without one has null, which costs nothing until the column's next value.
"""

from collections.abc import Callable
from typing import Any, TYPE_CHECKING

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_AsLongLong
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from kproxy.protocol.wire cimport Buffer, put as put_bytes, reserve

from kproxy.output.escaping import well_formed
from kproxy.output.tables.parquet import schema_of

if TYPE_CHECKING:
    from kproxy.output.tables.contracts import Table

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum Kind:
    BOOL = 0
    INTEGER = 1
    FLOAT = 2
    TEXT = 3
    LIST = 4

cdef enum:
    MOST = 0x7FFFFFFF  # Arrow's offsets are int32
    LEAST_ELEMENT = 4  # bytes of an element of a list, in addition to its text
    MOST_ROWS = 8_192  # rows held before they are written
    MOST_BYTES = 4_194_304  # bytes of text and lists in the held rows

ROWS: int = MOST_ROWS
BYTES: int = MOST_BYTES
WIDTHS = {"int8": 1, "int16": 2, "int32": 4, "int64": 8}


@cython.final
cdef class Column:
    """The values of one column so far. *kind* is Arrow's name of its type, as the contracts write it."""

    def __init__(self, str kind not None, bint nullable=True):
        self.nullable = nullable
        self.width = 4
        if kind.startswith("list<"):
            self.kind = LIST
            self.elements = Column(kind.removeprefix("list<").removesuffix(">"), False)
        elif kind == "string":
            self.kind = TEXT
            self.elements = Column("int8", False)  # its characters, as UTF-8
        elif kind == "bool":
            self.kind, self.width = BOOL, 1
        elif kind == "double":
            self.kind, self.width = FLOAT, 8
        elif kind.startswith("timestamp["):
            self.kind, self.width = INTEGER, 8
        else:
            self.kind, self.width = INTEGER, WIDTHS[kind]
        if self.kind >= TEXT:
            self.put_offset()

    def __dealloc__(self):
        free(self.values.data)
        free(self.validity.data)

    cdef int begin(self, Py_ssize_t row) except -1:
        """Begin the value of a row: the rows before it that have none get nulls. One put_ has to follow."""
        if self.count < row:
            self.put_nulls(row - self.count)
        elif self.count > row:
            raise ValueError("a row has two values for one column")
        if self.nulls:
            self.put_bits(&self.validity, 1, True)
        return 0

    cdef Py_ssize_t put(self, object value) except -1:
        """Append a value other than None; return the bytes of text in it."""
        cdef Py_ssize_t size = 0
        if self.kind == INTEGER:
            self.put_integer(PyLong_AsLongLong(value))
        elif self.kind == TEXT:
            return self.put_text(value)
        elif self.kind == LIST:
            for each in value:
                if each is None:
                    raise TypeError("null in a list")
                size += LEAST_ELEMENT + self.elements.put(each)
            self.end_list()
        elif self.kind == BOOL:
            self.put_bits(&self.values, 1, value)
            self.count += 1
        else:
            self.put_float(value)
        return size

    cdef int put_nulls(self, Py_ssize_t count) except -1:
        """Append nulls. A column has a bitmap of its nulls from the first one on."""
        cdef Py_ssize_t before = self.count
        cdef Py_ssize_t _
        if not self.nullable:
            raise TypeError("null in a column that has none")
        if not self.nulls:
            self.count = 0
            self.put_bits(&self.validity, before, True)
            self.count = before
        self.put_bits(&self.validity, count, False)
        if self.kind == BOOL:
            self.put_bits(&self.values, count, False)
        elif self.kind >= TEXT:
            for _ in range(count):
                self.put_offset()
        else:
            put_zeros(&self.values, count * self.width)
        self.count += count
        self.nulls += count
        return 0

    cdef int put_bits(self, Buffer *bits, Py_ssize_t count, bint bit) except -1:
        """Append *count* equal bits behind the ``self.count`` bits that are there."""
        cdef Py_ssize_t at
        cdef size_t needed = (self.count + count + 7) >> 3
        if needed > bits.size:
            put_zeros(bits, needed - bits.size)
        if bit:
            for at in range(self.count, self.count + count):
                bits.data[at >> 3] |= <uint8_t>(1 << (at & 7))
        return 0

    cdef int put_integer(self, int64_t value) except -1:
        cdef int64_t most
        if self.width < 8:
            most = (<int64_t>1 << (8 * self.width - 1)) - 1
            if not -most - 1 <= value <= most:
                raise OverflowError(f"{value} does not fit in {self.width} bytes")
        reserve(&self.values, 8)  # all eight bytes at once, little-endian as Arrow's memory: the next value overwrites those too many
        memcpy(self.values.data + self.values.size, &value, 8)
        self.values.size += self.width
        self.count += 1
        return 0

    cdef int put_float(self, double value) except -1:
        put_bytes(&self.values, &value, 8)
        self.count += 1
        return 0

    cdef Py_ssize_t put_text(self, object text) except -1:
        cdef Py_ssize_t size = 0
        cdef const char *data
        try:
            data = PyUnicode_AsUTF8AndSize(text, &size)
        except UnicodeEncodeError:
            text = well_formed(text)
            data = PyUnicode_AsUTF8AndSize(text, &size)
        put_bytes(&self.elements.values, data, size)
        return self.end_text(size)

    cdef Py_ssize_t put_wire_text(self, const uint8_t *text, Py_ssize_t size) except -1:
        """Append a string as it came; return its bytes. Bytes that are not UTF-8 become U+FFFD."""
        if not is_ascii(text, size):
            return self.put_text(PyUnicode_DecodeUTF8(<const char *>text, size, b"surrogateescape"))
        put_bytes(&self.elements.values, text, size)
        return self.end_text(size)

    cdef Py_ssize_t end_text(self, Py_ssize_t size) except -1:
        self.elements.count += size
        self.put_offset()
        self.count += 1
        return size

    cdef int end_list(self) except -1:
        """End a list whose elements were put into ``elements``."""
        self.put_offset()
        self.count += 1
        return 0

    cdef int put_offset(self) except -1:
        cdef int32_t end
        if self.elements.count > MOST:
            raise OverflowError("the rows held are larger than Arrow's columns may be")
        end = <int32_t>self.elements.count
        return put_bytes(&self.values, &end, 4)

    def array(self, kind):
        """Return what was appended as a pyarrow.Array of the type *kind*."""
        import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

        buffers = [pa.py_buffer(_bytes(&self.validity)) if self.nulls else None, pa.py_buffer(_bytes(&self.values))]
        children = None
        if self.kind == TEXT:
            buffers.append(pa.py_buffer(_bytes(&self.elements.values)))
        elif self.kind == LIST:
            children = [self.elements.array(kind.value_type)]
        return pa.Array.from_buffers(kind, self.count, buffers, self.nulls, children=children)


cdef bint is_ascii(const uint8_t *text, Py_ssize_t size) noexcept:
    cdef Py_ssize_t i
    cdef uint8_t seen = 0
    for i in range(size):  # without a way out, so that the compiler takes many bytes at once
        seen |= text[i]
    return seen < 0x80


cdef int put_zeros(Buffer *buffer, size_t count) except -1:
    reserve(buffer, count)
    memset(buffer.data + buffer.size, 0, count)
    buffer.size += count
    return 0


cdef bytes _bytes(Buffer *buffer):
    return PyBytes_FromStringAndSize(<const char *>buffer.data, buffer.size)


@cython.final
cdef class Rows:
    """Collects rows of a table, and writes them as a pyarrow.RecordBatch when there are enough.

    Strings may hold lone surrogates (bytes that were not UTF-8): they become U+FFFD. Raises TypeError or OverflowError
    for a value that does not fit its column; do not append anything afterwards.
    """

    def __init__(self, table: Table, write: Callable[[Table, Any], None]):
        self.table = table
        self.schema = schema_of(table)
        self.write = write
        self.begin()

    cdef int begin(self) except -1:
        self.columns = [Column(column.type, column.nullable) for column in self.table.columns]
        self.count = self.size = 0
        return 0

    cdef Column column(self, Py_ssize_t at):
        """Return a column, begun for the value of this row."""
        cdef Column column = <Column>PyList_GET_ITEM(self.columns, at)
        column.begin(self.count)
        return column

    cdef int put(self, Py_ssize_t at, object value) except -1:
        """Set the value of this row in column *at*; None: null."""
        if value is not None:
            self.size += self.column(at).put(value)
        return 0

    cdef int put_part(self, Py_ssize_t at, tuple part) except -1:
        """Set the values of this row in the columns from *at* on."""
        if at + len(part) > PyList_GET_SIZE(self.columns):
            raise ValueError(f"a row of more than {len(self.columns)} values")
        for value in part:
            if value is not None:
                self.size += self.column(at).put(value)
            at += 1
        return 0

    cdef int end(self) except -1:
        """End the row."""
        self.count += 1
        if self.count >= MOST_ROWS or self.size >= MOST_BYTES:
            self.flush()
        return 0

    def append(self, tuple row not None: tuple[Any, ...]) -> None:
        """Append a row, one value for each column in order."""
        self.put_part(0, row)
        self.end()

    cpdef int flush(self) except -1:  # type: (...) -> None
        """Write the rows that are held."""
        cdef Column column
        if not self.count:
            return 0
        import pyarrow as pa  # noqa: PLC0415

        for column in self.columns:
            if column.count < self.count:
                column.put_nulls(self.count - column.count)
        arrays = [column.array(kind) for column, kind in zip(self.columns, self.schema.types, strict=True)]
        self.begin()
        self.write(self.table, pa.RecordBatch.from_arrays(arrays, schema=self.schema))
        return 0
