"""What our code says to people when it refuses: the texts given to exceptions, followed to where they are written."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef


def bare_texts(source: str, exceptions: set[str]) -> list[str]:
    """Texts that are given to these exceptions without being translated, as `line: text`."""
    tree = ast.parse(source)
    following = Following(tree)
    return [
        f"{text.lineno}: {ast.unparse(text)}"
        for call, function in _calls(tree, None)
        if _name(call.func) in exceptions
        for text in following.bare(_words(call), function)
    ]


def _calls(node: ast.AST, function: Function | None) -> Iterator[tuple[ast.Call, Function | None]]:
    """Every call, and the function it stands in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child, function
        yield from _calls(child, child if isinstance(child, Function) else function)


def _words(call: ast.Call) -> ast.expr | None:
    """The last is for people; what stands before it is a field's name or a code."""
    return call.args[-1] if call.args else None


def _name(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


class Following:
    """Follows a text through variables and through the functions of its module."""

    def __init__(self, tree: ast.Module) -> None:
        self.functions = {each.name: each for each in ast.walk(tree) if isinstance(each, Function)}
        #: A variable may be made of itself, and a function may call itself.
        self.seen: set[ast.expr] = set()

    def bare(self, given: ast.expr | None, function: Function | None) -> Iterator[ast.expr]:
        if given is None or given in self.seen:
            return
        self.seen.add(given)
        if _is_text(given):
            yield given
        for part in _parts(given, function):
            yield from self.bare(part, function)
        called = self.functions.get(_name(given.func)) if isinstance(given, ast.Call) else None
        for end in ast.walk(called) if called else ():
            if isinstance(end, ast.Return):
                yield from self.bare(end.value, called)


def _is_text(given: ast.expr) -> bool:
    """With a letter in it: what only joins is in no language."""
    if isinstance(given, ast.JoinedStr):
        return any(map(_is_text, given.values))
    return isinstance(given, ast.Constant) and isinstance(given.value, str) and any(map(str.isalpha, given.value))


def _parts(given: ast.expr, function: Function | None) -> list[ast.expr]:
    """What the words are made of; what is filled in behind `%` is data."""
    match given:
        case ast.BinOp(left=left, op=ast.Mod()):
            return [left]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.BoolOp(values=values):
            return values
        case ast.Call(func=ast.Attribute(value=ast.Constant() as text)):
            return [text]  # "…".format(…)
        case ast.Name(id=name) if function is not None:
            return _assigned(name, function)
    return []


def _assigned(name: str, function: Function) -> list[ast.expr]:
    """What a variable of a function may hold."""
    found = []
    for each in ast.walk(function):
        match each:
            case (
                ast.Assign(targets=[ast.Name(id=to)], value=value) | ast.NamedExpr(target=ast.Name(id=to), value=value)
            ):
                found += [value] if to == name else []
    return found
