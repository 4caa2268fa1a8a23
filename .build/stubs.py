"""Write the .pyi of each .pyx, so that mypy and editors know what an extension has; its types are in the .pyx and .pxd.

    argument          its annotation, else its C type: `bytes data` is bytes, `int64_t at` int, `Frame frame=None` Frame | None
    def               `-> T`
    cpdef             its C type, else `# type: (...) -> T` after the signature, as Cython takes no annotation there
    attribute         that is public or readonly: `# type: T` after it, else its C type (an import that only such comments
                      use says `# no-cython-lint`)
    constant          its annotation, else the type of its literal; any other constant is left out

Names that begin with an underscore are left out, and so is what has no annotation although its C types do not suffice:
mypy reports the first use of it. Names in types have to be imported or cimported by the .pyx or the .pxd, where
`if TYPE_CHECKING:` is respected.
"""

import ast
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from Cython.Compiler import ExprNodes, Nodes, Parsing
from Cython.Compiler.Main import FileSourceDescriptor
from Cython.Compiler.Scanning import PyrexScanner
from Cython.Compiler.Symtab import ModuleScope
from Cython.Compiler.TreeFragment import StringParseContext

INTEGER = re.compile(r"u?int(8|16|32|64)?(_t)?|char|short|long|Py_ssize_t|s?size_t|off_t|socklen_t")
TYPES = {"bint": "bool", "double": "float", "float": "float", "void": "None"}
BARE = {"object", "list", "tuple", "dict", "set", None}  # C types that are no types for mypy --strict
TYPE_COMMENT = re.compile(r"# type: (?:\(\.\.\.\) -> )?(.*?)(?:  # .*)?$")
LITERALS = {ExprNodes.IntNode: "int", ExprNodes.UnicodeNode: "str", ExprNodes.BytesNode: "bytes"}
RETURNS = {"__init__": "None", "__cinit__": "Self", "__len__": "int", "__eq__": "bool", "__hash__": "int"}
BUILTINS = set(dir(__builtins__)) if not isinstance(__builtins__, dict) else set(__builtins__)


