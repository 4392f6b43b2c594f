"""Everything that is run on this repository: `nox -l` lists it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2026.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["lint", "types", "tests"]

PROJECT = nox.project.load_toml("pyproject.toml")


def group(*names: str) -> list[str]:
    """The requirements of dependency groups of pyproject.toml."""
    return list(nox.project.dependency_groups(PROJECT, *names))


@nox.session(tags=["lint"])
def lint(session: nox.Session) -> None:
    """Ruff, formatting and the import contract."""
    session.install("-e", ".", *group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", "--no-cache")


@nox.session(tags=["lint"])
def types(session: nox.Session) -> None:
    """mypy, strict, over the package, the tests and this file."""
    session.install("-e", ".", *group("lint", "test"))
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """All tests that need neither a network nor a GPU; arguments go to pytest."""
    session.install("-e", ".", *group("test"))
    workers = [] if any(a.startswith("-n") for a in session.posargs) else ["-n", "auto", "--dist", "loadgroup"]
    session.run("pytest", *workers, *session.posargs)


@nox.session
def live(session: nox.Session) -> None:
    """The tests that talk to the package index that pip is configured for."""
    session.install("-e", ".", *group("test"))
    session.run("pytest", "-m", "live", "--force-enable-socket", *session.posargs)


@nox.session
def gpu(session: nox.Session) -> None:
    """The tests that need an NVIDIA GPU; CUDALOCK_TEST_PYTHON names the Python of an environment with torch."""
    session.install("-e", ".", *group("test"))
    session.run("pytest", "-m", "gpu", "--force-enable-socket", *session.posargs)


@nox.session
def package(session: nox.Session) -> None:
    """Builds sdist and wheel, installs the wheel into a bare environment and uses it there."""
    session.install(*group("build"))
    out = Path(session.create_tmp()) / "dist"
    shutil.rmtree(out, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(out), silent=True)
    wheel = next(out.glob("*.whl"))
    bare = Path(session.create_tmp()).resolve() / "bare"
    shutil.rmtree(bare, ignore_errors=True)
    session.run("python", "-m", "venv", str(bare))
    scripts = bare / ("Scripts" if os.name == "nt" else "bin")
    session.run(str(scripts / "python"), "-m", "pip", "install", "--quiet", str(wheel), external=True)
    cudalock = str(scripts / "cudalock")
    with session.chdir(bare):
        session.run(cudalock, "--version", external=True)
        session.run(cudalock, "detect", "--json", external=True)
        session.run(cudalock, "check", "--json", success_codes=[2], external=True)  # there is no lock: a typed answer


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Builds the site; the reference is generated from the code and the data."""
    session.install("-e", ".", *group("docs"))
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html")


@nox.session(default=False, tags=["update"])
def update_data(session: nox.Session) -> None:
    """Reads newer releases from the index and prints what would change in data/; `-- --write` writes it."""
    session.install("-e", ".")
    session.run("python", "data/update.py", *session.posargs)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """cudalock, uv and pip on a snapshot of real pages over a loopback index; arguments go to the benchmark."""
    session.install("-e", ".")
    arguments = session.posargs or ["--output", str(Path(session.create_tmp()) / "bench.json")]
    session.run("python", "-m", "benchmarks", *arguments)


@nox.session(default=False)
def faults(session: nox.Session) -> None:
    """Faults, kills, hostile input, secrets; CUDALOCK_FUZZ=100000 and CUDALOCK_KILLS=300 make the long run."""
    session.install("-e", ".", *group("test"))
    workers = [] if any(a.startswith("-n") for a in session.posargs) else ["-n", "auto"]
    session.run("pytest", "tests/faults", "tests/index/test_faults.py", *workers, *session.posargs)
