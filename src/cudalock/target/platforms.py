"""Platform and Python of a target: the forms accepted, the wheel tags, the environment that markers see."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from cudalock.errors import UsageError
from cudalock.spelling import near_words
from cudalock.target.model import Platform, PythonVersion

if TYPE_CHECKING:
    from packaging.tags import Tag

__all__ = [
    "DEFAULT_GLIBC",
    "libc_text",
    "marker_environment",
    "parse_libc",
    "parse_platform",
    "parse_python",
    "platform_names",
    "wheel_tags",
]

DEFAULT_GLIBC = (2, 28)
"""What ``linux-x86_64`` means: the oldest glibc that today's torch wheels accept (manylinux_2_28)."""

_MACHINES = {
    "x86_64": "x86_64", "amd64": "x86_64", "x64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64", "sbsa": "aarch64",
}  # fmt: skip
_LEGACY_MANYLINUX = {(2, 17): "manylinux2014", (2, 12): "manylinux2010", (2, 5): "manylinux1"}
_OLDEST_GLIBC_MINOR = {"x86_64": 5, "aarch64": 17}
_EXAMPLES = ("linux-x86_64", "linux-aarch64", "x86_64-manylinux_2_28", "aarch64-manylinux_2_35", "win-amd64")
_FIRST_FREE_THREADED_MINOR = 13
_LATEST_GLIBC_MINOR = 99


def parse_platform(text: str) -> Platform:
    """Reads a platform; a Linux without a C library has ``libc=None``, which the caller fills in and says so.

    Accepted: ``linux-x86_64``, ``linux-aarch64``, ``x86_64-manylinux_2_28`` and ``manylinux_2_28_x86_64`` (also
    ``manylinux2014``), ``x86_64-musllinux_1_2``, ``win-amd64``, ``win-arm64``, and the triples of compilers such as
    ``x86_64-unknown-linux-gnu``. ``amd64`` and ``arm64`` are taken for ``x86_64`` and ``aarch64``.

    Raises:
        UsageError: ``platform-unknown`` with near matches; ``platform-unsupported`` for macOS, where NVIDIA has no
            driver.
    """
    lowered = re.sub(r"[-_ /]+", "-", text.strip().lower()).replace("x86-64", "x64")
    words = lowered.split("-")
    if words[0] in ("macos", "macosx", "darwin", "osx") or "darwin" in words or "macosx" in words:
        raise UsageError(
            "platform-unsupported",
            f"{text}: no NVIDIA driver exists for macOS",
            hint="name the platform of the machine with the GPU, e.g. --platform linux-x86_64",
        )
    machines = {_MACHINES[word] for word in words if word in _MACHINES}
    rest = [word for word in words if word not in _MACHINES and word not in ("unknown", "pc")]
    libc_text = "-".join(rest)
    if len(machines) == 1 and len([word for word in words if word in _MACHINES]) == 1:
        machine = machines.pop()
        if libc_text in ("win", "windows", "windows-msvc", "win32"):
            return Platform("windows", machine)
        if libc_text in ("linux", "linux-gnu"):
            return Platform("linux", machine)
        if libc := _libc_of(libc_text):
            return Platform("linux", machine, libc)
    near = near_words(text.lower(), _EXAMPLES, cutoff=0.5) or _EXAMPLES
    raise UsageError(
        "platform-unknown",
        f"{text!r} is not a platform that cudalock knows",
        hint=f"use e.g. {', '.join(near)}",
        details={"known": list(_EXAMPLES)},
    )


def _libc_of(text: str) -> tuple[str, tuple[int, int]] | None:
    text = text.removeprefix("linux-")
    if match := re.fullmatch(r"(?:many-?linux|gnu|glibc)-?(\d{1,9})-?[-.](\d{1,9})", text):
        libc = "glibc", (int(match[1]), int(match[2]))
    elif match := re.fullmatch(r"(?:musl-?linux|musl)-?(\d{1,9})[-.](\d{1,9})", text):
        libc = "musl", (int(match[1]), int(match[2]))
    elif text in ("musl", "musllinux"):
        return "musl", (1, 2)
    else:
        legacy = {name: version for version, name in _LEGACY_MANYLINUX.items()}
        return ("glibc", legacy[text]) if text in legacy else None
    plausible = libc[1][1] <= _LATEST_GLIBC_MINOR and libc[1][0] == (2 if libc[0] == "glibc" else 1)
    return libc if plausible else None


