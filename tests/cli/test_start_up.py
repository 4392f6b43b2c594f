"""What a command loads before it answers: an import that creeps in costs every call of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cudalock.lock import write_lock
from support.locks import a_lock, linux_target

RESOLVING = {"resolvelib", "cudalock.resolve", "cudalock.candidates", "cudalock.requirements.parsing"}
NETWORK = {"httpx", "hishel", "ssl", "socket", "http.client", "cudalock.index", "cudalock.index.client"}
DRAWING = {"rich", "rich.console"}
PACKAGING = {"packaging.pylock", "packaging.requirements", "packaging.tags", "packaging.specifiers"}
HEAVY = RESOLVING | NETWORK | DRAWING | PACKAGING | {"pynvml", "elftools", "pip", "uv", "asyncio", "email", "zipfile"}


def loaded(arguments: list[str], folder: Path) -> set[str]:
    """The modules that a command has loaded when it ends."""
    code = (
        "import json, os, sys\n"
        f"sys.argv = ['cudalock', *{arguments!r}]\n"
        "from cudalock.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.stderr.write('\\n' + json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    return set(json.loads(done.stderr.rsplit("\n", 1)[1]))


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["resolve", "--help"]])
def test_help_loads_options_and_nothing_that_works(arguments: list[str], tmp_path: Path) -> None:
    modules = loaded(arguments, tmp_path)
    assert "click" in modules
    assert not modules & (HEAVY | {"packaging", "cudalock.lock.file", "cudalock.host.ladder", "cudalock.facts.loader"})


def test_check_loads_no_resolver_no_network_and_no_drawing(tmp_path: Path) -> None:
    write_lock(tmp_path / "pylock.toml", a_lock(linux_target("9.0")))
    modules = loaded(["check"], tmp_path)
    assert {"cudalock.lock.fit", "cudalock.host.ladder"} <= modules
    assert not modules & HEAVY


def test_check_for_a_named_gpu_loads_the_rules_but_no_resolver(tmp_path: Path) -> None:
    write_lock(tmp_path / "pylock.toml", a_lock(linux_target("9.0")))
    (tmp_path / "facts.json").write_text(
        '{"schema": 1, "host": {"os": "linux", "machine": "x86_64", "libc": "glibc 2.35", "driver": "580.65.06",'
        ' "gpus": [{"name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0", "count": 1}]}}'
    )
    modules = loaded(["check", "--facts", "facts.json", "--json"], tmp_path)
    assert "cudalock.compat.judging" in modules
    assert not modules & (RESOLVING | NETWORK | DRAWING | {"packaging.pylock"})
