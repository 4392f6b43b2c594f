"""The environment under examination: its Python, its folders, its headers; asked of the Python itself, with a limit."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cudalock.errors import UsageError
from cudalock.lock.environment import site_packages

__all__ = ["Interpreter", "find_environment", "read_interpreter"]

_TIME_LIMIT_S = 4.0
# Nothing is imported but the standard library; `site` has run, so that .pth files and the user's folder count.
_QUESTION = """
import json, os, site, sys, sysconfig
include = sysconfig.get_path("include")
print(json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3] + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""),
    "executable": sys.executable, "prefix": sys.prefix,
    "site": list(dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib"),
                                *[p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]])),
    "user_site": site.getusersitepackages() if site.ENABLE_USER_SITE else None,
    "headers": include if os.path.isfile(os.path.join(include or "", "Python.h")) else None,
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """One Python and its folders of packages; ``headers`` None: ``Python.h`` is missing; ``asked`` False: guessed."""

    executable: Path
    version: str | None
    site: tuple[Path, ...]
    user_site: Path | None = None
    headers: str | None = None
    asked: bool = True


def find_environment(venv: Path | None, python: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The Python to examine: the named one, else that of VIRTUAL_ENV, CONDA_PREFIX or ``.venv``; None if there is none.

    Raises:
        UsageError: ``python-missing``, ``venv-missing`` or ``venv-invalid`` for a named one that is not there.
    """
    if python is not None:
        if not python.is_file():
            raise UsageError("python-missing", f"there is no Python {python}", hint="give the path of the interpreter")
        return python
    if venv is not None:
        if not venv.is_dir():
            raise UsageError("venv-missing", f"there is no environment {venv}", hint="give its folder with --venv")
        executable = _python_in(venv)
        if executable is None:
            hint = "give the folder of a virtual or conda environment, or --python EXE"
            raise UsageError("venv-invalid", f"{venv} holds no Python", hint=hint)
        return executable
    for folder in (environ.get("VIRTUAL_ENV"), environ.get("CONDA_PREFIX"), ".venv"):
        if folder and (executable := _python_in(Path(folder))):
            return executable
    return None


def _python_in(folder: Path) -> Path | None:
    candidates = (folder / "bin/python", folder / "bin/python3", folder / "Scripts/python.exe", folder / "python.exe")
    # lexists: a dangling link is an environment whose Python was removed, and still has packages to look at
    return next((path for path in candidates if path.exists() or path.is_symlink()), None)


def read_interpreter(executable: Path, environ: Mapping[str, str]) -> Interpreter:
    """Asks a Python for its folders; one that does not answer in time is described by its files."""
    try:
        answer = subprocess.run(
            [str(executable), "-c", _QUESTION],
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIME_LIMIT_S,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            check=False,
        )
        said = json.loads(answer.stdout.strip().splitlines()[-1])
        return Interpreter(
            executable=Path(said["executable"] or executable),
            version=said["version"],
            site=tuple(Path(folder) for folder in said["site"] if folder and Path(folder).is_dir()),
            user_site=Path(said["user_site"]) if said["user_site"] and Path(said["user_site"]).is_dir() else None,
            headers=said["headers"],
        )
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError, KeyError, TypeError):
        return _by_files(executable)


def _by_files(executable: Path) -> Interpreter:
    folder = executable.parent.parent
    version = None
    config = folder / "pyvenv.cfg"
    if config.is_file():
        text = config.read_text(encoding="utf-8", errors="replace")
        match = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+(?:\.\d+)?)", text, re.MULTILINE)
        version = match[1] if match else None
    return Interpreter(executable=executable, version=version, site=site_packages(folder), asked=False)
