"""Every code that a reason or a finding carries stands in the catalogue: one fault has one name everywhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import cudalock
from cudalock import facts

SOURCE = Path(cudalock.__file__).parent
MAKERS = {"Reason", "Finding"}
SURELY_USED = {"driver-too-old", "gpu-not-in-wheel", "bitsandbytes-no-binary", "lock-drift"}


def texts(node: ast.expr) -> Iterator[str]:
    """The texts that an expression may be: a literal, or either side of a condition."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from texts(node.body)
        yield from texts(node.orelse)


def codes_in(tree: ast.Module) -> Iterator[str]:
    """Codes given to a reason or finding, and those first given to a variable named ``code`` in such a module."""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in MAKERS
    ]
    given = [keyword.value for call in calls for keyword in call.keywords if keyword.arg == "code"]
    for value in given:
        yield from texts(value)
    if any(isinstance(value, ast.Name) and value.id == "code" for value in given):
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "code" for t in node.targets):
                yield from texts(node.value)


def test_every_code_in_use_is_in_the_catalogue() -> None:
    used = {
        code: path.name
        for path in sorted(SOURCE.rglob("*.py"))
        for code in codes_in(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert used.keys() >= SURELY_USED, "the scan does not see what is there"
    assert {code: path for code, path in used.items() if code not in facts.finding_codes()} == {}


def test_codes_of_the_tables_are_in_the_catalogue() -> None:
    used = {bound.code for bounds in facts.implied_bounds().values() for bound in bounds}
    assert used == {"numpy2-with-old-torch"}
    assert used <= facts.finding_codes().keys()
