"""Installs a lock into the environment of a nox session.

In a ``noxfile.py``::

    import nox
    from cudalock.nox import install

    @nox.session(python="3.12")
    def tests(session: nox.Session) -> None:
        install(session, "pylock.toml")
        session.run("pytest")

cudalock must be installed beside nox: it runs with the same Python as the noxfile, not in the session's environment.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from cudalock.errors import UsageError

if TYPE_CHECKING:
    import nox

__all__ = ["install"]

_CONDA = frozenset({"conda", "mamba", "micromamba"})


def install(
    session: nox.Session,
    lock: str | os.PathLike[str] = "pylock.toml",
    *,
    verify: bool = False,
    installer: str | None = None,
    wheelhouse: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> None:
    """Makes the session's environment hold exactly what ``lock`` says.

    What the lock does not have is removed, so install the project itself afterwards, without its dependencies:
    ``session.install("--no-deps", "-e", ".")``.

    Args:
        session: the session; it needs an environment of its own (any backend but ``none``).
        lock: path of the lock, relative to the noxfile's folder.
        verify: run the GPU compile test afterwards and fail the session if it fails.
        installer: ``uv`` (the default) or ``pip``.
        wheelhouse: a folder made by ``cudalock fetch``, from which alone files are taken.
        force: go on where the lock's contract excludes this machine.

    The session fails with cudalock's own message if the lock cannot be installed.

    Raises:
        UsageError: ``nox-session-invalid``: what is given is not the session.
    """
    location = _environment_of(session)
    if location is None:
        session.error("a lock needs a session with a virtual environment of its own; python=False and conda have none")
    arguments = ["install", "--lock", os.fspath(lock), "--venv", location, "--sync"]
    if not verify:
        arguments.append("--no-verify")
    if installer is not None:
        arguments += ["--installer", installer]
    if wheelhouse is not None:
        arguments += ["--wheelhouse", os.fspath(wheelhouse)]
    if force:
        arguments.append("--force")
    session.run(sys.executable, "-m", "cudalock", *arguments, external=True)


def _environment_of(session: nox.Session) -> str | None:
    """The folder of the session's virtual environment; None if it has none that a lock can be put into."""
    if not all(hasattr(type(session), name) for name in ("virtualenv", "run", "error")):
        raise UsageError(
            "nox-session-invalid",
            f"install() was given {type(session).__name__!r} and needs the session itself",
            hint="call it in a function decorated with @nox.session: install(session, 'pylock.toml')",
        )
    try:
        location = getattr(session.virtualenv, "location", None)
    except ValueError:  # nox's own answer where none was created
        return None
    return str(location) if location is not None and session.venv_backend not in _CONDA else None
