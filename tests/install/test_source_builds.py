"""Source distributions from the index to the environment: asked through pip, locked, and built once torch is in."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from cudalock.compat import Policy
from cudalock.errors import ToolError
from cudalock.index import IndexClient
from cudalock.install import InstallOptions, install
from cudalock.install.metadata import PipMetadata
from cudalock.lock import build_lock, write_lock
from cudalock.requirements.model import Request
from cudalock.resolve import Resolution, ResolveOptions, resolve
from support.clients import client_of, main_page, only_file
from support.fake_index import FakeIndex
from support.locks import linux_target
from support.wheels import make_sdist
from support.world import asked

# Stands in for a project that is compiled against torch: METADATA can be had without it, the wheel cannot.
BACKEND = """
import os, time, zipfile
METADATA = "Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\nRequires-Dist: torch\\nRequires-Dist: dep>=1\\n"
WHEEL = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
INFO = "{module}-1.0.dist-info"
def get_requires_for_build_wheel(settings=None): return []
def prepare_metadata_for_build_wheel(folder, settings=None):
    {first}
    os.mkdir(os.path.join(folder, INFO))
    with open(os.path.join(folder, INFO, "METADATA"), "w") as file: file.write(METADATA)
    with open(os.path.join(folder, INFO, "WHEEL"), "w") as file: file.write(WHEEL)
    return INFO
def build_wheel(folder, settings=None, metadata=None):
    import torch
    {during}
    name = "{module}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as z:
        z.writestr("{module}.py", "built_against = " + repr(torch.__version__))
        z.writestr(INFO + "/METADATA", METADATA)
        z.writestr(INFO + "/WHEEL", WHEEL)
        z.writestr(INFO + "/RECORD", "")
    return name
