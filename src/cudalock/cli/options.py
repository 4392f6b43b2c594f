"""Options that several commands share, each also readable from ``CUDALOCK_<OPTION>`` and ``[tool.cudalock]``.

One option has one name everywhere: ``--gpu``, ``CUDALOCK_GPU``, ``gpu = [...]``. Lists in the environment are separated
by ``;``. Precedence: flag > environment > ``[tool.cudalock]`` > default; click applies it, given ``default_map``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

__all__ = [
    "ListOption",
    "choice_options",
    "common_options",
    "file_options",
    "index_options",
    "option",
    "request_options",
    "target_options",
]

F = TypeVar("F", bound=Callable[..., Any])
_LONGEST_S = 1e6


class ListOption(click.Option):
    """A repeatable option whose environment variable holds a list separated by semicolons."""

    def value_from_envvar(self, ctx: click.Context) -> Any:
        """The variable's parts, empty ones dropped; None if it is unset or empty."""
        raw = self.resolve_envvar_value(ctx)
        if raw is None:
            return None
        return tuple(part.strip() for part in raw.split(";") if part.strip())


def option(*names: str, repeatable: bool = False, **settings: Any) -> Callable[[F], F]:
    """``click.option`` with the environment variable ``CUDALOCK_<NAME>`` of its first long name."""
    long_name = next(name for name in names if name.startswith("--")).split("/")[0]
    settings.setdefault("envvar", "CUDALOCK_" + long_name.removeprefix("--").replace("-", "_").upper())
    if repeatable:
        settings |= {"multiple": True, "cls": ListOption}
    settings.setdefault("callback", _usable)
    return click.option(*names, **settings)


def _usable(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
    """Refuses empty values: `--venv "$UNSET"` must not switch off what was asked for. And what no path may hold."""
    for one in value if isinstance(value, tuple) else (value,):
        if isinstance(one, str) and (not one.strip() or "\0" in one):
            raise click.BadParameter("a value that is not empty is needed")
        if isinstance(one, float) and not 0 < one < _LONGEST_S:
            raise click.BadParameter(f"a number of seconds above 0 and below {_LONGEST_S:,.0f} is needed")
    return value


def _all(decorators: Sequence[Callable[[F], F]]) -> Callable[[F], F]:
    def apply(function: F) -> F:
        for decorate in reversed(decorators):
            function = decorate(function)
        return function

    return apply


def common_options(function: F) -> F:
    """``--json``, ``-v``, ``-q`` and ``--no-progress``: every command has them."""
    return _all(
        [
            option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout."),
            option("-v", "--verbose", count=True, help="Say more; repeat for still more."),
            option("-q", "--quiet", count=True, help="Say less on stderr; repeat for silence. Results stay."),
            option("--no-progress", is_flag=True, help="Draw no progress bars."),
        ]
    )(function)


def target_options(*, several: bool = False) -> Callable[[F], F]:
    """The options that name a machine other than this one."""
    return _all(
        [
            option("--gpu", repeatable=True, metavar="NAME|X.Y", help="GPU by product name or compute capability."),
            option("--driver", metavar="VERSION", help="Version of the NVIDIA driver, e.g. 535.161.08."),
            option("--python", metavar="X.Y", help="Python of the target, e.g. 3.12 or 3.14t."),
            option(
                "--platform",
                metavar="PLATFORM",
                help="e.g. linux-x86_64, linux-aarch64, x86_64-manylinux_2_28, win-amd64.",
            ),
            option("--cpu", is_flag=True, help="Ask for CPU builds by name."),
            option("--target", repeatable=True, metavar="NAME", help="A target of [tool.cudalock.targets].")
            if several
            else option("--target", metavar="NAME", help="A target of [tool.cudalock.targets]."),
            option(
                "--facts", metavar="FILE", help="What `cudalock detect --json` printed on another machine; - for stdin."
            ),
        ]
    )


def choice_options(function: F) -> F:
    """What narrows or widens the choice of builds."""
    return _all(
        [
            option("--cuda", metavar="12.8|cu128", help="Only builds of this CUDA release."),
            option(
                "--compat",
                type=click.Choice(["native", "minor", "forward"]),
                help="How far to rely on CUDA compatibility.",
            ),
            option("--without-triton", is_flag=True, help="Waive the rule that triton must work on every GPU."),
            option("--no-pytorch-index", is_flag=True, help="Do not ask the PyTorch index."),
            option("--require-pytorch-index", is_flag=True, help="Fail if the PyTorch index cannot be reached."),
        ]
    )(function)


def index_options(function: F) -> F:
    """Where packages come from."""
    return _all(
        [
            option("--index-url", metavar="URL", help="The main index; default: the one that pip is configured for."),
            option(
                "--pytorch-index-url", metavar="URL", help="A mirror of the PyTorch index, up to and without the label."
            ),
            option("--offline", is_flag=True, help="Use only what is in the cache."),
            option("--allow-insecure-host", repeatable=True, metavar="HOST", help="Reach HOST by plain http:// too."),
            option("--cache-dir", type=click.Path(file_okay=False), help="Where responses are cached."),
            option(
                "--timeout",
                type=click.FloatRange(min=0, min_open=True),
                metavar="SECONDS",
                help="So long without a byte, a request counts as stalled; default: 15.",
            ),
            option("--retries", type=click.IntRange(min=0), metavar="N", help="How often a request is repeated."),
        ]
    )(function)


def file_options(function: F) -> F:
    """From where the files of a lock may come."""
    return _all(
        [
            option("--allowed-hosts", repeatable=True, metavar="HOST", help="Contact only these hosts."),
            option(
                "--allow-local-files", is_flag=True, help="Take file:// and files outside the folder of the lock too."
            ),
        ]
    )(function)


def request_options(function: F) -> F:
    """What is asked for, beside the arguments."""
    return _all(
        [
            option("-r", "--requirement", repeatable=True, metavar="FILE", help="A requirements file."),
            option("-c", "--constraint", repeatable=True, metavar="FILE", help="A constraints file."),
            option(
                "--project",
                metavar="DIR",
                help="The project whose dependencies are resolved; default: the current one.",
            ),
            option("--extra", repeatable=True, metavar="NAME", help="Also the project's extra NAME."),
            option("--group", repeatable=True, metavar="NAME", help="Also the project's dependency group NAME."),
            option("--exclude-newer", metavar="DATE", help="Ignore files uploaded after DATE."),
            option("--prerelease", repeatable=True, metavar="NAME", help="Allow pre-releases of NAME."),
            option("--allow-build", repeatable=True, metavar="NAME", help="Allow a source distribution of NAME."),
        ]
    )(function)
