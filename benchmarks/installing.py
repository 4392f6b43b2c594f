"""``cudalock install`` beside a bare ``uv venv`` and ``uv pip sync`` of the same lock, with the same warm uv cache.

The cache and the environments lie on one file system, so that uv links files instead of copying them: what cudalock
adds shows most then. Every round makes fresh environments, one after the other, first the one and then the other in
turn, and what has been written is on the disk before the next begins. uv is told to stay offline in them: whether an
index wants to be asked once more about a file in the cache would be measured otherwise.
"""

from __future__ import annotations

import os
import shlex
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.tools import Outcome, measure, remove, uv_program
from benchmarks.wheels import ROOT, FolderServer, make_index

__all__ = ["measure_install"]

_Say = Callable[[str], None]
_BARE = "uv venv + pip sync"
_OURS = "cudalock"
_NETWORK = ("SSL_CERT_FILE", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy")


def measure_install(lock: Path | None, runs: int, say: _Say) -> list[dict[str, Any]]:
    """Rows for one lock; without one, for that of a made set of wheels that resembles torch's closure.

    A cache that ``UV_CACHE_DIR`` names is used and kept, so that gigabytes need not come anew each time.
    """
    cache = os.environ.get("UV_CACHE_DIR")
    beside = Path(cache).absolute().parent if cache else None
    with tempfile.TemporaryDirectory(prefix="benchmark-install-", dir=beside, ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        if lock is not None:
            copy = shutil.copy(lock, work / "pylock.toml")
            return _rounds(Path(copy), f"install {lock.name}", work, runs, say)
        files = make_index(work / "index")
        with FolderServer(work / "index") as server:
            return _rounds(_lock_of(server.index_url, work), f"install {files} files", work, runs, say)


def _lock_of(index_url: str, work: Path) -> Path:
    """What ``cudalock resolve`` makes of the index, for this machine."""
    lock = work / "pylock.toml"
    command = [_cudalock(), "resolve", ROOT, "--cpu", "--no-pytorch-index", "--index-url", index_url]
    made = measure([*command, "--cache-dir", str(work / "cudalock-cache"), "--output", str(lock)], work)
    if made.status:
        raise SystemExit(f"cudalock resolve failed: {made.output[-1000:]}")
    return lock


def _rounds(lock: Path, shown: str, work: Path, runs: int, say: _Say) -> list[dict[str, Any]]:
    commands: Mapping[str, Callable[[Path], list[str]]] = {_BARE: lambda venv: _bare(venv, lock)}
    commands = {
        **commands,
        _OURS: lambda venv: [_cudalock(), "install", "--no-verify", "--lock", str(lock), "--venv", str(venv)],
    }
    taken: dict[str, list[Outcome]] = {name: [] for name in commands}
    for number in range(-1, runs):  # the first one fills uv's cache, and ours of compiled modules
        order = list(commands) if number % 2 else list(reversed(commands))
        for name in order:
            outcome = _once(commands[name], work, network=number < 0)
            if outcome.status:
                say(f"{name} failed: {outcome.output[-1000:]}")
            if number >= 0:
                taken[name].append(outcome)
        say(f"  {shown}: round {number + 1} of {runs}")
    return [_row(shown, name, taken) for name in commands]


def _once(command: Callable[[Path], list[str]], work: Path, *, network: bool) -> Outcome:
    home = work / "round"
    home.mkdir()
    os.sync()
    environ = {name: os.environ[name] for name in _NETWORK if name in os.environ} if network else {"UV_OFFLINE": "1"}
    environ["UV_CACHE_DIR"] = os.environ.get("UV_CACHE_DIR") or str(work / "uv-cache")
    try:
        return measure(command(home / "venv"), home, **environ)
    finally:
        remove(home)


def _bare(venv: Path, lock: Path) -> list[str]:
    """As short a way as there is: the interpreter is named, so that uv need not look for one."""
    uv = shlex.quote(uv_program())
    python = shlex.quote(getattr(sys, "_base_executable", sys.executable))
    made = f"{uv} venv --quiet --no-project --python {python} {shlex.quote(str(venv))}"
    synced = (
        f"{uv} pip sync --quiet --preview-features pylock --python {shlex.quote(str(venv))} {shlex.quote(str(lock))}"
    )
    return ["/bin/sh", "-c", f"{made} && {synced}"]


def _cudalock() -> str:
    return str(Path(sys.executable).parent / "cudalock")


def _row(shown: str, name: str, taken: Mapping[str, list[Outcome]]) -> dict[str, Any]:
    mine, bare = taken[name], taken[_BARE]
    walls = sorted(a.wall_s / b.wall_s for a, b in zip(mine, bare, strict=True))
    return {
        "set": shown,
        "tool": name,
        "state": "warm",
        "wall_s": round(statistics.median(one.wall_s for one in mine), 4),
        "cpu_s": round(statistics.median(one.cpu_s for one in mine), 4),
        "fastest_s": round(min(one.wall_s for one in mine), 4),
        "peak_mib": round(statistics.median(one.peak_mib for one in mine), 1),
        "failed": sum(one.status != 0 for one in mine),
        "ratio_to_uv": round(statistics.median(walls), 3),
        "ratio_to_uv_range": [round(walls[0], 3), round(walls[-1], 3)],
        "added_s": round(statistics.median(a.wall_s - b.wall_s for a, b in zip(mine, bare, strict=True)), 4),
        "cpu_ratio_to_uv": round(statistics.median(a.cpu_s / b.cpu_s for a, b in zip(mine, bare, strict=True)), 3),
    }