def parse_libc(text: str) -> tuple[str, tuple[int, int]] | None:
    """A C library as a lock or a facts file names it: ``glibc-2.28``, ``musl 1.2``; None if the text is none."""
    match = re.fullmatch(r"(glibc|musl)[ -](\d{1,9})\.(\d{1,9})", text.strip())
    return (match[1], (int(match[2]), int(match[3]))) if match else None


def libc_text(libc: tuple[str, tuple[int, int]]) -> str:
    """The C library as the lock names it: ``glibc-2.28``."""
    return f"{libc[0]}-{libc[1][0]}.{libc[1][1]}"


def parse_python(text: str) -> tuple[PythonVersion, int | None]:
    """Reads a Python version and, if it is given, its micro version.

    Accepted: ``3.12``, ``3.12.4``, ``3.14t`` and ``3.14.0t`` (free-threaded), with ``python`` before it or not.

    Raises:
        UsageError: ``python-invalid``.
    """
    stripped = text.strip().lower().removeprefix("c").removeprefix("python").lstrip("-")
    match = re.fullmatch(r"3\.(\d{1,2})(?:\.(\d{1,2})(?:(?:a|b|rc)\d+)?)?(t)?", stripped)
    if not match:
        compact = re.fullmatch(r"(?:cp|p)?3(\d{1,2})(t?)", stripped)
        meant = f"--python 3.{compact[1]}{compact[2]}" if compact else "use e.g. --python 3.12 or --python 3.14t"
        raise UsageError("python-invalid", f"{text!r} is not a Python version that cudalock knows", hint=meant)
    minor = int(match[1])
    if match[3] and minor < _FIRST_FREE_THREADED_MINOR:
        raise UsageError(
            "python-invalid",
            f"there is no free-threaded Python 3.{minor}; the first is 3.{_FIRST_FREE_THREADED_MINOR}t",
            hint=f"--python 3.{minor}",
        )
    return PythonVersion(3, minor, bool(match[3])), int(match[2]) if match[2] else None


def platform_names(platform: Platform) -> Iterator[str]:
    """The platform parts of wheel tags that run on ``platform``, best first, as ``packaging.tags`` orders them."""
    if platform.os == "windows":
        yield "win_amd64" if platform.machine == "x86_64" else "win_arm64"
        return
    machine = platform.machine
    yield f"linux_{machine}"
    if platform.libc is None:
        return
    name, (major, minor) = platform.libc
    if name == "musl":
        yield from (f"musllinux_{major}_{number}_{machine}" for number in range(minor, -1, -1))
        return
    for number in range(minor, _OLDEST_GLIBC_MINOR.get(machine, 17) - 1, -1):
        yield f"manylinux_{major}_{number}_{machine}"
        if legacy := _LEGACY_MANYLINUX.get((major, number)):
            yield f"{legacy}_{machine}"


@lru_cache(maxsize=64)
def wheel_tags(platform: Platform, python: PythonVersion) -> tuple[Tag, ...]:
    """Every wheel tag that CPython ``python`` accepts on ``platform``, best first."""
    from packaging.tags import compatible_tags, cpython_tags

    version = (python.major, python.minor)
    interpreter = f"cp{python.major}{python.minor}"
    platforms = list(platform_names(platform))
    abi = f"{interpreter}t" if python.free_threaded else interpreter
    return (
        *cpython_tags(version, [abi], platforms),
        *compatible_tags(version, interpreter, platforms),
    )


def marker_environment(platform: Platform, python: PythonVersion, micro: int | None = None) -> Mapping[str, str]:
    """The environment that requirements' markers are evaluated in; the micro version is 0 unless it is known.

    ``platform_release`` and ``platform_version`` stay empty: no two machines of a kind agree on them.
    """
    windows = platform.os == "windows"
    full = f"{python.major}.{python.minor}.{micro or 0}"
    machine = {"x86_64": "AMD64", "aarch64": "ARM64"}.get(platform.machine) if windows else None
    return {
        "implementation_name": "cpython",
        "implementation_version": full,
        "os_name": "nt" if windows else "posix",
        "platform_machine": machine or platform.machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Windows" if windows else "Linux",
        "platform_version": "",
        "python_full_version": full,
        "python_version": f"{python.major}.{python.minor}",
        "sys_platform": "win32" if windows else "linux",
    }
