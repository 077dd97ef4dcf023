"""Takes over the conditions on sizes for which a captured program, one path through the model's code, is right."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch.fx import Node

from engine.errors import ShapeError
from engine.exporter.handlers import Refusal
from engine.exporter.symbols import Symbols
from engine.sizes import Real

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
_REALS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_CHOICES = {"max": max, "min": min}
_DATA = re.compile(r"\.(stride|storage_offset)\(\)")
"""Of conditions on memory: a program accepts inputs of any strides."""


def record_guards(code: Iterable[str], inputs: Sequence[Node], symbols: Symbols) -> list[str]:
    """Record the guards of a capture in the scope of `symbols`, which has to be deciding.

    `code` has conditions as torch writes them, ``L['x'].size()[0] % 3 == 0``, which are read and never executed.
    Returns those that cannot be recorded, because they are no formulas of sizes of the inputs.
    """
    known = {node.name: node for node in inputs}

    def find_size(name: str, axis: int) -> Any:
        value = known[name].meta.get("val") if name in known else None
        if not isinstance(value, torch.Tensor):
            raise Refusal(f"{name} is no input")
        return symbols.size(value.shape[axis])

    unknown = []
    for line in code:
        if _DATA.search(line):
            continue
        try:
            condition = ast.parse(line, mode="eval").body
            try:
                is_met = _evaluate(condition, find_size)
            except Refusal:
                number = _read_real(condition, find_size)
                is_met = number.evaluate(symbols.scope.example)
                symbols.scope.conditions += (number,) if is_met else ()
        except (Refusal, ShapeError, SyntaxError, TypeError, ValueError):
            is_met = False
        if not is_met:
            unknown.append(line)
    return unknown


def _evaluate(node: ast.AST, find_size: Callable[[str, int], Any]) -> Any:
    """The value of an expression for the example, with formulas in place of sizes: each comparison becomes a guard.

    `find_size` gives the size of an axis of an input. Refusal if a part is no formula of sizes.
    """
    read = partial(_evaluate, find_size=find_size)
    match node:
        case ast.Constant(int() as value):
            return value
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](read(left), read(right))
        case ast.BinOp(left, ast.Pow(), ast.Constant(int() as exponent)) if exponent > 0:
            return math.prod([read(left)] * exponent)
        case ast.UnaryOp(op, operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](read(operand))
        case ast.BoolOp(ast.And(), values):
            return all(read(value) for value in values)
        case ast.BoolOp(ast.Or(), values):
            return any(read(value) for value in values)
        case ast.Compare(left, ops, comparators) if all(type(op) in _OPERATORS for op in ops):
            terms = [read(one) for one in (left, *comparators)]
            pairs = zip(ops, pairwise(terms), strict=True)
            return all(_OPERATORS[type(op)](*pair) for op, pair in pairs)
        case ast.Call(ast.Name(name), args, []) if name.lower() in _CHOICES:
            return _CHOICES[name.lower()](*map(read, args))
        case ast.Subscript(ast.Call(ast.Attribute(tensor, "size"), [], []), ast.Constant(int() as axis)):
            return find_size(_name(tensor), axis)
    raise Refusal(f"{ast.unparse(node)} is no formula of sizes")


def _read_real(node: ast.AST, find_size: Callable[[str, int], Any]) -> Any:
    """As `_evaluate`, with floats: the expression itself, a comparison as a number that is 0 or 1."""
    read = partial(_read_real, find_size=find_size)
    match node:
        case ast.Constant(float() | int() as value):
            return value
        case ast.BinOp(left, ast.Sub(), right):
            return Real("+", (read(left), Real("*", (-1, read(right)))))
        case ast.BinOp(left, op, right) if type(op) in _REALS:
            return Real(_REALS[type(op)], (read(left), read(right)))
        case ast.UnaryOp(ast.USub(), operand):
            return Real("*", (-1, read(operand)))
        case ast.Compare(left, [ast.Gt() | ast.GtE() as op], [right]):
            return Real("<" if isinstance(op, ast.Gt) else "<=", (read(right), read(left)))
        case ast.Compare(left, [op], [right]) if type(op) in _REALS:
            return Real(_REALS[type(op)], (read(left), read(right)))
        case ast.Call(ast.Attribute(ast.Name("math"), "sqrt" | "trunc" as name), [operand], []):
            return Real(name, (read(operand),))
        case ast.Call(ast.Name("float") | ast.Attribute(ast.Name("torch"), "sym_float"), [operand], []):
            return read(operand)
    return _evaluate(node, find_size)


def _name(tensor: ast.AST) -> str:
    """Torch's name of the placeholder for the input that a condition writes as ``L['options']['mask']``."""
    match tensor:
        case ast.Subscript(ast.Name("L"), ast.Constant(key)):
            return str(key)
        case ast.Subscript(outer, ast.Constant(key)):
            return f"{_name(outer)}_{re.sub(r'[^a-z0-9]', '_', str(key).lower())}"
    raise Refusal(f"{ast.unparse(tensor)} is no input")
