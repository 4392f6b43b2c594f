"""The decorator that makes a function a command of cudalock."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from cudalock.cli.console import ConsoleReporter
from cudalock.cli.options import common_options
from cudalock.cli.session import Session

__all__ = ["command"]


class _ConfiguredCommand(click.Command):
    """A command whose defaults come from ``[tool.cudalock]``: flag > environment > configuration > default."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        session = Session()
        asks_for_help = any(argument in {"-h", "--help"} for argument in args)
        extra.setdefault("default_map", {} if asks_for_help else session.option_defaults())
        extra.setdefault("obj", session)
        return super().make_context(info_name, args, parent, **extra)


def command(name: str) -> Callable[[Callable[..., int | None]], click.Command]:
    """Makes ``function(session, **options) -> exit status`` the command ``name`` with the options common to all."""

    def decorate(function: Callable[..., int | None]) -> click.Command:
        @functools.wraps(function)
        def invoke(*, as_json: bool, verbose: int, quiet: int, no_progress: bool, **options: Any) -> int:
            session = click.get_current_context().find_object(Session) or Session()
            session.as_json = as_json
            session.reporter = ConsoleReporter(verbose - quiet, bars=not no_progress)
            try:
                return function(session, **options) or 0
            finally:
                session.reporter.close()

        decorated = common_options(invoke)
        return click.command(name, cls=_ConfiguredCommand, context_settings={"help_option_names": ["-h", "--help"]})(
            decorated
        )

    return decorate
