"""Reads TOML from anywhere: the one place that knows what of it can be used, shown and written again."""

from __future__ import annotations

import re
from typing import Any

import tomli

from cudalock.errors import nested_or_endless

__all__ = ["NotTomlError", "parse_toml"]

_LARGEST = 2**63  # what the specification asks every reader for, and beyond which it demands an error


class NotTomlError(ValueError):
    """A text that is no usable TOML; its message says why in words, ``line`` where the fault is known to be."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


def parse_toml(text: str) -> dict[str, Any]:
    """The document of a text; integers in it are within 64 bits, as TOML has them.

    Beyond that other tools would refuse it, and Python itself cannot print an integer of thousands of digits.

    Raises:
        NotTomlError: whatever is wrong with the text, nesting without end and endless numbers included.
    """
    try:
        document = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        match = re.search(r"line (\d+)", str(error))
        raise NotTomlError(str(error), int(match[1]) if match else None) from error
    except (ValueError, RecursionError) as error:
        raise NotTomlError(nested_or_endless(error)) from error
    _require_64_bits(document)
    return document


def _require_64_bits(document: dict[str, Any]) -> None:
    pending: list[dict[str, Any] | list[Any]] = [document]
    while pending:
        table = pending.pop()
        for key, value in table.items() if isinstance(table, dict) else enumerate(table):
            if isinstance(value, (dict, list)):
                pending.append(value)
            elif isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
                where = f"the integer of {key[:80]!r}" if isinstance(key, str) else "an integer in a list"
                raise NotTomlError(f"{where} is larger than TOML's 64 bits")