class Source:
    """A .pyx or .pxd as Cython's parser reads it, with its lines, where the comments are."""

    def __init__(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        self.lines = text.splitlines()
        name = ".".join(path.with_suffix("").parts)
        context = StringParseContext(name)
        scope = ModuleScope(name, None, context)
        descriptor = FileSourceDescriptor(str(path), str(path))
        scanner = PyrexScanner(StringIO(text), descriptor, source_encoding="UTF-8", scope=scope, context=context)
        self.statements = list(flat(Parsing.p_module(scanner, path.suffix == ".pxd", name).body))

    def comment(self, node: Nodes.Node) -> str | None:
        """The type in the comment of a declaration, or behind a signature that may have several lines."""
        line = node.pos[1] - 1
        if isinstance(node, Nodes.CFuncDefNode):
            while not re.search(r":(  #.*)?$", self.lines[line]):
                line += 1
        found = TYPE_COMMENT.search(self.lines[line])
        return found[1] if found else None


def flat(node: Nodes.Node) -> Iterator[Nodes.Node]:
    """The statements of a block, those below `if` as well."""
    if isinstance(node, Nodes.StatListNode):
        for statement in node.stats:
            yield from flat(statement)
    elif isinstance(node, Nodes.IfStatNode):
        for clause in node.if_clauses:
            yield from flat(clause.body)
    elif isinstance(node, Nodes.CDefExternNode):
        return
    else:
        yield node


def c_type(node: Nodes.Node) -> str | None:
    """The Python type of a C type, or None if it says too little."""
    name = getattr(node, "name", None)
    if name in BARE or not isinstance(node, Nodes.CSimpleBaseTypeNode):
        return None
    return TYPES.get(name) or ("int" if INTEGER.fullmatch(name) else name)


def text_of(annotation: Nodes.Node | None) -> str | None:
    return annotation.string.value if annotation else None


def declared(argument: Nodes.CArgDeclNode) -> tuple[str, Nodes.Node | None]:
    """Name and C type of an argument; without a C type, Cython has the name where that would be."""
    name = argument.declarator.name
    base = argument.base_type
    return (name, base) if name else (base.name, None)


def signature(arguments: list, first_is_self: bool, node: Nodes.Node) -> str | None:
    """The text between the parentheses, or None if an argument has no type."""
    parts = []
    keywords = False
    for number, argument in enumerate(arguments):
        name, base = declared(argument)
        if number == 0 and first_is_self:
            parts.append(name)
            continue
        kind = text_of(argument.annotation) or (c_type(base) if base else None)
        if kind is None:
            return None
        if isinstance(argument.default, ExprNodes.NoneNode) and "None" not in kind:
            kind = f"{kind} | None"
        if argument.kw_only and not keywords:
            keywords = True
            parts.append(f"*{node.star_arg.name}: {text_of(node.star_arg.annotation)}" if node.star_arg else "*")
        parts.append(f"{name}: {kind}{' = ...' if argument.default is not None else ''}")
    for stars in ("star_arg", "starstar_arg"):
        extra = getattr(node, stars, None)
        if extra and not (keywords and stars == "star_arg"):
            parts.append(f"{'*' if stars == 'star_arg' else '**'}{extra.name}: {text_of(extra.annotation)}")
    return ", ".join(parts)


class Stub:
    """The stub of one extension, made line by line."""

    def __init__(self, path: Path) -> None:
        self.pyx = Source(path)
        pxd = path.with_suffix(".pxd")
        self.pxd = Source(pxd) if pxd.is_file() else None
        self.sources = [source for source in (self.pxd, self.pyx) if source]
        self.lines: list[str] = []
        self.left_out: list[str] = []

    def text(self) -> str:
        for source in self.sources:
            for node in source.statements:
                if isinstance(node, Nodes.CEnumDefNode) and node.create_wrapper:
                    self.add_enum(node)
        for node in self.pyx.statements:
            self.add(node, "")
        body = "\n".join(self.lines) + "\n"
        return "\n".join([*self.imports(body), "", body])

    def add(self, node: Nodes.Node, indent: str) -> None:
        if isinstance(node, Nodes.CClassDefNode):
            if node.body and not node.class_name.startswith("_"):
                self.add_class(node)
        elif isinstance(node, Nodes.PyClassDefNode) and not node.name.startswith("_"):
            self.add_python_class(node)
        elif isinstance(node, Nodes.DefNode):
            self.add_def(node, indent)
        elif isinstance(node, Nodes.CFuncDefNode) and node.overridable:
            declarator = node.declarator
            returned = self.pyx.comment(node) or c_type(node.base_type)
            self.add_function(declarator.base.name, declarator.args, declarator, returned, [], indent)
        elif isinstance(node, Nodes.SingleAssignmentNode):
            self.add_constant(node)

    def add_function(self, name: str, arguments: list, node, returned: str | None, decorators, indent: str) -> None:
        if name.startswith("_") and name not in RETURNS and name != "__iter__":
            return
        parameters = signature(arguments, bool(indent) and "staticmethod" not in decorators, node)
        returned = returned or RETURNS.get(name)
        if name == "__eq__":
            parameters = "self, other: object"
        if parameters is None or returned is None:
            self.left_out.append(f"{indent}{name}")
            return
        if name == "__cinit__":
            name, parameters = "__new__", parameters.replace("self", "cls", 1)
        self.lines += [f"{indent}@{decorator}" for decorator in decorators]
        self.lines.append(f"{indent}def {name}({parameters}) -> {returned}: ...")

    def add_def(self, node: Nodes.DefNode, indent: str) -> None:
        decorators = []
        for expression in (decorator.decorator for decorator in node.decorators or []):
            if isinstance(expression, ExprNodes.NameNode):
                decorators.append(expression.name)
            elif isinstance(expression, ExprNodes.AttributeNode) and expression.obj.name != "cython":
                decorators.append(f"{expression.obj.name}.{expression.attribute}")
        returned = text_of(node.return_type_annotation)
        if any(name.endswith(".setter") for name in decorators):
            returned = "None"
        self.add_function(node.name, node.args, node, returned, decorators, indent)

    def add_class(self, node: Nodes.CClassDefNode) -> None:
        bases = [base.name for base in node.bases.args] if node.bases else []
        decorators = [one.decorator.attribute for one in node.decorators or [] if hasattr(one.decorator, "attribute")]
        if "final" in decorators:
            self.lines.append("@final")
        start = len(self.lines)
        attributes = list(self.attributes(node.class_name))
        for name, kind, readonly in attributes:
            if readonly:
                self.lines += ["    @property", f"    def {name}(self) -> {kind}: ..."]
            else:
                self.lines.append(f"    {name}: {kind}")
        methods = list(flat(node.body)) if node.body else []
        has_init = any(getattr(method, "name", "") == "__init__" for method in methods)
        for method in methods:
            if not (has_init and getattr(method, "name", "") == "__cinit__"):
                self.add(method, "    ")
        end = "" if len(self.lines) > start else " ..."
        inherits = f"({', '.join(bases)})" if bases else ""
        self.lines.insert(start, f"class {node.class_name}{inherits}:{end}")

    def attributes(self, class_name: str) -> Iterator[tuple[str, str, bool]]:
        """(name, type, whether it is readonly) of a class's public attributes."""
        for source in self.sources:
            classes = [one for one in source.statements if isinstance(one, Nodes.CClassDefNode)]
            for node in [one for one in classes if one.class_name == class_name and one.body]:
                for declaration in flat(node.body):
                    if not isinstance(declaration, Nodes.CVarDefNode) or declaration.visibility == "private":
                        continue
                    kind = source.comment(declaration) or c_type(declaration.base_type)
                    for declarator in declaration.declarators:
                        if kind is None:
                            self.left_out.append(f"{class_name}.{declarator.name}")
                        else:
                            yield declarator.name, kind, declaration.visibility == "readonly"

    def add_python_class(self, node: Nodes.PyClassDefNode) -> None:
        bases = ", ".join(base.name for base in node.bases.args)
        self.lines.append(f"class {node.name}({bases}):")
        start = len(self.lines)
        for statement in flat(node.body):
            if isinstance(statement, Nodes.SingleAssignmentNode):
                value = getattr(statement.rhs, "value", "...")
                self.lines.append(f"    {statement.lhs.name} = {value}")
            else:
                self.add(statement, "    ")
        if len(self.lines) == start:
            self.lines[-1] += " ..."

    def add_enum(self, node: Nodes.CEnumDefNode) -> None:
        """A `cpdef enum`: an IntEnum in Python, or constants of the module if it has no name."""
        indent = "    " if node.name else ""
        if node.name:
            self.lines.append(f"class {node.name}(IntEnum):")
        self.lines += [f"{indent}{item.name}{' = ...' if node.name else ': int'}" for item in node.items]

    def add_constant(self, node: Nodes.SingleAssignmentNode) -> None:
        is_several = isinstance(node.lhs, ExprNodes.TupleNode) and isinstance(node.rhs, ExprNodes.TupleNode)
        for name, value in zip(node.lhs.args, node.rhs.args, strict=True) if is_several else [(node.lhs, node.rhs)]:
            kind = text_of(getattr(name, "annotation", None)) or LITERALS.get(type(value))
            if isinstance(value, ExprNodes.SimpleCallNode) and getattr(value.function, "name", None) == "IntEnum":
                members = [f"    {pair.key.value} = ..." for pair in value.args[1].key_value_pairs]
                self.lines += [f"class {name.name}(IntEnum):", *members]
            elif kind == "TypeAlias":
                self.lines.append(self.pyx.lines[node.pos[1] - 1])
            elif kind and not name.name.startswith("_"):
                self.lines.append(f"{name.name}: {kind}")

    def imports(self, body: str) -> list[str]:
        """The imports of the sources that the types need."""
        nodes = list(ast.walk(ast.parse(body)))
        own = {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        needed = {node.id for node in nodes if isinstance(node, ast.Name)} - own - BUILTINS
        origins = {"final": "typing", "Self": "typing", "IntEnum": "enum"}
        for source in self.sources:
            for node in source.statements:
                if isinstance(node, Nodes.FromCImportStatNode) and node.module_name.startswith("kproxy."):
                    origins |= {one[1]: node.module_name for one in node.imported_names}
                elif isinstance(node, Nodes.FromImportStatNode):
                    origins |= {name: node.module.module_name.value for name, _ in node.items}
        wanted = sorted((origins[name], name) for name in needed & set(origins))
        unknown = needed - set(origins)
        if unknown:
            raise SystemExit(f"{self.pyx.lines[0]}: types that are not imported: {', '.join(sorted(unknown))}")
        modules = sorted({origin for origin, _ in wanted})
        return [f"from {one} import {', '.join(name for origin, name in wanted if origin == one)}" for one in modules]


def write_stubs() -> None:
    """Write what changed, so that mypy's cache stays valid for the rest."""
    for path in sorted(Path("kproxy").rglob("*.pyx")):
        text = Stub(path).text()
        stub = path.with_suffix(".pyi")
        if not stub.is_file() or stub.read_text(encoding="utf-8") != text:
            stub.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_stubs()