"""
SYSTEM = '[build-system]\nrequires = [{requires}]\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def add_source(
    index: FakeIndex, name: str = "ext", *, first: str = "pass", during: str = "pass", requires: str = ""
) -> None:
    """A source distribution; ``first`` is run when it is asked for its metadata, ``during`` when it is built.

    It states nothing, unless it names what its build ``requires``: then pip's isolated build could not be asked.
    """
    backend = BACKEND.format(name=name, module=name.replace("-", "_"), first=first, during=during).encode()
    system = SYSTEM.format(requires=requires).encode()
    filename, content = make_sdist(
        name,
        "1.0",
        files={"pyproject.toml": system, "backend.py": backend},
        requires=["torch", "dep>=1"] if requires else [],
        dynamic=[] if requires else ["Requires-Dist"],
    )
    index.add(filename, content, project=name)


@pytest.fixture
def index(fake_index: FakeIndex) -> Iterator[FakeIndex]:
    with fake_index.serve():
        fake_index.add_wheel("torch", "2.9.0+cpu", label="cpu")
        fake_index.add_wheel("dep", "1.5")
        yield fake_index


@pytest.fixture
def client(index: FakeIndex) -> Iterator[IndexClient]:
    with client_of(index) as made:
        yield made


def asking(client: IndexClient, *, time_limit_s: float = 60.0) -> PipMetadata:
    return PipMetadata(client, index_url=client.main.url, time_limit_s=time_limit_s)


def resolved(client: IndexClient, *names: str) -> tuple[Resolution, Request]:
    target = linux_target(driver=None, python=sys.version_info[:2], machine=platform.machine(), cpu=True)
    request = Request(requirements=asked(*names), allow_build=frozenset(map(canonicalize_name, names)))
    options = ResolveOptions(build_metadata=asking(client))
    return resolve(request, target, client, policy=Policy(), options=options), request


def installed(client: IndexClient, folder: Path, *names: str) -> str:
    """Resolves, locks and installs; what the built module says torch was."""
    resolution, request = resolved(client, *names)
    target = linux_target(driver=None, python=sys.version_info[:2], machine=platform.machine(), cpu=True)
    write_lock(folder / "pylock.toml", build_lock(resolution, target, request, Policy()))
    install(folder / "pylock.toml", folder / "env", options=InstallOptions())
    module = names[0].replace("-", "_")
    program = f"import {module}, dep; print({module}.built_against)"
    python = folder / "env" / "bin" / "python"
    return subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_from_the_index_to_a_module_built_against_the_locked_torch(
    client: IndexClient, index: FakeIndex, tmp_path: Path
) -> None:
    add_source(index)
    resolution, _request = resolved(client, "ext")
    assert {pin.name: str(pin.version) for pin in resolution.pins} == {"ext": "1.0", "dep": "1.5", "torch": "2.9.0+cpu"}
    assert installed(client, tmp_path, "ext") == "2.9.0+cpu"


def test_what_the_build_of_a_project_beside_torch_requires_is_locked_with_it(
    client: IndexClient, index: FakeIndex, tmp_path: Path
) -> None:
    """It is built in the environment itself, so its tools must be there: here the backend imports one."""
    add_source(
        index, requires='"tool>=2", "torch", "other @ https://files.example/other-1.0.tar.gz"', during="import tool"
    )
    for version in ("1.0", "2.5"):
        index.add_wheel("tool", version)
    resolution, _request = resolved(client, "ext")
    assert [str(pin.version) for pin in resolution.pins if pin.name == "tool"] == ["2.5"]
    assert installed(client, tmp_path, "ext") == "2.9.0+cpu"


def test_a_known_project_whose_build_imports_torch_is_not_asked(
    client: IndexClient, index: FakeIndex, tmp_path: Path
) -> None:
    add_source(index, "flash-attn", first="import torch")
    for name in ("einops", "setuptools", "wheel", "packaging", "ninja", "psutil"):
        index.add_wheel(name, "99.0")
    with pytest.raises(ToolError):
        asking(client)(only_file(client, main_page("flash-attn")))
    assert installed(client, tmp_path, "flash-attn", "dep") == "2.9.0+cpu"


def test_a_build_that_fails_speaks_for_itself(client: IndexClient, index: FakeIndex) -> None:
    add_source(index, first="import torch")
    with pytest.raises(ToolError) as caught:
        resolved(client, "ext")
    error = caught.value
    assert (error.code, error.exit_status) == ("build-failed", 4)
    assert "No module named 'torch'" in error.message
    assert "needs torch" in (error.hint or "") and "ext @ https://" in (error.hint or "")
    assert error.details["file"] == "ext-1.0.tar.gz"


def test_a_build_that_hangs_is_ended_with_all_that_it_started(
    client: IndexClient, index: FakeIndex, tmp_path: Path
) -> None:
    mark = tmp_path / "pid"
    add_source(index, first=f"open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    begun = time.monotonic()
    with pytest.raises(ToolError) as caught:
        asking(client, time_limit_s=3.0)(only_file(client, main_page("ext")))
    assert "did not end within 3 s" in caught.value.message
    assert time.monotonic() - begun < 30
    with pytest.raises(ProcessLookupError):
        for _attempt in range(50):
            os.kill(int(mark.read_text()), 0)
            time.sleep(0.1)


def test_nothing_of_a_file_with_another_hash_is_run(client: IndexClient, index: FakeIndex, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    add_source(index, first=f"open({str(mark)!r}, 'w')")
    file = only_file(client, main_page("ext"))
    add_source(index, first=f"open({str(mark)!r}, 'w') and 1")
    index.files[-2:] = index.files[-1:]
    with pytest.raises(ToolError) as caught:
        asking(client)(file)
    assert caught.value.code == "index-hash-conflict"
    assert not mark.exists()


def test_the_build_is_asked_only_for_projects_that_were_allowed(client: IndexClient, index: FakeIndex) -> None:
    from cudalock.errors import AnswerIsNo

    add_source(index)
    target = linux_target(driver=None, python=sys.version_info[:2], machine=platform.machine(), cpu=True)
    with pytest.raises(AnswerIsNo) as caught:
        resolve(
            Request(requirements=asked("ext")),
            target,
            client,
            policy=Policy(),
            options=ResolveOptions(build_metadata=asking(client)),
        )
    assert caught.value.code == "source-only"
    assert "--allow-build ext" in (caught.value.hint or "")
