"""``--only EXPR``: a small, safe expression over the fields of a case. Knows no case, only a mapping of fields."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from engine.suggest import unknown
from suites.harness.errors import UsageError

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_HELP = "expected comparisons joined by and, or, not; for example: model == 'bert' and threads in (1, 2)"


class Only:
    """A compiled expression.

    Args:
        text: the expression.
        names: every field that some case has; another name is a UsageError that lists them.
    """

    def __init__(self, text: str, names: Iterable[str]) -> None:
        self.text = text
        self._names = set(names)
        try:
            self._tree = ast.parse(text, mode="eval").body
            self._check(self._tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            is_deep = isinstance(error, RecursionError | MemoryError)
            reason = "nested too deeply" if is_deep else getattr(error, "msg", None) or str(error)
            raise UsageError(f"--only {text!r}: {reason}; {_HELP}. {self._fields()}") from None

    def __call__(self, fields: Mapping[str, Any]) -> bool:
        """True where `fields` match. A comparison with a field that this case lacks is false."""
        return bool(self._value(self._tree, fields))

    def _check(self, node: ast.expr) -> None:
        if isinstance(node, ast.Name):
            if node.id not in self._names:
                raise UsageError(f"--only {self.text!r}: {unknown('field', node.id, self._names)}")
        elif isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
            for part in (node.left, *node.comparators):
                self._check(part)
        elif isinstance(node, ast.BoolOp):
            for part in node.values:
                self._check(part)
        elif isinstance(node, ast.Tuple | ast.List):
            for part in node.elts:
                self._check(part)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            self._check(node.operand)
        elif not isinstance(node, ast.Constant):
            raise UsageError(f"--only {self.text!r}: {ast.unparse(node)!r} is not allowed; {_HELP}. {self._fields()}")

    def _fields(self) -> str:
        return f"Fields of these cases: {', '.join(sorted(self._names))}"

    def _value(self, node: ast.expr, fields: Mapping[str, Any]) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return fields.get(node.id)
            case ast.Tuple() | ast.List():
                return tuple(self._value(part, fields) for part in node.elts)
            case ast.UnaryOp(op=ast.Not()):
                return not self._value(node.operand, fields)
            case ast.UnaryOp():
                return self._negative(node, fields)
            case ast.BoolOp(op=ast.And()):
                return all(self._value(part, fields) for part in node.values)
            case ast.BoolOp():
                return any(self._value(part, fields) for part in node.values)
            case ast.Compare():
                return self._compare(node, fields)
        raise UsageError(f"--only {self.text!r}: {ast.unparse(node)!r} is not allowed; {_HELP}")

    def _negative(self, node: ast.UnaryOp, fields: Mapping[str, Any]) -> Any:
        value = self._value(node.operand, fields)
        if not isinstance(value, int | float):
            raise UsageError(f"--only {self.text!r}: {ast.unparse(node)!r} is not a number")
        return -value

    def _compare(self, node: ast.Compare, fields: Mapping[str, Any]) -> bool:
        values = [self._value(part, fields) for part in (node.left, *node.comparators)]
        if any(value is None for value in values):
            return False
        try:
            return all(_COMPARE[type(op)](a, b) for op, a, b in zip(node.ops, values, values[1:], strict=False))
        except TypeError:
            kinds = ", ".join(f"{value!r}" for value in values)
            raise UsageError(f"--only {self.text!r}: these cannot be compared: {kinds}") from None
