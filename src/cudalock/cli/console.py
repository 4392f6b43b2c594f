"""Draws the library's progress events on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cudalock.cli.output import clean, console_for, draws_on, emit_line
from cudalock.progress import Level, Reporter

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

__all__ = ["ConsoleReporter"]

_STYLES: dict[str, tuple[str, str]] = {
    "warning": ("warning", "bold yellow"),
    "note": ("note", "bold cyan"),
    "info": ("", "dim"),
    "debug": ("", "dim"),
}


class ConsoleReporter(Reporter):
    """Shows steps, notes and progress bars on stderr.

    ``verbosity`` is the number of ``-v`` minus the number of ``-q``: below 0 only warnings appear, below -1 nothing;
    1 adds ``info`` (requests and decisions), 2 adds ``debug``. Bars appear on a terminal only.
    """

    def __init__(self, verbosity: int = 0, *, bars: bool = True) -> None:
        self.verbosity = verbosity
        self._bars_wanted = bars and verbosity >= 0 and sys.stderr.isatty()
        self._console: Console | None = None
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._shown: set[tuple[str, str]] = set()

    @property
    def console(self) -> Console:
        """The console on stderr, made when it is first needed: importing rich takes longer than many commands."""
        if self._console is None:
            self._console = console_for(stderr=True)
        return self._console

    def step(self, text: str) -> None:
        """A stage has begun."""
        if self.verbosity >= 0:
            self._print(text, "green", prefix="")

    def message(self, level: Level, text: str, *, code: str | None = None) -> None:
        """A note or warning is shown once, however often it is reported."""
        needed = {"warning": -1, "note": 0, "info": 1, "debug": 2}[level]
        if self.verbosity < needed or (level in {"warning", "note"} and (level, text) in self._shown):
            return
        self._shown.add((level, text))
        prefix, style = _STYLES[level]
        self._print(text, style, prefix=prefix, suffix=f" [{code}]" if code and level == "warning" else "")

    def output(self, line: str) -> None:
        """What an external tool printed."""
        if self.verbosity >= 0:
            self._print(f"  {line}", "dim", prefix="")

    def advance(self, what: str, done: int, total: int | None, *, unit: str = "") -> None:
        """Moves or opens the bar named ``what`` and closes it when it is full."""
        if not self._bars_wanted:
            return
        progress = self._open_progress()
        if what not in self._tasks:
            self._tasks[what] = progress.add_task(clean(what), total=total, unit=unit)
        progress.update(self._tasks[what], completed=done, total=total)
        if total is not None and done >= total:
            progress.remove_task(self._tasks.pop(what))
        if not self._tasks:
            self.close()

    def close(self) -> None:
        """Takes the bars off the terminal."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
            self._tasks.clear()

    def _open_progress(self) -> Progress:
        if self._progress is None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                TextColumn("{task.completed:,.0f}/{task.total:,.0f} {task.fields[unit]}"),
                TimeElapsedColumn(),
                console=self.console,
                transient=True,
            )
            self._progress.start()
        return self._progress

    def _print(self, text: str, style: str, *, prefix: str, suffix: str = "") -> None:
        parts = [(f"{prefix}: ", style), text + suffix] if prefix else [(text, style)]
        emit_line(*parts, stderr=True, console=self.console if draws_on(sys.stderr) else None)
