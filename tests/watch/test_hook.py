"""The hook in real processes, with a package in place of Triton that has the classes it looks for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from cudalock.errors import ToolError
from cudalock.watch import WatchReport, watch_command
from support.watched import stand_in

KERNELS = """
import triton
from triton.compiler import ASTSource
class Fn:
    __name__ = "add_k"
    arg_names = ["x", "n", "BLOCK"]
    constexprs = [2]
    cache_key = "abc"
def launch(kind, n=None, block=64, **options):
    signature = {"x": kind, "n": "i32" if n is None else "constexpr", "BLOCK": "constexpr"}
    constants = {(2,): block, **({} if n is None else {(1,): n})}
    return triton.compile(ASTSource(Fn(), signature, constants, {(0,): [["tt.divisibility", 16]]}), **options)
"""


def watched(tmp_path: Path, code: str, *flags: str, **environ: str) -> tuple[int, WatchReport]:
    package = tmp_path / "package"
    if not package.exists():
        (stand_in(package) / "kernels.py").write_text(KERNELS)
    (tmp_path / "program.py").write_text("from kernels import launch\n" + textwrap.dedent(code))
    environment = {**os.environ, "PYTHONPATH": str(package), **environ}
    return watch_command([sys.executable, *flags, str(tmp_path / "program.py")], environ=environment, threshold=2)


def test_compilations_loads_and_causes(tmp_path: Path) -> None:
    status, report = watched(
        tmp_path,
        """
        launch("*fp32"); launch("*fp32"); launch("*fp16"); launch("*fp16", n=1); launch("*fp16", n=1, num_warps=8)
        raise SystemExit(3)
        """,
    )
    assert status == 3
    assert report.tritons == ("3.6.0",)
    assert (report.processes, report.compiled, report.loaded, report.unsupported) == (1, 4, 1, ())
    (kernel,) = report.kernels
    assert [[str(cause) for cause in it.causes] for it in kernel.compilations] == [
        ["first variant"],
        ["x: *fp32 -> *fp16"],
        ["n: any i32 -> the constant 1"],
        ["num_warps: 4 -> 8"],
    ]
    assert kernel.compilations[0].variant.arguments["x"]["divisible"] is True
    assert [finding.code for finding in report.findings] == ["recompile-storm"]


def test_children_and_forks_are_watched(tmp_path: Path) -> None:
    status, report = watched(
        tmp_path,
        """
        import os, subprocess, sys
        launch("*fp32")
        if os.fork() == 0:
            launch("*fp16")
            os._exit(0)
        os.wait()
        subprocess.run([sys.executable, "-c", "from kernels import launch; launch('*bf16')"], check=True)
        """,
    )
    assert status == 0
    assert (report.processes, report.compiled) == (3, 3)
    assert len({it.pid for it in report.kernels[0].compilations}) == 3


def test_a_sitecustomize_of_the_environment_still_runs(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nsys.own_sitecustomize = __file__\n")
    path = os.pathsep.join([str(own), str(tmp_path / "package")])
    status, report = watched(
        tmp_path, "import sys; launch('*fp32'); sys.exit(len(sys.own_sitecustomize) > 0)", PYTHONPATH=path
    )
    assert (status, report.compiled) == (1, 1)


def test_the_module_keeps_its_own_loader(tmp_path: Path) -> None:
    status, _ = watched(
        tmp_path,
        """
        import inspect, sys, triton
        module = sys.modules["triton.compiler.compiler"]
        assert type(module.__loader__).__name__ == type(module.__spec__.loader).__name__ == "SourceFileLoader"
        assert "def compile" in inspect.getsource(triton.compile)
        assert "make_ir" in inspect.getsource(module.ASTSource)
        """,
    )
    assert status == 0


def test_a_failed_compilation_is_not_taken_for_a_later_one(tmp_path: Path) -> None:
    status, report = watched(
        tmp_path,
        """
        from triton.compiler.compiler import ASTSource
        launch("*fp32")
        from kernels import Fn
        ASTSource(Fn(), {}).make_ir()
        launch("*fp32")
        """,
    )
    assert (status, report.compiled, report.loaded) == (0, 1, 1)


def test_a_kernel_that_the_hook_does_not_understand_does_no_harm(tmp_path: Path) -> None:
    status, report = watched(
        tmp_path,
        """
        from triton.compiler.compiler import CompiledKernel
        class Odd(dict):
            def items(self):
                raise RuntimeError("odd")
        class Source:
            name = "odd"
            signature = Odd(x=1)
            fn = type("F", (), {"arg_names": ["x"], "__name__": "odd"})()
        print(CompiledKernel(Source(), {"num_warps": 1}, "h").metadata.num_warps)
        """,
    )
    assert status == 0
    assert report.unsupported == ("RuntimeError('odd')",)


def test_a_python_that_ignores_the_hook_is_known(tmp_path: Path) -> None:
    (tmp_path / "quiet.py").write_text("print('hello')")
    status, report = watch_command([sys.executable, "-I", str(tmp_path / "quiet.py")], stdout=subprocess.DEVNULL)
    assert (status, report.processes, report.compiled) == (0, 0, 0)


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(ToolError) as caught:
        watch_command(["no-such-program"])
    assert caught.value.code == "program-not-found"


def test_a_signal_ends_the_program_and_what_it_wrote_is_kept(tmp_path: Path) -> None:
    status, report = watched(tmp_path, "import os, signal; launch('*fp32'); os.kill(os.getpid(), signal.SIGKILL)")
    assert (status, report.compiled) == (128 + signal.SIGKILL, 1)


def test_the_command_answers_json_and_passes_signals_on(tmp_path: Path) -> None:
    (stand_in(tmp_path) / "kernels.py").write_text(KERNELS)
    code = (
        "import signal, sys, time; from kernels import launch; launch('*fp32')\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
        "print('ready', flush=True); time.sleep(60)\n"
    )
    command = [sys.executable, "-m", "cudalock", "watch", "--json", "--", sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 9
    assert '"compiled": 1' in out
    assert '"status": 9' in out


def test_a_program_watches_itself(tmp_path: Path) -> None:
    """With kernels that were there before, and without a trace after."""
    (stand_in(tmp_path) / "kernels.py").write_text(KERNELS)
    code = textwrap.dedent(
        """
        from kernels import launch
        from cudalock.watch import watching
        import triton.compiler.compiler as compiler
        before = compiler.CompiledKernel.__init__, compiler.ASTSource.make_ir
        launch("*fp32")
        with watching(threshold=1) as watch:
            launch("*fp32"); launch("*fp16"); launch("*bf16")
            inner = watch.report()
        launch("*fp64")
        report = watch.report()
        assert (report.compiled, report.loaded, len(report.findings)) == (2, 1, 1), report
        assert inner.compiled == 2
        assert (compiler.CompiledKernel.__init__, compiler.ASTSource.make_ir) == before
        """
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_watching_before_triton_is_imported(tmp_path: Path) -> None:
    (stand_in(tmp_path) / "kernels.py").write_text(KERNELS)
    code = (
        "from cudalock.watch import watching\n"
        "with watching() as watch:\n"
        "    from kernels import launch\n"
        "    launch('*fp32')\n"
        "assert watch.report().compiled == 1, watch.report()\n"
        "assert watch.report().tritons == ('3.6.0',), watch.report()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
