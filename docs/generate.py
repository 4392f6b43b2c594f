"""Writes the generated part of the reference: findings, environment variables and tables."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from cudalock import facts
from cudalock.cli.main import _COMMANDS


def write_reference(folder: Path) -> None:
    """Writes all generated pages into ``folder``; unchanged pages are left alone, so that builds stay incremental."""
    (folder / "findings").mkdir(parents=True, exist_ok=True)
    _write(folder / "environment.md", _environment_page())
    _write(folder / "commands.rst", _commands_page())
    codes = facts.finding_codes()
    for code, row in codes.items():
        _write(folder / "findings" / f"{code}.md", _finding_page(code, row))
    _write(folder / "findings.md", _findings_index(list(codes)))


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _commands_page() -> str:
    parts = ["Commands", "========", ""]
    for name, (module, _) in _COMMANDS.items():
        parts += [f".. click:: {module}:command", f"   :prog: cudalock {name}", "   :nested: full", ""]
    return "\n".join(parts)


def _environment_page() -> str:
    seen: dict[str, tuple[str, set[str]]] = {}
    for name, (module, _) in _COMMANDS.items():
        command = importlib.import_module(module).command
        for parameter in command.params:
            if isinstance(parameter, click.Option) and isinstance(parameter.envvar, str):
                seen.setdefault(parameter.envvar, (parameter.help or "", set()))[1].add(name)
    rows = [
        "# Environment variables",
        "",
        "Every option can be given as `CUDALOCK_<OPTION>`; lists are separated by `;`.",
        "A flag beats the environment, the environment beats `[tool.cudalock]` in `pyproject.toml`.",
        "",
        "| variable | commands | meaning |",
        "|---|---|---|",
    ]
    for variable, (text, where) in sorted(seen.items()):
        rows.append(f"| `{variable}` | {', '.join(sorted(where))} | {text} |")
    return "\n".join(rows) + "\n"


def _finding_page(code: str, row: facts.FindingRow) -> str:
    lines = [f"# {code}", "", f"{row.title}.", "", f"Severity: {row.severity}.", "", row.meaning]
    if row.fix:
        lines += ["", "## What to do", "", row.fix]
    return "\n".join(lines) + "\n"


def _findings_index(codes: list[str]) -> str:
    listing = "\n".join(f"findings/{code}" for code in codes)
    return f"# Findings\n\nOne fault, one name, in every command.\n\n```{{toctree}}\n:maxdepth: 1\n\n{listing}\n```\n"
