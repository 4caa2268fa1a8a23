"""Conditions in CEL made at random: of all types, right and wrong, with names and values of exchanges."""

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

INTEGERS = ["connection", "apiKey", "apiVersion", "correlationId", "requestSize", "responseSize", "assumedVersion"]
NUMBERS = ["latencyMs", "requestInProxyMs", "brokerMs", "responseInProxyMs"]
TEXTS = ["client", "broker", "apiName", "clientId", "requestAt", "responseAt", "unanswered", "principal", "undecoded", "layout",
         "bodies", "event"]  # fmt: skip
TIMES = ["requestAt", "responseAt"]
LISTS = ["topics", "groups", "edited"]
TRUTHS = ["expectsResponse"]
BODIES = ["request.groupId", "response.errorCode", "response.throttleTimeMs", "request.topics", "requestHeader.clientId",
          "size(errors)", "errors[0].code", "trailing.request", "missing", "embedded", "topicNames"]  # fmt: skip
OF_BODIES = ["has(request.groupId)", "has(response.errorCode)", "has(trailing.request)", "errors.exists(e, e.code == 27)",
             "errors == []", "errors.all(e, e.name != 'NONE')", "size(errors) > 0", "trailing == null",
             "request != null && has(request.topics) && request.topics.exists(t, size(t) > 1)"]  # fmt: skip
EDGES = [
    "0", "1", "-1", "2", "9223372036854775807", "-9223372036854775808", "0x1F", "4294967296", "9007199254740993",
    "3u", "0u",
]  # fmt: skip
UNSIGNED = ["0u", "1u", "3u", "0x1Fu", "18446744073709551615u", "9223372036854775808U", "4294967296u"]
DIGITS = [
    "'7'", "'+12'", "'-0'", "'007'", "'-'", "''", "' 1'", "'9223372036854775808'", "'1_0'", "'1.0'", "clientId",
    "string(apiKey)",
]  # fmt: skip
SPANS = [
    "'1s'", "'1ms'", "'500us'", "'1h'", "'1.5s'", "'x'", "'1h30m'", "'1.1s'", "'0.001s'", "'2.007m'", "'-1s'",
    "'1s500ms'",
]  # fmt: skip
FLOATS = ["0.0", "1.5", "-2.5", "1e3", "1e308", ".5", "1.0", "3.0", "9007199254740992.0", "-0.0"]
STRINGS = [
    '""', "'a'", "'é'", '"日本"', r'"\u00e9\x41\n\""', r"r'\d'", r"R'\'", "'''it's'''", '"""x"y"""', "'1'", "'12.5'", "'true'",
    r"'\\'", "'2026'", "'2025-11-21T'", "'2026-11-21T09:30:00Z'", "'2026-11-21T09:30'", '"%_"', "'\U0001f600'",
]  # fmt: skip
PATTERNS = [
    "'^c'", r"'\\d+$'", r"r'^\w+-\d'", "'[a-f0-9]+'", "'a|b|'", "'(?i)CONS'", "'('", "'^.{3,5}$'", "'[^-]*-[0-9]'", "''", "'a**'",
    "'(a|e)+[.]?'", r"r'\bapi\b'", r"'\\.'", "'[[:alpha:]]'", "'[a&&b]'", r"r'\p{L}'", "'x{2,1}'", "'(?:et)+'", "'^$'", "'.'",
    "'[z-a]'", "'(?P<n>a)'", r"'T1.:[0-9]{2}'", "'9092$'",
]  # fmt: skip
ORDERS = ["<", "<=", ">", ">="]
EQUALS = ["==", "!="]
METHODS = ["getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes",
           "getSeconds", "getMilliseconds"]  # fmt: skip


