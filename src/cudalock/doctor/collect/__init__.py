"""Collects the evidence: read-only, each part bounded in time, nothing of the environment imported here.

The machine, the environment's Python and its caches are asked side by side; the whole takes under ten seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from packaging.requirements import Requirement

from cudalock.builds import Inspection, inspect_site
from cudalock.doctor.collect.caches import cache_folders
from cudalock.doctor.collect.distributions import read_distributions
from cudalock.doctor.collect.extensions import read_extensions
from cudalock.doctor.collect.interpreter import Interpreter, find_environment, read_interpreter
from cudalock.doctor.collect.libraries import compare, cuda_library, loaded_by_torch, wheel_libraries
from cudalock.doctor.collect.loader import Loader
from cudalock.doctor.collect.tools import cuda_home_release, find_compiler, nvcc_release, overrides, relevant_variables
from cudalock.doctor.model import Assemblers, Evidence, TorchFacts
from cudalock.errors import CudalockError
from cudalock.host import Host, ProbeCommands, detect
from cudalock.progress import SILENT, Reporter
from cudalock.versions import CudaVersion

__all__ = ["collect"]

_T = TypeVar("_T")
_SECONDS = 9.0


def collect(
    *,
    venv: Path | None = None,
    python: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    root: Path = Path("/"),
    commands: ProbeCommands | None = None,
    host: Host | None = None,
    reporter: Reporter = SILENT,
) -> Evidence:
    """Reads this machine and one environment.

    Args:
        venv: the environment's folder; None for that of VIRTUAL_ENV, CONDA_PREFIX or ``.venv``, if there is one.
        python: its interpreter, instead of ``venv``.
        environ: the environment variables in which the programs run that are to work.
        root: folder that stands for ``/`` for what belongs to the machine, for recorded trees.
        commands: of the machine's probes, for recorded machines.
        host: the machine, if it is known already.
        reporter: hears what each part took.

    Raises:
        UsageError: ``python-missing``, ``venv-missing`` or ``venv-invalid``.
    """
    clock = _Clock(reporter)
    executable = find_environment(venv, python, environ)
    with ThreadPoolExecutor(max_workers=4) as pool:
        machine = pool.submit(clock.timed("machine", lambda: host or _detect(root, environ, commands, reporter)))
        toolkit = pool.submit(clock.timed("toolkit", lambda: (nvcc_release(environ), cuda_home_release(environ))))
        assemblers = pool.submit(clock.timed("overrides", lambda: overrides(environ)))
        interpreter = clock.timed("python", lambda: read_interpreter(executable, environ))() if executable else None
        known = machine.result()
        mounts = root / "proc/mounts"
        caches = pool.submit(clock.timed("caches", lambda: cache_folders(environ, known.libc, mounts=mounts)))
        loader = Loader(
            environ, machine=known.machine or "", root=root, executable=interpreter.executable if interpreter else None
        )
        contents = _environment(interpreter, loader, clock) if interpreter else {}
        (nvcc, nvcc_version), home = toolkit.result()
        tools: dict[str, str | None] = {"cc": find_compiler(environ), "nvcc": nvcc}
        if interpreter and interpreter.asked:
            tools["python_headers"] = interpreter.headers
        libraries = (cuda_library(loader), *contents.pop("libraries", ()))
        return Evidence(
            host=known,
            complete=interpreter is not None,
            python=interpreter.version if interpreter else known.python,
            environment=str(executable) if executable else None,
            variables=relevant_variables(environ),
            variables_known=True,
            overrides=assemblers.result(),
            libraries=libraries,
            glibcxx=_glibcxx(loader),
            tools=tools,
            nvcc=nvcc_version,
            cuda_home=home,
            caches=caches.result(),
            driver_packages=_driver_packages(root) if known.container and known.container.kind else (),
            seconds=clock.seconds,
            **contents,
        )


def _detect(root: Path, environ: Mapping[str, str], commands: ProbeCommands | None, reporter: Reporter) -> Host:
    return detect(root=root, environ=environ, commands=commands, thorough=True, reporter=reporter)


class _Clock:
    """Remembers what each part took, and how much of the time for the whole is left."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.seconds: dict[str, float] = {}
        self.deadline = time.monotonic() + _SECONDS

    def timed(self, name: str, work: Callable[[], _T]) -> Callable[[], _T]:
        def run() -> _T:
            started = time.monotonic()
            try:
                return work()
            finally:
                self.seconds[name] = round(time.monotonic() - started, 3)
                self._reporter.message("debug", f"{name}: {self.seconds[name]:.2f} s")

        return run


