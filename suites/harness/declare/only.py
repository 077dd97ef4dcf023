"""``--only EXPR``: a small, safe expression over the fields of a case. Knows no case, only a mapping of fields."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping
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
_ALLOWED = (
    *(ast.Compare, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub),
    *(ast.Tuple, ast.List, ast.Constant, ast.Name, ast.Load),
    *_COMPARE,
)


class Only:
    """A compiled expression.

    Args:
        text: the expression.
        names: every field that some case has; another name is a UsageError that lists them.
    """

    def __init__(self, text: str, names: Collection[str]) -> None:
        self.text = text
        try:
            self._tree = ast.parse(text, mode="eval").body
            for node in ast.walk(self._tree):
                if not isinstance(node, _ALLOWED):
                    raise TypeError(f"{type(node).__name__} is not allowed")
        except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError) as error:
            reason = getattr(error, "msg", None) or str(error) or "nested too deeply"
            raise UsageError(
                f"--only {text!r}: {reason}; expected comparisons joined by and, or, not; for example: model == 'bert' "
                f"and threads in (1, 2). Fields of these cases: {', '.join(sorted(names))}"
            ) from None
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Name) and node.id not in names:
                raise UsageError(f"--only {text!r}: {unknown('field', node.id, names)}")

    def __call__(self, fields: Mapping[str, Any]) -> bool:
        """True where `fields` match. A comparison with a field that this case lacks is false."""
        try:
            return bool(self._value(self._tree, fields))
        except (TypeError, RecursionError) as error:
            raise UsageError(f"--only {self.text!r}: {error}") from None

    def _value(self, node: ast.expr, fields: Mapping[str, Any]) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return fields.get(node.id)
            case ast.Tuple() | ast.List():
                return tuple(self._value(part, fields) for part in node.elts)
            case ast.UnaryOp():
                value = self._value(node.operand, fields)
                return not value if isinstance(node.op, ast.Not) else -value
            case ast.BoolOp():
                parts = (self._value(part, fields) for part in node.values)
                return all(parts) if isinstance(node.op, ast.And) else any(parts)
            case ast.Compare():
                values = [self._value(part, fields) for part in (node.left, *node.comparators)]
                pairs = zip(node.ops, values, values[1:], strict=False)
                return None not in values and all(_COMPARE[type(op)](a, b) for op, a, b in pairs)
        raise AssertionError(node)
