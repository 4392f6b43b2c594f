"""``cudalock verify``: the GPU compile test of an environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cudalock.cli.command import command as make_command
from cudalock.cli.options import option
from cudalock.cli.session import Session
from cudalock.errors import UsageError

if TYPE_CHECKING:
    from cudalock.lock import Lock
    from cudalock.verify import Rung, VerifyReport
    from cudalock.versions import ComputeCapability

__all__ = ["command", "draw_report", "report_json", "rung_printer"]


@make_command("verify")
@option("--venv", default=".venv", show_default=True, metavar="DIR", help="The environment, or an interpreter.")
@option("--lock", metavar="FILE", help="The lock to compare with; default: pylock.toml if it is there.")
@option(
    "--arch",
    repeatable=True,
    metavar="GPU",
    help="Only compile, for this product or capability; needs no GPU and no torch.",
)
@option("--without-triton", is_flag=True, help="Skip the rungs that need Triton.")
@option("--time-limit", type=float, metavar="SECONDS", help="For each rung.")
def command(
    session: Session, venv: str, lock: str | None, arch: tuple[str, ...], without_triton: bool, time_limit: float | None
) -> int:
    """Compiles and runs kernels in the environment, on every GPU, and compares the results.

    Without a GPU the answer is no, and says what could not be done. With --arch the kernel is only compiled for GPUs
    that need not be there, with the environment's own assembler.
    """
    from cudalock.verify import TIME_LIMIT_S, verify

    document = _lock(lock)
    report = verify(
        Path(venv),
        lock=document,
        archs=parse_archs(arch),
        without_triton=without_triton,
        time_limit_s=time_limit or TIME_LIMIT_S,
        reporter=session.reporter,
        on_rung=None if session.as_json else rung_printer(),
    )
    if not session.answer(report_json(report)):
        draw_report(report)
    return 0 if report.passed else 1


def parse_archs(texts: tuple[str, ...]) -> tuple[ComputeCapability, ...]:
    """The capabilities of ``--arch``, given as such or by product name.

    Raises:
        UsageError: ``arch-invalid`` with near names, ``gpu-ambiguous`` with the choices.
    """
    return tuple(dict.fromkeys(_arch(text) for text in texts))


def _arch(text: str) -> ComputeCapability:
    from cudalock import facts
    from cudalock.target.gpus import one_capability, stated_capability

    if (capability := stated_capability(text)) is not None:
        return capability
    try:
        product = facts.find_product(text)
    except UsageError as error:
        near = ", ".join(error.details.get("near", ()))
        raise UsageError(
            "arch-invalid",
            f"{text!r} is neither a compute capability nor the name of a GPU",
            hint=f"{f'close to it: {near}; or ' if near else ''}write e.g. --arch 9.0, --arch sm_120 or --arch H100",
            details=error.details,
        ) from error
    return one_capability(product, text, option="arch")


def _lock(path: str | None) -> Lock | None:
    from cudalock.lock import read_lock

    if path is None and not Path("pylock.toml").exists():
        return None
    return read_lock(Path(path or "pylock.toml"))


def rung_printer() -> Callable[[Rung], None]:
    """Prints each rung as soon as it has ended."""
    from cudalock.cli.output import emit_line

    styles = {"passed": "green", "skipped": "dim", "failed": "bold red", "timeout": "bold red", "crashed": "bold red"}

    def show(rung: Rung) -> None:
        detail = f"  {rung.detail}" if rung.detail else ""
        emit_line(
            (f"{rung.outcome:8}", styles[rung.outcome]),
            f"{rung.seconds:6.1f} s  {rung.name}",
            (detail, "dim" if rung.outcome == "passed" else ""),
        )

    return show


def draw_report(report: VerifyReport) -> None:
    """What the rungs add up to."""
    from cudalock.cli.output import emit_line
    from cudalock.cli.render import print_findings

    print_findings(report.findings)
    if report.proven and report.passed:
        emit_line(("proven: kernels ran on every visible GPU", "bold green"))
    elif report.passed:
        emit_line("passed; nothing ran on a GPU, so the GPU is not proven")


def report_json(report: VerifyReport) -> dict[str, object]:
    """The report for ``--json``."""
    return {
        "passed": report.passed,
        "proven": report.proven,
        "rungs": [
            {
                "name": rung.name,
                "outcome": rung.outcome,
                "seconds": round(rung.seconds, 2),
                "detail": rung.detail,
                "data": dict(rung.data),
            }
            for rung in report.rungs
        ],
        "findings": [finding.to_json() for finding in report.findings],
    }
