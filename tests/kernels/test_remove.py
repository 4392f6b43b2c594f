"""prune and clear take out what they should, and nothing else, while jobs are at work."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from packaging.version import Version

from cudalock.host.model import Gpu, Host
from cudalock.kernels import KernelEnvironment, Removal, clear, kernel_environment, prune, read_caches
from cudalock.versions import ComputeCapability
from kernels.test_scan import make_inductor
from support.kernel_caches import add_kernel, add_library, age, key_of, snapshot

HERE = KernelEnvironment(
    triton=Version("3.6.0"), python="cpython-312", gpus=frozenset({ComputeCapability(9, 0), ComputeCapability(12, 0)})
)
NOBODY = KernelEnvironment()


def pruned(cache: Path, environment: KernelEnvironment = HERE, **more: float) -> dict[str, Removal]:
    """Prunes for real; the outcomes by the folder's name."""
    return {it.path.name: it for it in prune(read_caches(folders=[cache]), environment, delete=True, **more)}


def test_prune_removes_what_cannot_be_reused_and_nothing_else(tmp_path: Path) -> None:
    usable = [
        add_kernel(tmp_path, "3.6.0", 90), add_kernel(tmp_path, "3.6.0", 120),
        add_library(tmp_path, "3.6.0", "cuda_utils.cpython-312-x86_64-linux-gnu.so"),
        add_library(tmp_path, "3.6.0", "__triton_launcher.so"),
    ]  # fmt: skip
    stale = {
        add_kernel(tmp_path, "2.1.0", 90): "made by a triton <3.0, here is 3.6.0",
        add_kernel(tmp_path, "3.0.0", 90): "made by a triton <3.2,>=3.0, here is 3.6.0",
        add_kernel(tmp_path, "3.2.0", 90): "made by a triton <3.3,>=3.2, here is 3.6.0",
        add_kernel(tmp_path, "3.3.1", 90): "made by triton 3.3.1, here is 3.6.0",
        add_kernel(tmp_path, "3.6.0", 80): "compiled for sm_80, here is sm_90, sm_120",
        add_library(tmp_path, "3.6.0", "cuda_utils.cpython-311-x86_64-linux-gnu.so"): (
            "built for cpython-311, here is cpython-312"
        ),
        add_library(tmp_path, "3.0.0", "cuda_utils.so"): "made by a triton <3.2,>=3.0, here is 3.6.0",
    }
    (tmp_path / "notes.txt").write_text("mine")
    expected = {str(path.relative_to(tmp_path)) for folder in usable for path in folder.iterdir()} | {"notes.txt"}
    caches = read_caches(folders=[tmp_path])
    before = snapshot(tmp_path)
    dry = prune(caches, HERE)
    assert {it.path: it.why for it in dry} == stale
    assert {it.outcome for it in dry} == {"would-remove"}
    assert snapshot(tmp_path) == before

    done = prune(caches, HERE, delete=True)
    assert {it.path for it in done if it.outcome == "removed"} == set(stale)
    assert snapshot(tmp_path) == expected
    assert prune(read_caches(folders=[tmp_path]), HERE, delete=True) == ()


def test_what_is_unknown_removes_nothing(tmp_path: Path) -> None:
    for version in ("2.1.0", "3.2.0", "3.6.0"):
        add_kernel(tmp_path, version, 80)
    add_library(tmp_path, "3.6.0", "cuda_utils.cpython-311-x86_64-linux-gnu.so")
    broken = add_kernel(tmp_path, "3.6.0", 75)
    (broken / "add_k.cubin").write_bytes(b"")
    age(broken)
    assert list(pruned(tmp_path, NOBODY)) == [broken.name]


def test_an_override_of_the_architecture_is_respected(tmp_path: Path) -> None:
    add_kernel(tmp_path, "3.6.0", 80)
    forced = KernelEnvironment(triton=HERE.triton, gpus=HERE.gpus, overrides={"TRITON_OVERRIDE_ARCH": "sm80"})
    assert pruned(tmp_path, forced) == {}


def test_a_moved_cache_is_pruned(tmp_path: Path) -> None:
    add_kernel(tmp_path / "old", "3.6.0", 90)
    shutil.move(tmp_path / "old", tmp_path / "new")
    (removal,) = pruned(tmp_path / "new").values()
    assert removal.outcome == "removed"
    assert removal.why.startswith("moved")
    assert snapshot(tmp_path) == set()