class Maker:
    """Makes conditions; *samples* are exchanges as values by name."""

    def __init__(self, seed: int, samples: Sequence[Mapping[str, Any]]) -> None:
        self._source = Random(seed)
        self._samples = samples
        self._bound: list[str] = []

    def condition(self) -> str:
        """One condition, with spaces and comments at times."""
        made = self.truth(self._source.randrange(1, 5))
        if self._one_in(12):
            made = self._source.choice([f" {made}\n", f"({made})", f"// what\n{made} // it is", f"\t!!({made})"])
        return made

    def truth(self, depth: int) -> str:
        """Of type truth, mostly."""
        if self._one_in(25):
            return self.any(depth - 1)
        made = [self._comparison] * 6 + [self._searching] * 3 + [self._member] * 2 + [self._leaf]
        if depth > 0:
            made += [self._joined] * 4 + [self._negated, self._chosen_truth, self._macro, self._macro]
        return self._source.choice(made)(depth - 1)

    def integer(self, depth: int) -> str:
        """Of type integer, mostly."""
        pick = self._source.randrange(10) if depth > 0 else self._source.randrange(4)
        if pick < 2:
            return self._source.choice(INTEGERS)
        if pick < 4:
            return self._source.choice([self._literal(self._source.choice(INTEGERS)), self._source.choice(EDGES)])
        if pick < 7:
            return f"({self.integer(depth - 1)} {self._source.choice('+-*/%')} {self.integer(depth - 1)})"
        if pick == 7:
            of = self._source.choice([self.text, self.texts])(depth - 1)
            return self._source.choice([f"size({of})", f"({of}).size()"])
        if pick == 8:
            return self._source.choice(
                [
                    f"int({self.any(depth - 1)})",
                    f"-{self.integer(0)}",
                    f"timestamp({self._time()}).{self._source.choice(METHODS)}()",
                    f"(timestamp({self._time()}) - timestamp({self._time()})).{self._source.choice(METHODS[6:])}()",
                    f"size({self._items(depth - 1)}.filter(y, {self._of_item('y')}))",
                    f"{self._items(depth - 1)}[{self._source.choice(['0', '1', '-1', 'apiKey'])}]",
                    f"int({self.number(depth - 1)})",
                    f"int({self.unsigned(depth - 1)})",
                    f"int({self._source.choice(DIGITS)})",
                ]
            )
        return f"({self.truth(depth - 1)} ? {self.integer(depth - 1)} : {self._source.choice([self.integer(depth - 1), 'null'])})"

    def unsigned(self, depth: int) -> str:
        """Of type unsigned, mostly."""
        pick = self._source.randrange(5) if depth > 0 else self._source.randrange(2)
        if pick == 0:
            return self._source.choice(UNSIGNED)
        if pick == 1:
            return f"uint({self._source.choice(INTEGERS + NUMBERS)})"
        if pick == 2:
            return f"uint({self._source.choice([self.integer, self.number])(depth - 1)})"
        return f"({self.unsigned(depth - 1)} {self._source.choice('+-*/%')} {self.unsigned(depth - 1)})"

    def number(self, depth: int) -> str:
        """Of type number, mostly."""
        pick = self._source.randrange(8) if depth > 0 else self._source.randrange(4)
        if pick < 2:
            return self._source.choice(NUMBERS)
        if pick < 4:
            return self._source.choice([self._literal("latencyMs"), self._source.choice(FLOATS)])
        if pick < 6:
            return f"({self.number(depth - 1)} {self._source.choice('+-*/')} {self.number(depth - 1)})"
        return self._source.choice(
            [f"double({self.any(depth - 1)})", f"double({self.integer(depth - 1)})", f"-{self.number(0)}"]
        )

    def text(self, depth: int) -> str:
        """Of type text, mostly."""
        pick = self._source.randrange(9) if depth > 0 else self._source.randrange(5)
        if pick < 3:
            return self._source.choice(TEXTS + self._bound)
        if pick < 5:
            return self._source.choice([self._literal(self._source.choice(TEXTS)), self._source.choice(STRINGS)])
        if pick < 7:
            return f"({self.text(depth - 1)} + {self.text(depth - 1)})"
        return self._source.choice(
            [
                f"string({self.any(depth - 1)})",
                f"{self.texts(0)}[{self._source.choice(['0', '1', '-1', 'apiKey'])}]",
                f"string({self.integer(0)})",
                f"string({self.number(depth - 1)})",
                f"string(timestamp({self._time()}))",
            ]
        )

    def texts(self, depth: int) -> str:
        """A list of texts, mostly."""
        pick = self._source.randrange(8)
        if pick < 5 or depth <= 0:
            return self._source.choice(LISTS)
        if pick == 5:
            return f"[{', '.join(self.text(0) for _ in range(self._source.randrange(3)))}]"
        if pick == 6:
            return f"{self._source.choice(LISTS)}.{self._source.choice(['filter', 'map'])}(m, {self.truth(0)})"
        return f"({self._source.choice(LISTS)} + {self._source.choice(LISTS)})"

    def any(self, depth: int) -> str:
        """Of any type."""
        made = [self.integer, self.number, self.text, self.texts, self.truth, self._other]
        return self._source.choice(made)(max(depth, 0))

    def _other(self, _depth: int) -> str:
        return self._source.choice(
            ["null", "1 / 0", "[1, 2]", "{'a': 1}", "b'x'", "1u", *BODIES, *TRUTHS, "at", "type(apiKey)"]
        )

    def _leaf(self, _depth: int) -> str:
        return self._source.choice([*TRUTHS, "true", "false", "null", *OF_BODIES, "1 / 0 == 1"])

    def _comparison(self, depth: int) -> str:
        if self._one_in(8):
            return f"{self.any(depth)} {self._source.choice(ORDERS + EQUALS)} {self.any(depth)}"
        if self._one_in(12):
            return self._of_stamps()
        if self._one_in(12):
            return f"{self._items(depth)} {self._source.choice(EQUALS)} {self._items(depth)}"
        kind = self._source.choice([self.integer, self.integer, self.number, self.text, self.text, self.unsigned])
        other = self._source.choice([kind, kind, kind, self._null, self.number if kind == self.integer else kind])
        return f"{kind(depth)} {self._source.choice(ORDERS + EQUALS)} {other(depth)}"

    def _of_stamps(self) -> str:
        a, b = f"timestamp({self._time()})", f"timestamp({self._time()})"
        span = f"duration({self._source.choice(SPANS)})"
        if self._one_in(2):
            return f"{a} - {b} {self._source.choice(ORDERS + EQUALS)} {span}"
        if self._one_in(2):
            return f"{a} {self._source.choice('+-')} {span} {self._source.choice(ORDERS + EQUALS)} {b}"
        return f"{a} {self._source.choice(ORDERS + EQUALS)} {b}"

    def _time(self) -> str:
        return self._source.choice(
            [
                *TIMES,
                *TIMES,
                self._literal("requestAt"),
                "'2026-11-21T09:30:00Z'",
                "'2026-11-21T09:30:00.25Z'",
                "'x'",
                "clientId",
            ]
        )

    def _null(self, _depth: int) -> str:
        return "null"

    def _searching(self, depth: int) -> str:
        if self._one_in(3):
            return f"({self.text(depth)}).matches({self._source.choice(PATTERNS)})"
        function = self._source.choice(["contains", "startsWith", "endsWith"])
        return f"({self.text(depth)}).{function}({self.text(depth)})"

    def _member(self, depth: int) -> str:
        if self._one_in(3):
            return f"{self.text(depth)} in {self.texts(depth)}"
        kind = self._source.choice([self.integer, self.number, self.text, self.unsigned, self.any])
        items = ", ".join(kind(0) for _ in range(self._source.randrange(4)))
        return f"{kind(depth)} in [{items}]"

    def _joined(self, depth: int) -> str:
        signs = self._source.choice([" && ", " || ", "&&", "||"])
        made = signs.join(self.truth(depth) for _ in range(self._source.randrange(2, 4)))
        return f"({made})" if self._one_in(2) else made

    def _negated(self, depth: int) -> str:
        return self._source.choice(["!({})", "!!({})", "({}) == false", "({}) != true"]).format(self.truth(depth))

    def _chosen_truth(self, depth: int) -> str:
        return f"{self.truth(depth)} ? {self.truth(depth)} : {self.truth(depth)}"

    def _items(self, depth: int) -> str:
        """A list that is written out, or made of one."""
        kind = self._source.choice([self.integer, self.integer, self.number, self.text, self.unsigned, self.any])
        listed = f"[{', '.join(kind(max(depth - 1, 0)) for _ in range(self._source.randrange(4)))}]"
        if self._one_in(4):
            listed += f".map(z, {self._source.choice(['z', 'z + 1', 'z * 2.0', 'z + clientId', '1u', 'string(z)'])})"
        return listed

    def _of_item(self, name: str) -> str:
        """A condition on an item of any type."""
        made = ["{} == 1", "{} > 0", "{} % 2 == 0", "{} != null", "{} in topics", "{}.startsWith('c')", "1 / {} > 0", "{} > 1.5",
                "{} == clientId", "{} < latencyMs", "requestSize % {} == 0", "{} >= 1u", "size({}) > 3", "{}"]  # fmt: skip
        return self._source.choice(made).format(name)

    def _macro(self, depth: int) -> str:
        macro = self._source.choice(["exists", "all", "exists_one", "exists", "all", "existsOne"])
        if self._one_in(2):
            joint = self._source.choice([" && ", " || "])
            return f"{self._items(depth)}.{macro}(y, {self._of_item('y')}{joint}{self._of_item('y')})"
        name = self._source.choice(TEXTS) if self._one_in(20) else f"x{len(self._bound)}"
        of = self.texts(depth)
        self._bound.append(name)
        inside = self.truth(depth)
        self._bound.pop()
        return f"{of}.{self._source.choice(['exists', 'all', 'exists_one', 'exists', 'all'])}({name}, {inside})"

    def _literal(self, name: str) -> str:
        """A value that some exchange has, or a part of it."""
        value = self._source.choice(self._samples).get(name)
        if isinstance(value, str):
            if self._one_in(2):
                start = self._source.randrange(len(value) + 1) if self._one_in(2) else 0
                value = value[start : start + self._source.randrange(len(value) + 1)]
            return json.dumps(value, ensure_ascii=self._one_in(2)) if value.isascii() else repr(value)
        return "null" if value is None else repr(value)

    def _one_in(self, count: int) -> bool:
        return self._source.randrange(count) == 0
