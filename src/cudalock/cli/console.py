"""Draws the library's progress events on stderr."""

from __future__ import annotations

import sys
import threading
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
        self._drawing = threading.RLock()
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
        """Moves or opens the bar named ``what`` and closes it when it is full; called by several threads."""
        if not self._bars_wanted:
            return
        with self._drawing:
            progress = self._open_progress()
            if what not in self._tasks:
                self._tasks[what] = progress.add_task(clean(what), total=total, amount="")
            amount = _amount(done, total, unit)
            progress.update(self._tasks[what], completed=done, total=total, amount=amount)
            if total is not None and done >= total:
                progress.remove_task(self._tasks.pop(what))
            if not self._tasks:
                self.close()

    def close(self) -> None:
        """Takes the bars off the terminal."""
        with self._drawing:
            if self._progress is not None:
                self._progress.stop()
                self._progress = None
                self._tasks.clear()

    def _open_progress(self) -> Progress:
        if self._progress is None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                TextColumn("{task.fields[amount]}", markup=False),
                TimeElapsedColumn(),
                console=self.console,
                transient=True,
                redirect_stdout=False,  # stdout is data, and may lead elsewhere than this terminal
                redirect_stderr=False,
            )
            self._progress.start()
        return self._progress

    def _print(self, text: str, style: str, *, prefix: str, suffix: str = "") -> None:
        parts = [(f"{prefix}: ", style), text + suffix] if prefix else [(text, style)]
        emit_line(*parts, stderr=True, console=self.console if draws_on(sys.stderr) else None)


def _amount(done: int, total: int | None, unit: str) -> str:
    """``3/4``, ``1.2/5.0 MB``, or only what was done where nobody knows of how much."""
    if unit == "bytes":
        done_text, total_text = (f"{number / 1e6:,.1f}" for number in (done, total or 0))
        unit = "MB"
    else:
        done_text, total_text = f"{done:,}", f"{total or 0:,}"
    amount = done_text if total is None else f"{done_text}/{total_text}"
    return f"{amount} {unit}".rstrip()
