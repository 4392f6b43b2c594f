"""What reaches the user: results on stdout, everything else on stderr, and nothing that could steer a terminal.

``stdout`` is data: either what the command prints for people or, with ``--json``, exactly one JSON object.
"""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["clean", "console_for", "draws_on", "emit_json", "emit_line", "emit_text"]

SCHEMA = 1
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def clean(text: str) -> str:
    """Text from outside made harmless: no escape sequences, no control or bidirectional characters.

    Line feeds and tabs stay. Everything that is removed is replaced by ``\N{REPLACEMENT CHARACTER}`` unless it belongs
    to a terminal escape sequence, which goes without a trace.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _ESCAPES.sub("", text)
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Co"} else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )


def emit_json(payload: Mapping[str, Any]) -> None:
    """Writes the one JSON object of a command to stdout, with the schema's number first."""
    document = {"schema": SCHEMA, **payload}
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=True) + "\n")
    sys.stdout.flush()


def emit_text(text: str) -> None:
    """Writes a result for people to stdout."""
    sys.stdout.write(clean(text).rstrip("\n") + "\n")
    sys.stdout.flush()


def draws_on(stream: TextIO) -> bool:
    """Whether colours may be wanted on a stream: a terminal, or what the environment declares to be one.

    Elsewhere text goes out as it is, without rich, whose import takes longer than many a command.
    """
    return stream.isatty() or bool(os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE"))


def emit_line(*parts: str | tuple[str, str], stderr: bool = False, console: Console | None = None) -> None:
    """Writes one line of texts, or (text, rich style) pairs, cleaned.

    ``console`` is the one to use on a terminal where there is one already; a bar may be moving on it.
    """
    pairs = [(clean(part), "") if isinstance(part, str) else (clean(part[0]), part[1]) for part in parts]
    stream = sys.stderr if stderr else sys.stdout
    try:
        if console is None and not draws_on(stream):
            stream.write("".join(text for text, _ in pairs) + "\n")
            stream.flush()
        else:
            from rich.text import Text

            (console or console_for(stderr=stderr)).print(Text.assemble(*pairs))
    except BrokenPipeError:
        if not stderr:
            raise
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - nobody hears us; the work goes on


def console_for(*, stderr: bool) -> Console:
    """A rich console on stdout or stderr; rich itself honours NO_COLOR, FORCE_COLOR and TTY_COMPATIBLE.

    When not on a terminal the width is wide enough that tables are not folded: logs and pipes are read by programs.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 160
    return Console(
        file=stream,
        stderr=stderr,
        width=width,
        soft_wrap=not stream.isatty(),
        markup=False,  # what is shown may come from anywhere
        emoji=False,
        highlight=False,
    )
