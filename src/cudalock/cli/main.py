"""The command group, and the one place where errors end."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from cudalock import __version__
from cudalock.cli.output import clean, emit_json
from cudalock.errors import CudalockError, InternalError, UsageError
from cudalock.spelling import near_words

__all__ = ["cli", "run"]

_COMMANDS: Mapping[str, tuple[str, str]] = {
    "detect": ("cudalock.cli.commands.detect", "driver, GPUs, platform and Python of this machine"),
    "resolve": (
        "cudalock.cli.commands.resolve",
        "requirements -> one consistent triple and its closure -> pylock.toml",
    ),
    "install": ("cudalock.cli.commands.install", "the lock -> a fresh virtual environment, then the GPU compile test"),
    "verify": ("cudalock.cli.commands.verify", "compile and run kernels in an environment, on every GPU"),
    "check": ("cudalock.cli.commands.check", "does the lock fit this machine, and the environment the lock? offline"),
    "fetch": ("cudalock.cli.commands.fetch", "the lock's files into a folder, for machines without network"),
    "matrix": ("cudalock.cli.commands.matrix", "torch releases x CUDA builds for a target: admitted, or why not"),
    "inspect": ("cudalock.cli.commands.inspect", "what a requirement, wheel, URL or environment really contains"),
    "doctor": ("cudalock.cli.commands.doctor", "what is wrong with this machine or environment, with fixes"),
    "explain": ("cudalock.cli.commands.explain", "an error message or log -> finding, cause, fix"),
    "kernels": ("cudalock.cli.commands.kernels", "Triton and Inductor caches: list, prune what is of no use, clear"),
    "run": ("cudalock.cli.commands.run", "check, then run a program in place of cudalock"),
    "watch": ("cudalock.cli.commands.watch", "count the Triton compilations of a program, with the cause of each"),
}

_INTERRUPTED = 130
_DISK_FAULTS = frozenset(
    getattr(errno, name, -1) for name in ("ENOSPC", "EDQUOT", "EROFS", "EFBIG", "EACCES", "EPERM", "EIO")
)
_PATH_FAULTS = frozenset({errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP})


class _EndedBySignal(KeyboardInterrupt):
    """SIGTERM or SIGHUP: like Ctrl-C, so that children end and what was begun is put back."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class _LazyGroup(click.Group):
    """Imports a command's module only when that command runs: ``--help`` needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(_COMMANDS[cmd_name][0])
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            near = near_words(args[0], _COMMANDS, most=2)
            raise UsageError(
                "unknown-command",
                f"there is no command {args[0]!r}",
                hint=f"did you mean {' or '.join(near)}?" if near else f"commands: {', '.join(_COMMANDS)}",
            )
        return super().resolve_command(ctx, args)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=False)
@click.version_option(__version__, "-V", "--version", prog_name="cudalock", message="%(prog)s %(version)s")
def cli() -> None:
    """Puts PyTorch on machines with NVIDIA GPUs so that it works the first time and every time after.

    detect -> resolve -> install -> verify, then check. Every command answers for programs with --json.
    Exit status: 0 done, 1 the answer is no, 2 usage, 3 index or network, 4 an external tool failed.
    """


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns the exit status; every error ends here, as text or as JSON."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments  # the rest is another program's
    as_json = "--json" in ours or os.environ.get("CUDALOCK_JSON", "") not in {"", "0", "false"}
    try:
        with _ending_on_signals():
            status = cli.main(args=list(arguments), prog_name="cudalock", standalone_mode=False)
    except CudalockError as error:
        return _report(error, as_json=as_json)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        sys.stderr.write(error.format_message() + "\n")
        return UsageError.exit_status
    except click.ClickException as error:
        return _report(_usage_error(error), as_json=as_json)
    except _EndedBySignal as ended:
        sys.stderr.write(f"\nended by {signal.Signals(ended.number).name}\n")
        return 128 + ended.number
    except (KeyboardInterrupt, click.Abort) as interruption:
        if isinstance(interruption.__context__, _EndedBySignal):  # click makes every interruption its own
            sys.stderr.write(f"\nended by {signal.Signals(interruption.__context__.number).name}\n")
            return 128 + interruption.__context__.number
        sys.stderr.write("\ninterrupted\n")
        return _INTERRUPTED
    except SystemExit as leave:  # how click and rich end where the reader of our output has gone
        if not (isinstance(leave.__context__, BrokenPipeError) or _reader_has_gone()):
            raise
        # Nobody is left to tell, and the interpreter must not try again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
        return 0
    except OSError as error:
        if (fault := _path_fault(error)) is not None:
            return _report(fault, as_json=as_json)
        if error.errno not in _DISK_FAULTS:
            return _report(_internal_error(error), as_json=as_json)
        return _report(_disk_error(error), as_json=as_json)
    except Exception as error:  # noqa: BLE001 - the last line of defence: a bug is reported, not thrown at the user
        return _report(_internal_error(error), as_json=as_json)
    return status if isinstance(status, int) else 0


@contextlib.contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP interrupt, unless somebody (``nohup``) has decided otherwise."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, _frame: object) -> None:
        raise _EndedBySignal(number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _reader_has_gone() -> bool:
    """Whether nobody can read any more what is written to stdout, where the system tells."""
    if not hasattr(select, "poll") or sys.__stdout__ is None:
        return False
    poll = select.poll()
    poll.register(sys.__stdout__.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _path_fault(error: OSError) -> UsageError | None:
    """What is wrong with a path that somebody gave, or with the folder that we are in; None for anything else."""
    try:
        os.getcwd()  # noqa: PTH109 - only whether there is one
    except OSError:
        return UsageError(
            "working-folder-gone",
            "the working folder was removed or cannot be read",
            hint="change to a folder that is there",
        )
    if error.errno not in _PATH_FAULTS:
        return None
    return UsageError(
        "path-unusable",
        f"{error.filename or 'a path'} cannot be used: {(error.strerror or str(error)).lower()}",
        hint="give another path",
    )


def _disk_error(error: OSError) -> UsageError:
    return UsageError(
        "disk-write-failed",
        f"{error.filename or 'a file or the output'} cannot be written: {(error.strerror or str(error)).lower()}",
        hint="free space on the disk, or choose folders that can be written (also TMPDIR and CUDALOCK_CACHE_DIR)",
    )


def _usage_error(error: click.ClickException) -> UsageError:
    hint = None
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"see `{error.ctx.command_path} --help`"
    return UsageError("usage", error.format_message(), hint=hint)


def _internal_error(error: Exception) -> InternalError:
    import traceback

    if os.environ.get("CUDALOCK_DEBUG"):
        traceback.print_exc()
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(last.filename)}:{last.lineno}"  # noqa: PTH119 - a label, not a path to open
    return InternalError(
        "internal-error",
        f"a bug in cudalock: {type(error).__name__}: {error} ({place})",
        hint="run it again with CUDALOCK_DEBUG=1 and report the output together with the command line",
        details={"exception": type(error).__name__, "place": place},
    )


def _report(error: CudalockError, *, as_json: bool) -> int:
    try:
        _tell(error, as_json=as_json)
    except OSError:  # the output itself is what cannot be written
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.stderr.write(f"error: {clean(error.message)} [{error.code}]\n")
    return error.exit_status


def _tell(error: CudalockError, *, as_json: bool) -> None:
    if as_json:
        emit_json({"error": _cleaned(error.to_json())})
    else:
        from cudalock.cli.render import print_error

        print_error(error.message, error.code, error.hint)


def _cleaned(value: Any) -> Any:
    """JSON escapes control characters by itself; what must not pass are values that JSON does not know."""
    if isinstance(value, Mapping):
        return {str(k): _cleaned(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_cleaned(v) for v in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
