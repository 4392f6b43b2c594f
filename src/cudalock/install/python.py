"""Finds the interpreter that an environment is to be made with, without downloading one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet

from cudalock.errors import ToolError, UsageError

__all__ = ["Interpreter", "find_interpreter", "require_running"]

_QUESTION = """
import json, sys, sysconfig
free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
base = getattr(sys, "_base_executable", None) or sys.executable
print(json.dumps([sys.version.split()[0], free, base, sys.implementation.name]))
"""
_ANSWER_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """An interpreter that runs; ``version`` is e.g. ``3.12.1``."""

    path: Path
    version: str
    free_threaded: bool = False

    def __str__(self) -> str:
        return f"{self.version}{'t' if self.free_threaded else ''}"


def find_interpreter(
    request: str | None, requires: SpecifierSet | None, *, ask_uv: Callable[[str], Path | None] | None = None
) -> Interpreter:
    """The interpreter for ``request`` (``3.12``, ``3.14t``, ``3.12.1`` or a path), within ``requires``.

    Looked at in turn: the Python that runs cudalock, PATH, pyenv's versions, what uv knows (``ask_uv``). One that does
    not run, such as a shim without a version behind it, is passed over.

    Raises:
        UsageError: ``python-not-found``, at once, ``python-invalid`` (the request is not one) or ``python-mismatch``
            (the interpreter named is not one that the lock admits).
    """
    if request is not None and ("/" in request or "\\" in request or Path(request).is_file()):
        return _named(Path(request), requires)
    if request is not None and not re.fullmatch(r"3\.\d{1,2}(\.\d+)?t?", request):
        raise UsageError(
            "python-invalid",
            f"not a Python version or an interpreter: {request!r}",
            hint="write e.g. --python 3.12, --python 3.14t or --python /path/to/python",
        )
    for number, candidate in enumerate(_candidates(request, ask_uv)):
        found = (_ourselves(candidate) if number == 0 else None) or _ask(candidate)
        if found is not None and _fits(found, request, requires):
            return found
    wanted = f"Python {request}" if request else f"Python that fits {requires}" if requires else "Python"
    raise UsageError(
        "python-not-found",
        f"there is no {wanted} on this machine",
        hint="install it, name one with --python /path/to/python, or let uv fetch it with --download-python",
        details={"python": request, "requires-python": str(requires) if requires else None},
    )


def _named(path: Path, requires: SpecifierSet | None) -> Interpreter:
    found = _ask(path)
    if found is None:
        raise UsageError(
            "python-not-found", f"{path} is not a Python that runs", hint="name an interpreter with --python"
        )
    if requires is not None and not requires.contains(found.version, prereleases=True):
        raise UsageError(
            "python-mismatch",
            f"{path} is Python {found}; the lock is for {requires}",
            hint="name another with --python, or resolve for this one: cudalock resolve --python "
            + ".".join(found.version.split(".")[:2]),
        )
    return found


def _fits(found: Interpreter, request: str | None, requires: SpecifierSet | None) -> bool:
    if requires is not None and not requires.contains(found.version, prereleases=True):
        return False
    if request is None:
        return not found.free_threaded
    wanted = request.removesuffix("t").split(".")
    return found.free_threaded == request.endswith("t") and found.version.split(".")[: len(wanted)] == wanted


def _candidates(request: str | None, ask_uv: Callable[[str], Path | None] | None) -> Iterator[Path]:
    yield Path(getattr(sys, "_base_executable", None) or sys.executable)
    names = ["python3", "python"]
    if request is not None:
        minor = ".".join(request.removesuffix("t").split(".")[:2]) + ("t" if request.endswith("t") else "")
        names.insert(0, f"python{minor}")
    else:
        names += [f"python3.{minor}" for minor in range(14, 8, -1)]
    from shutil import which  # this far few come

    for name in names:
        if found := which(name):
            yield Path(found)
    root = Path(os.environ.get("PYENV_ROOT") or Path("~/.pyenv").expanduser())
    for folder in sorted((root / "versions").glob(f"{(request or '3').removesuffix('t')}*"), reverse=True):
        yield folder / "bin" / "python"
    if request is not None and ask_uv is not None and (path := ask_uv(request)) is not None:
        yield path


def _ourselves(python: Path) -> Interpreter | None:
    """If ``python`` is the very file that runs cudalock, what it would say of itself: it need not be started."""
    try:
        same = sys.platform == "linux" and os.path.samestat(Path("/proc/self/exe").stat(), python.stat())
    except OSError:
        return None
    if not same or sys.implementation.name != "cpython":
        return None
    version = sys.version.split()[0].removesuffix("+")
    return Interpreter(path=python, version=version, free_threaded="t" in sys.abiflags)


def _ask(python: Path) -> Interpreter | None:
    """What an interpreter says of itself; None if it does not run or is not CPython."""
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", _QUESTION],
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        version, free_threaded, base, implementation = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if implementation != "cpython":
        return None
    return Interpreter(path=Path(base), version=version.removesuffix("+"), free_threaded=free_threaded)


def require_running(python: Path) -> Interpreter:
    """The interpreter of an environment that is there.

    Raises:
        ToolError: ``python-broken``.
    """
    found = _ask(python)
    if found is None:
        raise ToolError(
            "python-broken",
            f"the environment's interpreter {python} does not run",
            hint="make the environment anew: cudalock install --clear",
        )
    return found
