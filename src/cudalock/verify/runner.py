"""Climbs the ladder: starts the probe for each rung, judges what it says, and makes the report."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import InvalidRequirement, Requirement

from cudalock.errors import UsageError
from cudalock.findings import Finding
from cudalock.lock.drift import drift_findings
from cudalock.lock.environment import read_environment
from cudalock.lock.model import Lock
from cudalock.markers import holds
from cudalock.progress import SILENT, Reporter
from cudalock.verify.children import ProbeAnswer, probe_environment, run_probe
from cudalock.verify.judge import judge_machine_code, judge_rung, key_line
from cudalock.verify.model import Rung, VerifyReport
from cudalock.versions import ComputeCapability

__all__ = ["RUNGS", "TIME_LIMIT_S", "capabilities_to_cross_compile", "verify"]

TIME_LIMIT_S = 300.0
"""Time limit of one rung in seconds: a first import of torch from a slow disk takes minutes."""

_TRITON_RUNGS = frozenset({"triton-kernel", "triton-gradients", "torch-compile"})
_ON_GPU = ("torch-operations", "triton-kernel", "triton-gradients", "torch-compile", "nvrtc", "attention")
RUNGS = ("lock", "import", "gpu", "machine-code", *_ON_GPU)
"""The rungs in order; with architectures given: ``lock`` and one ``cross-compile N.M`` for each."""

_OVERRIDES = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")
_TRITON_MINIMUM = ComputeCapability(7, 0)
_FAILED = frozenset({"failed", "timeout", "crashed"})

Outcome = Literal["passed", "failed", "skipped", "timeout", "crashed"]


def verify(
    environment: Path,
    *,
    lock: Lock | None = None,
    archs: tuple[ComputeCapability, ...] = (),
    without_triton: bool = False,
    time_limit_s: float = TIME_LIMIT_S,
    reporter: Reporter = SILENT,
    on_rung: Callable[[Rung], None] | None = None,
) -> VerifyReport:
    """The GPU compile test of an environment, each rung in its own process.

    Args:
        environment: a virtual environment, another prefix with ``bin/python``, or an interpreter.
        lock: the first rung compares the installed versions of a virtual environment with it; else it is left out.
        archs: compile Triton's kernel for these instead, without a GPU and without torch. Nothing is then proven.
        without_triton: skip the rungs that need Triton.
        time_limit_s: for each rung, in seconds.
        reporter: hears of every rung that begins.
        on_rung: called with every rung as soon as it has ended.

    Raises:
        UsageError: ``venv-missing`` or ``venv-invalid``: there is no interpreter to run the test with.
    """
    ladder = _Ladder(
        environment=environment,
        python=_interpreter(environment),
        lock=lock,
        without_triton=without_triton or bool(lock and lock.inputs.get("without-triton")),
        time_limit_s=time_limit_s,
        reporter=reporter,
        on_rung=on_rung,
    )
    with tempfile.TemporaryDirectory(prefix="cudalock-verify-", ignore_cleanup_errors=True) as cache:
        ladder.prepare(Path(cache))
        if lock is not None:
            ladder.compare_with_lock(lock)
        if archs:
            ladder.cross_compile(archs)
        else:
            ladder.climb()
    return ladder.report(arch_only=bool(archs))


def capabilities_to_cross_compile(lock: Lock) -> tuple[ComputeCapability, ...]:
    """What to cross-compile for where the machine has no driver: the lock's GPUs, else its build's architectures.

    GPUs for which triton is only a passenger, and those below triton's minimum, are left out; empty if the lock has
    no triton.
    """
    if lock.triple is None or lock.triple.triton is None or lock.contract is None:
        return ()
    recorded = lock.target.gpus if lock.target else ()
    wanted = set(recorded) or {a.capability for a in lock.contract.architectures if not a.ptx}
    return tuple(sorted(cc for cc in wanted if cc >= _TRITON_MINIMUM and cc not in _passengers(lock)))


def _passengers(lock: Lock | None) -> frozenset[ComputeCapability]:
    if lock is None or lock.contract is None:
        return frozenset()
    return frozenset(cc for cc, own in lock.contract.gpus.items() if own.triton == "passenger")


@dataclass(kw_only=True)
class _Ladder:
    """One verification under way."""

    environment: Path
    python: Path
    lock: Lock | None
    without_triton: bool
    time_limit_s: float
    reporter: Reporter
    on_rung: Callable[[Rung], None] | None
    rungs: list[Rung] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    environ: Mapping[str, str] = field(default_factory=dict)
    override: str | None = None

    @property
    def isolated(self) -> bool:
        """Whether it is a virtual environment's Python: another's packages may rightly come by PYTHONPATH."""
        return (self.python.parent.parent / "pyvenv.cfg").is_file()

    def prepare(self, cache: Path) -> None:
        """Sets the environment of all rungs and says what of the user's is not used, or is used and unusual."""
        self.environ, left_out = probe_environment(os.environ, cache)
        for name in left_out:
            self.reporter.message("note", f"{name} is set and ignored here: with it nothing would be proven")
        self.override = next((name for name in _OVERRIDES if self.environ.get(name)), None)
        if self.override is not None:
            self.findings.append(
                Finding(
                    code="assembler-overridden",
                    severity="warning",
                    message=f"{self.override} is set: triton calls that assembler, not its own",
                    evidence={"variable": self.override, "value": self.environ[self.override]},
                )
            )

    # -- rungs

    def compare_with_lock(self, lock: Lock) -> None:
        """The lock rung: installed versions equal the lock's, read without importing."""
        if not (self.environment / "pyvenv.cfg").is_file():
            self._skip(("lock",), "the lock is compared with virtual environments only")
            return
        found = drift_findings(lock, read_environment(self.environment, files=True))
        errors = [finding for finding in found if finding.severity == "error"]
        detail = f"{len(lock.pylock.packages)} packages equal the lock"
        if errors:
            detail = "; ".join(finding.message for finding in errors[:3])
            detail += f" and {len(errors) - 3} more" if len(errors) > 3 else ""
        self.findings += found
        self._add(Rung(name="lock", outcome="failed" if errors else "passed", detail=detail))

    def cross_compile(self, archs: tuple[ComputeCapability, ...]) -> None:
        """One rung for each architecture; needs neither a GPU nor torch, but Triton."""
        named = {str(package.name) for package in self.lock.pylock.packages} if self.lock is not None else None
        if self.without_triton or (named is not None and named.isdisjoint({"triton", "pytorch-triton"})):
            why = "it compiles with Triton, which is left out" if self.without_triton else "the lock has no triton"
            self._skip(tuple(f"cross-compile {capability}" for capability in archs), why)
            return
        for capability in archs:
            self._probe("cross-compile", {"arch": capability.number}, shown=f"cross-compile {capability}")

    def climb(self) -> None:
        """Everything that a GPU is needed for, up to the rung without which the rest means nothing."""
        if self.lock is not None and not any(package.name == "torch" for package in self.lock.pylock.packages):
            self._skip(RUNGS[1:], "the lock has no torch")
            return
        imported, found_triton = self._import()
        if not imported or self._for_cpu():
            self._skip(RUNGS[2:], "the lock is for the CPU" if imported else "the rung import failed")
            return
        gpu = self._probe("gpu", {})
        if gpu.outcome != "passed":
            self._skip(RUNGS[3:], "it needs a GPU")
            return
        self._machine_code(gpu.data)
        left_out = self._without_triton(gpu.data)
        for name in _ON_GPU:
            hung = next((rung for rung in self.rungs if rung.outcome == "timeout"), None)
            reason = f"the rung {hung.name} hung" if hung else None
            if name in _TRITON_RUNGS and reason is None:
                reason = self._no_triton(found_triton)
            if reason is not None:
                self._skip((name,), reason)
                continue
            self._probe(name, {"without_triton": left_out})

    def _for_cpu(self) -> bool:
        return self.lock is not None and self.lock.triple is not None and self.lock.triple.cuda is None

    def _import(self) -> tuple[bool, bool]:
        """The import rung: (whether to go on, whether triton is there)."""
        rung = self._probe("import", {"cpu": self._for_cpu()})
        if rung.outcome != "passed":
            return False, False
        found = rung.data.get("triton") is not None
        required = any(_applies(text, str(rung.data["python"])) for text in rung.data.get("torch_requires", ()))
        if required and not found and not self.without_triton:
            self.rungs.pop()
            missing = replace(rung, outcome="failed", detail="torch requires triton, and triton is not installed")
            self._add(missing, error="No module named 'triton'")
            return False, False
        return True, found

    def _machine_code(self, gpu: Mapping[str, Any]) -> None:
        rung = self._probe("machine-code", {}, announce=False)
        if rung.outcome == "passed":
            self.rungs.pop()
            text, findings = judge_machine_code({**rung.data, "cuda_driver": gpu.get("cuda_driver")})
            self.findings += findings
            failed = any(finding.severity == "error" for finding in findings)
            rung = replace(rung, outcome="failed" if failed else "passed", detail=text)
            self.rungs.append(rung)
        self._announce(rung)

    def _without_triton(self, gpu: Mapping[str, Any]) -> list[int]:
        """Numbers of the capabilities whose GPUs are left out of Triton's rungs."""
        present = {ComputeCapability.parse(entry["compute_capability"]) for entry in gpu["gpus"]}
        passengers = _passengers(self.lock)
        return sorted(cc.number for cc in present if cc < _TRITON_MINIMUM or cc in passengers)

    def _no_triton(self, found: bool) -> str | None:
        if self.without_triton:
            return "Triton is left out (--without-triton)"
        return None if found else "triton is not installed, and torch does not require it here"

    # -- bookkeeping

    def _probe(self, name: str, spec: Mapping[str, Any], *, shown: str | None = None, announce: bool = True) -> Rung:
        self.reporter.step(f"verifying {shown or name}")
        answer = run_probe(
            self.python, name, spec, environ=self.environ, time_limit_s=self.time_limit_s, isolated=self.isolated
        )
        rung = _rung(shown or name, answer)
        self._add(rung, error=answer.error, announce=announce)
        return rung

    def _skip(self, names: tuple[str, ...], reason: str) -> None:
        for name in names:
            self._add(Rung(name=name, outcome="skipped", detail=reason))

    def _add(self, rung: Rung, *, error: str = "", announce: bool = True) -> None:
        first = not any(earlier.outcome in _FAILED for earlier in self.rungs)
        self.rungs.append(rung)
        if rung.outcome in _FAILED and rung.name != "lock" and (first or self._only_lock_failed()):
            self.findings.append(judge_rung(rung, error=f"{error}\n{rung.detail}", assembler_override=self.override))
        if announce:
            self._announce(rung)

    def _only_lock_failed(self) -> bool:
        return [rung.name for rung in self.rungs[:-1] if rung.outcome in _FAILED] == ["lock"]

    def _announce(self, rung: Rung) -> None:
        if self.on_rung is not None:
            self.on_rung(rung)

    def report(self, *, arch_only: bool) -> VerifyReport:
        """The report; proven only if kernels ran on every visible GPU and nothing failed."""
        ran = {rung.name for rung in self.rungs if rung.outcome == "passed"}
        failed = any(rung.outcome in _FAILED for rung in self.rungs)
        proven = not arch_only and not failed and {"gpu", "machine-code", "torch-operations"} <= ran
        return VerifyReport(rungs=tuple(self.rungs), findings=tuple(self.findings), proven=proven)


