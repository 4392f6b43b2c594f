# ruff: noqa: E501 - a command stands on as few lines as it reads best on
"""The three tools on one set of requirements: how each is called, and what a call took."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Outcome", "SETS", "TARGET", "Tool", "measure", "remove", "tools", "uv_program"]

SETS: Mapping[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "fine-tuning": ("torch", "torchvision", "transformers", "accelerate", "peft", "bitsandbytes", "datasets"),
    "vllm": ("vllm",),
}
TARGET = ("--gpu", "H100", "--driver", "580.65.06", "--platform", "x86_64-manylinux_2_28")
PYTHON = "3.12"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One run: exit status, wall and processor seconds, peak memory of the process in MiB, what it printed."""

    status: int
    wall_s: float
    cpu_s: float
    peak_mib: float
    output: str


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A command that resolves requirements; ``{...}`` in its arguments is filled in.

    Attributes:
        recorded_pythons: the target Pythons that the snapshot is made for.
    """

    name: str
    command: tuple[str, ...]
    recorded_pythons: tuple[str, ...] = (PYTHON,)

    def run(
        self, requirements: Sequence[str], index_url: str, *, cache: Path | None = None, python: str = PYTHON
    ) -> Outcome:
        """Runs it once in an empty folder; without a cache folder it gets an empty one."""
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            (work / "requirements.in").write_text("\n".join(requirements) + "\n")
            filled = {
                "index_url": index_url,
                "cache": str(cache or work / "cache"),
                "python": python,
                "work": folder,
                "executable": sys.executable,
            }
            command = [
                item
                for part in self.command
                for item in (requirements if part == "{requirements}" else [part.format(**filled)])
            ]
            return measure(command, work)


def measure(command: Sequence[str], work: Path, **environ: str) -> Outcome:
    """Runs a command and reads the system's own account of it; ``environ`` is added to its environment."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=work, env=environment(work) | environ, stdout=output, stderr=subprocess.STDOUT
        )
        _, state, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(state)
        output.seek(0)
        text = output.read()
    return Outcome(
        status=process.returncode,
        wall_s=wall_s,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_mib=usage.ru_maxrss / 1024,
        output=text,
    )


def environment(work: Path) -> dict[str, str]:
    """Nobody's configuration and no proxy; byte code is cached, as it is in an installation."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "PYTHONPYCACHEPREFIX") if key in os.environ}
    return {
        **kept,
        "HOME": str(work),
        "PIP_CONFIG_FILE": os.devnull,
        "NO_COLOR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def uv_program() -> str:
    """The uv of this environment, else the one on PATH."""
    return shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv") or "uv"


def tools() -> tuple[Tool, ...]:
    """cudalock, uv and pip of this environment."""
    scripts = Path(sys.executable).parent
    uv = uv_program()
    return (
        Tool(
            name="cudalock",
            command=(
                str(scripts / "cudalock"), "resolve", "{requirements}", *TARGET, "--python", "{python}", "--no-pytorch-index",
                "--index-url", "{index_url}", "--cache-dir", "{cache}", "--output", "{work}/pylock.toml",
            ),
            recorded_pythons=("3.11", "3.12", "3.13"),
        ),
        Tool(
            name="uv",
            command=(
                uv, "pip", "compile", "requirements.in", "--no-config", "--python", "{executable}", "--python-version", "{python}",
                "--python-platform", "x86_64-manylinux_2_28", "--index-url", "{index_url}", "--cache-dir", "{cache}",
                "--output-file", "{work}/requirements.txt",
            ),
            recorded_pythons=("3.11", "3.12", "3.13"),
        ),
        Tool(
            name="pip",
            command=(
                "{executable}", "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--only-binary", ":all:",
                "--python-version", "{python}", "--implementation", "cp", *_pip_platforms(), "--target", "{work}/target",
                "--index-url", "{index_url}", "--cache-dir", "{cache}", "--requirement", "requirements.in",
            ),
        ),
    )  # fmt: skip


def _pip_platforms() -> list[str]:
    tags = [f"manylinux_2_{minor}_x86_64" for minor in range(28, 16, -1)] + ["manylinux2014_x86_64", "linux_x86_64"]
    return [item for tag in tags for item in ("--platform", tag)]


def remove(folder: Path) -> None:
    """Removes a cache; tools make parts of theirs read-only."""
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