def _environment(interpreter: Interpreter, loader: Loader, clock: _Clock) -> dict[str, Any]:
    """Everything below the environment's own folders."""
    distributions, gaps = clock.timed(
        "distributions", lambda: read_distributions(interpreter.site, interpreter.user_site, interpreter.version)
    )()
    site = (*interpreter.site, *([interpreter.user_site] if interpreter.user_site else []))
    loaded = clock.timed("loader", lambda: loaded_by_torch(loader, site, clock.deadline))()
    own = wheel_libraries(site)
    libraries = tuple(compare(loader, loaded, own, distributions, site))
    inspected = clock.timed("builds", lambda: _inspections(interpreter, clock))()
    extensions, whole = clock.timed(
        "extensions", lambda: read_extensions(distributions, site, loader, loaded, clock.deadline)
    )()
    if not whole:
        gaps = (*gaps, "not all compiled extensions could be read in time")
    if not interpreter.asked:
        gaps = (*gaps, f"{interpreter.executable} did not answer, so its folders were guessed")
    missing = sorted(name for name, found in loaded.items() if found.path is None and name.startswith("lib"))
    return {
        "distributions": distributions,
        "libraries": libraries,
        "torch": _torch(inspected),
        "assemblers": _assemblers(inspected),
        "extensions": extensions,
        "files": {"unresolved_by_torch": missing} if missing else {},
        "gaps": gaps,
    }


def _inspections(interpreter: Interpreter, clock: _Clock) -> tuple[Inspection, ...]:
    found: list[Inspection] = []
    for site in interpreter.site:
        if time.monotonic() > clock.deadline:
            break
        with suppress(CudalockError, OSError):
            found += inspect_site(site, names=("torch", "triton", "pytorch-triton", "triton-windows"))
    return tuple(found)


def _torch(inspected: tuple[Inspection, ...]) -> TorchFacts | None:
    one = next((item for item in inspected if item.name == "torch"), None)
    if one is None:
        return None
    return TorchFacts(
        version=one.version,
        cuda=one.cuda,
        cpu=one.cuda is None,
        architectures=one.architectures or None,
        triton=Requirement(one.triton) if one.triton else None,
    )


def _assemblers(inspected: tuple[Inspection, ...]) -> Assemblers | None:
    one = next((item for item in inspected if item.name != "torch" and item.assemblers is not None), None)
    if one is None or not one.assemblers:
        return None

    def release(name: str) -> CudaVersion | None:
        text = (one.assemblers or {}).get(name)
        return CudaVersion.parse(text) if text else None

    return Assemblers(
        ptxas=release("ptxas"), ptxas_blackwell=release("ptxas-blackwell"), blackwell_from=one.blackwell_from
    )


def _glibcxx(loader: Loader) -> tuple[int, ...] | None:
    found = loader.find("libstdc++.so.6")
    facts = loader.elf(found.path) if found.path else None
    return facts.glibcxx_defined if facts else None


def _driver_packages(root: Path) -> tuple[str, ...]:
    """Packages of the driver that are installed in a container's image."""
    folder = root / "var/lib/dpkg/info"
    patterns = ("nvidia-driver-*.list", "libnvidia-compute-*.list", "libcuda1*.list", "nvidia-utils-*.list")
    names = {path.name.removesuffix(".list").partition(":")[0] for pattern in patterns for path in folder.glob(pattern)}
    return tuple(sorted(names))