def _rung(name: str, answer: ProbeAnswer) -> Rung:
    outcome: Outcome = "failed"
    for known in ("passed", "skipped", "timeout", "crashed"):
        if answer.outcome == known:
            outcome = known
    detail = key_line(answer.detail) if outcome == "failed" else answer.detail
    return Rung(name=name, outcome=outcome, seconds=answer.seconds, detail=detail, data=answer.data)


def _applies(text: str, python: str) -> bool:
    """Whether a requirement in a METADATA of the environment holds for its Python, without extras."""
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return False
    environment = {"python_full_version": python, "python_version": ".".join(python.split(".")[:2])}
    return holds(requirement.marker, environment)


def _interpreter(environment: Path) -> Path:
    """The Python of a virtual environment or other prefix, or the interpreter that was named itself."""
    if environment.is_file():
        return environment.absolute()
    if not environment.exists():
        raise UsageError(
            "venv-missing",
            f"there is no environment {environment}",
            hint=f"make it with `cudalock install --venv {environment}`",
            details={"venv": str(environment)},
        )
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        raise UsageError(
            "venv-invalid",
            f"{environment} cannot be verified: it has no interpreter {python.relative_to(environment)}",
            hint=f"make it anew with `cudalock install --venv {environment} --clear`",
            details={"venv": str(environment)},
        )
    return python.absolute()