def test_young_entries_stay(tmp_path: Path) -> None:
    folder = add_kernel(tmp_path, "3.3.1", 90, old=False)
    (removal,) = pruned(tmp_path).values()
    assert removal.outcome == "kept"
    assert "a job may be using it" in removal.why
    assert folder.is_dir()
    (removal,) = pruned(tmp_path, now=time.time() + 3600).values()
    assert removal.outcome == "removed"


def writer_in(folder: Path, pid: int) -> None:
    (folder / f"tmp.pid_{pid}_0b0e").mkdir()
    age(folder)


def test_an_entry_that_a_process_writes_stays(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        folder = add_kernel(tmp_path, "3.3.1", 90)
        writer_in(folder, process.pid)
        (removal,) = pruned(tmp_path).values()
        assert (removal.outcome, removal.why.partition("; ")[2]) == ("kept", f"process {process.pid} is writing it")
        process.communicate(b"\n")
    (removal,) = pruned(tmp_path).values()
    assert removal.outcome == "removed"
    assert not folder.exists()


def test_a_locked_entry_stays(tmp_path: Path) -> None:
    """Releases before 3.0 locked the folder that they wrote."""
    folder = add_kernel(tmp_path, "2.1.0", 90)
    (folder / "lock").touch()
    age(folder)
    code = "import fcntl,sys; f=open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); input()"
    command = [sys.executable, "-c", code, str(folder / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        (removal,) = pruned(tmp_path).values()
        assert (removal.outcome, removal.why.partition("; ")[2]) == ("kept", "its lock is held")
        process.communicate(b"\n")
    (removal,) = pruned(tmp_path).values()
    assert removal.outcome == "removed"


def test_an_entry_that_was_mended_meanwhile_stays(tmp_path: Path) -> None:
    folder = add_kernel(tmp_path, "3.6.0", 90)
    group = (folder / "__grp__add_k.json").read_bytes()
    (folder / "__grp__add_k.json").unlink()
    age(folder)
    caches = read_caches(folders=[tmp_path])
    (folder / "__grp__add_k.json").write_bytes(group)
    age(folder)
    (removal,) = prune(caches, HERE, delete=True)
    assert (removal.outcome, removal.why) == ("kept", "unfinished; it has been mended meanwhile")


@pytest.mark.parametrize("action", ["prune", "clear"])
def test_links_never_lead_out_of_the_cache(tmp_path: Path, action: str) -> None:
    outside = add_kernel(tmp_path / "outside", "3.3.1", 80)
    cache = tmp_path / "cache"
    inner = add_kernel(cache, "3.3.1", 80)
    (cache / key_of("3.6.0", "entry")).symlink_to(outside)
    (inner / "folder").symlink_to(outside)
    (inner / "add_k.ptx").unlink()
    (inner / "add_k.ptx").symlink_to(outside / "add_k.ptx")
    age(inner)
    before = snapshot(tmp_path / "outside")
    caches = read_caches(folders=[cache])
    done = prune(caches, HERE, delete=True) if action == "prune" else clear(caches, delete=True)
    assert snapshot(tmp_path / "outside") == before
    assert (cache / key_of("3.6.0", "entry")).is_symlink()
    assert inner.exists() == (action == "prune")
    assert [it.outcome for it in done] == ([] if action == "prune" else ["removed"])


def test_an_entry_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = add_kernel(tmp_path / "outside", "3.3.1", 80)
    cache = tmp_path / "cache"
    entry = add_kernel(cache, "3.3.1", 80)
    caches = read_caches(folders=[cache])
    shutil.rmtree(entry)
    entry.symlink_to(outside)
    before = snapshot(tmp_path / "outside")
    (removal,) = prune(caches, HERE, delete=True)
    assert removal.outcome != "removed"
    assert snapshot(tmp_path / "outside") == before


def test_what_an_earlier_run_left_is_finished(tmp_path: Path) -> None:
    add_kernel(tmp_path, "3.6.0", 90)
    rest = tmp_path / ".cudalock-trash-1-abc"
    rest.mkdir()
    (rest / "add_k.ptx").write_text("x")
    assert pruned(tmp_path)[rest.name].why == "left over by an earlier run"
    assert not rest.exists()


def test_clear_removes_all_but_locks_and_what_is_young(tmp_path: Path) -> None:
    make_inductor(tmp_path)
    young = add_kernel(tmp_path / "triton" / "0", "3.6.0", 80, old=False)
    done = clear(read_caches(folders=[tmp_path]), delete=True)
    assert {path.split("/")[0] for path in snapshot(tmp_path)} == {"locks", "triton"}
    assert {Path(path).parent.name for path in snapshot(tmp_path / "triton")} == {young.name}
    assert sorted(it.outcome for it in done) == ["kept", *["removed"] * 5]


def test_a_job_that_writes_all_the_while_is_not_disturbed(tmp_path: Path) -> None:
    """A process stores entries step by step as Triton does, while another prunes without regard to their age.

    It writes at least 150, and on until the other has pruned three times: whichever is faster, they overlap.
    """
    root, enough = tmp_path / "cache", tmp_path / "enough"
    for number in range(200):
        add_kernel(root, "3.3.1", 90, seed=str(number))
    support = Path(__file__).parent.parent
    code = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path\n"
        "from support.kernel_caches import add_kernel\n"
        "import itertools, json\n"
        "for n in itertools.count():\n"
        "    if n >= 150 and Path(sys.argv[3]).exists():\n"
        "        break\n"
        "    folder = add_kernel(Path(sys.argv[1]), '3.6.0', 90, seed=f'new {n}', old=False)\n"
        "    (folder / 'tmp.pid_1_x').mkdir(); (folder / 'tmp.pid_1_x').rmdir()\n"
        "    group = json.loads((folder / '__grp__add_k.json').read_bytes())['child_paths']\n"
        "    assert all(Path(path).read_bytes() for path in group.values())\n"
        "print(n)\n"
    )
    command = [sys.executable, "-c", code, str(root), str(support), str(enough)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        rounds = 0
        while process.poll() is None:
            prune(read_caches(folders=[root]), HERE, delete=True)
            rounds += 1
            if rounds == 3:
                enough.touch()
        assert process.returncode == 0
        assert process.stdout is not None
        written = int(process.stdout.read())
    assert rounds >= 3
    assert written >= 150
    (cache,) = read_caches(folders=[root])
    assert [entry.triton for entry in cache.entries] == ["3.6.0"] * written


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    add_kernel(tmp_path, "3.3.1", 90)
    tmp_path.chmod(0o500)
    try:
        (removal,) = pruned(tmp_path).values()
    finally:
        tmp_path.chmod(0o700)
    assert removal.outcome == "failed"


def installed(venv: Path, *names: str) -> Path:
    site = venv / "lib" / "python3.12" / "site-packages"
    for name in names:
        project, _, version = name.partition("==")
        info = site / f"{project.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n")
        (info / "RECORD").write_text("")
    (venv / "pyvenv.cfg").write_text("version = 3.12.4\n")
    return venv


def test_the_environment_is_read_from_a_venv_and_the_machine(tmp_path: Path) -> None:
    gpus = tuple(Gpu(index=i, compute_capability=cc) for i, cc in enumerate([ComputeCapability(9, 0)] * 2))
    host = Host(os="linux", gpus=gpus, gpus_known=True)
    found = kernel_environment(host, venv=installed(tmp_path / "a", "triton==3.6.0"), environ={})
    assert (found.triton, found.python, found.gpus) == (
        Version("3.6.0"),
        "cpython-312",
        frozenset({ComputeCapability(9, 0)}),
    )
    both = installed(tmp_path / "b", "triton==3.3.0", "pytorch-triton==3.4.0")
    assert kernel_environment(Host(), venv=both, environ={}).triton is None
    partly = Host(gpus=(*gpus, Gpu(index=2)), gpus_known=True)
    assert kernel_environment(partly, venv=both, environ={}).gpus is None
    assert kernel_environment(Host(gpus_known=True), venv=both, environ={}).gpus is None


def test_a_path_in_json_that_is_no_text_is_no_crash(tmp_path: Path) -> None:
    folder = add_kernel(tmp_path, "3.6.0", 90)
    (folder / "__grp__add_k.json").write_text(json.dumps({"child_paths": {"add_k.json": 7}}))
    age(folder)
    assert pruned(tmp_path) == {}
