"""Takes over the conditions on sizes for which a captured program, one path through the model's code, is right."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch.fx import Node

from engine.errors import ShapeError
from engine.exporter.handlers import Refusal
from engine.exporter.symbols import Symbols

_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Not: operator.not_,
    ast.USub: operator.neg,
}
_CHOICES = {"max": max, "min": min}
_DATA = re.compile(r"\.(stride|storage_offset)\(\)")
"""Of conditions on memory: a program accepts inputs of any strides."""


def record_guards(code: Iterable[str], inputs: Sequence[Node], symbols: Symbols) -> list[str]:
    """Record the guards of a capture in the scope of `symbols`, which has to be deciding.

    `code` has conditions as torch writes them, ``L['x'].size()[0] % 3 == 0``, which are read and never executed.
    Returns those that cannot be recorded, because they are no formulas of sizes of the inputs.
    """
    reader = _Reader({node.name: node for node in inputs}, symbols)
    unknown = []
    for line in code:
        if _DATA.search(line):
            continue
        try:
            is_met = reader.read(ast.parse(line, mode="eval").body)
        except (Refusal, ShapeError, SyntaxError, TypeError):
            is_met = False
        if not is_met:
            unknown.append(line)
    return unknown


class _Reader:
    """Evaluates conditions with formulas in place of sizes, so that each comparison becomes a guard."""

    def __init__(self, inputs: Mapping[str, Node], symbols: Symbols) -> None:
        self._inputs = inputs
        self._symbols = symbols

    def read(self, node: ast.AST) -> Any:
        """The value of an expression for the example. Refusal if it has a part that is no formula of sizes."""
        match node:
            case ast.Constant(int() as value):
                return value
            case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self.read(left), self.read(right))
            case ast.BinOp(left, ast.Pow(), ast.Constant(int() as exponent)) if exponent > 0:
                return math.prod([self.read(left)] * exponent)
            case ast.UnaryOp(op, operand) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self.read(operand))
            case ast.BoolOp(ast.And(), values):
                return all(self.read(value) for value in values)
            case ast.BoolOp(ast.Or(), values):
                return any(self.read(value) for value in values)
            case ast.Compare(left, ops, comparators) if all(type(op) in _OPERATORS for op in ops):
                terms = [self.read(one) for one in (left, *comparators)]
                pairs = zip(ops, pairwise(terms), strict=True)
                return all(_OPERATORS[type(op)](*pair) for op, pair in pairs)
            case ast.Call(ast.Name(name), args, []) if name.lower() in _CHOICES:
                return _CHOICES[name.lower()](*map(self.read, args))
            case ast.Subscript(ast.Call(ast.Attribute(tensor, "size"), [], []), ast.Constant(int() as axis)):
                return self._size(_name(tensor), axis)
        raise Refusal(f"{ast.unparse(node)} is no formula of sizes")

    def _size(self, name: str, axis: int) -> Any:
        value = self._inputs[name].meta.get("val") if name in self._inputs else None
        if not isinstance(value, torch.Tensor):
            raise Refusal(f"{name} is no input")
        return self._symbols.size(value.shape[axis])


def _name(tensor: ast.AST) -> str:
    """Torch's name of the placeholder for the input that a condition writes as ``L['options']['mask']``."""
    match tensor:
        case ast.Subscript(ast.Name("L"), ast.Constant(key)):
            return str(key)
        case ast.Subscript(outer, ast.Constant(key)):
            return f"{_name(outer)}_{re.sub(r'[^a-z0-9]', '_', str(key).lower())}"
    raise Refusal(f"{ast.unparse(tensor)} is no input")
