"""Small changes of a source text: comparisons, constants, and/or, negations, arithmetic, indices.

A mutation replaces one expression by another, as text, so that it can be shown as a line of a diff. Annotations,
docstrings, decorators, tuning constants at the top of a module, and assertions are not mutated, because changes
there do not affect answers.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
SWAPPED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


@dataclass(frozen=True, slots=True)
class Mutation:
    """Replaces text[start:end] of a module by `new`; `number` distinguishes equal mutations in one function."""

    module: str
    function: str
    line: int
    start: int
    end: int
    old: str
    new: str
    number: int

    @property
    def key(self) -> str:
        """An identity that does not depend on the rest of the function's text."""
        return f"{self.module}:{self.function}: {self.old} -> {self.new} #{self.number}"

    def rank(self, seed: int) -> str:
        """A number that puts mutations in a random order that does not depend on other code."""
        return hashlib.sha256(f"{seed}:{self.key}".encode()).hexdigest()

    def apply(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]

    def diff(self, text: str) -> list[str]:
        """The lines that differ."""
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.end)
        old, mutated = text[first:last], self.apply(text)
        new = mutated[first : last + len(mutated) - len(text)]
        return [f"- {line}" for line in old.split("\n")] + [f"+ {line}" for line in new.split("\n")]


class _Finder(ast.NodeVisitor):
    """Collects (node, replacement, name of the function) in one module."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.expr, ast.expr, str]] = []
        self._names: list[str] = []

    # --- not mutated ---

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if self._names and node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if self._names:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        return

    def visit_arg(self, node: ast.arg) -> None:
        return

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            if isinstance(part, ast.FunctionDef):
                self._function(part, f"{node.name}.{part.name}")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node, node.name)

    def _function(self, node: ast.FunctionDef, name: str) -> None:
        self._names.append(name)
        for part in node.body:
            self.visit(part)
        self._names.pop()

    def _add(self, node: ast.expr, new: ast.expr) -> None:
        if self._names:
            self.found.append((node, new, ".".join(self._names)))

    # --- mutated ---

    def visit_Compare(self, node: ast.Compare) -> None:
        for place, operator in enumerate(node.ops):
            ops: list[ast.cmpop] = list(node.ops)
            ops[place] = COMPARED[type(operator)]()
            self._add(node, ast.Compare(node.left, ops, node.comparators))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add(node, ast.BoolOp(other, node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.Invert):
            self._add(node, node.operand)
        elif isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            self._add(node, ast.UnaryOp(ast.USub(), ast.Constant(node.operand.value + 1)))
            return
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in SWAPPED:
            self._add(node, ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int:
            self._add(node, ast.Constant(node.value + 1))
            if node.value > 0:
                self._add(node, ast.Constant(node.value - 1))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        return


def mutations(module: str, text: str) -> Iterator[Mutation]:
    """Every mutation of a module's text."""
    finder = _Finder()
    finder.visit(ast.parse(text))
    starts = [0, *(at + 1 for at, char in enumerate(text) if char == "\n")]
    assert all(len(text[a:b].encode()) == b - a for a, b in pairwise(starts)), f"{module} is not ASCII"
    seen: Counter[tuple[str, str, str]] = Counter()
    for node, new, function in finder.found:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        old, written = text[start:end], f"({ast.unparse(ast.fix_missing_locations(new))})"
        if isinstance(new, ast.Constant):
            written = written[1:-1]
        place = (function, old, written)
        seen[place] += 1
        yield Mutation(module, function, node.lineno, start, end, old, written, seen[place])
