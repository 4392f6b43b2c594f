"""``cudalock resolve``: requirements and a target become a lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cudalock.cli.command import command as make_command
from cudalock.cli.options import choice_options, index_options, option, request_options, target_options
from cudalock.cli.session import Session
from cudalock.cli.wiring import (
    make_policy,
    make_request,
    make_resolve_options,
    make_target,
    open_index,
    pip_notes,
    read_lock_if_there,
)
from cudalock.errors import AnswerIsNo, UsageError

if TYPE_CHECKING:
    from cudalock.compat.model import Policy
    from cudalock.index import IndexClient
    from cudalock.lock import Lock, LockDiff
    from cudalock.requirements.model import Request
    from cudalock.resolve import Resolution
    from cudalock.target.model import Target

__all__ = ["command"]


@dataclass(frozen=True, kw_only=True)
class _Job:
    """One lock to make: where, for what, and what lies there now."""

    path: Path
    target: Target
    existing: Lock | None
    request: Request
    policy: Policy


@make_command("resolve")
@click.argument("requirements", nargs=-1, metavar="[REQ]...")
@target_options(several=True)
@choice_options
@request_options
@option("--upgrade", "-U", is_flag=True, help="Let go of all existing pins.")
@option("--upgrade-package", "-P", repeatable=True, metavar="NAME", help="Let go of the existing pin of NAME.")
@option("-o", "--output", metavar="FILE", help="Where the lock goes; default: pylock.toml, or pylock.TARGET.toml.")
@option("--check", is_flag=True, help="Only say whether the lock is still what is asked for; exit 1 if not.")
@option("--force", is_flag=True, help="Overwrite a pylock.toml that cudalock did not make.")
@index_options
def command(session: Session, requirements: tuple[str, ...], **options: Any) -> int:
    """Turns requirements into a lock: one torch, triton and CUDA that fit the target, and everything they need.

    Without REQ the inputs recorded in the existing lock are resolved again, else the project's dependencies.
    Existing pins stay unless --upgrade or --upgrade-package lets them go.
    """
    constraints = pip_notes(session)
    names: tuple[str | None, ...] = options["target"] or (None,)
    if options["output"] and len(names) > 1:
        raise UsageError("options-conflict", "--output takes one target", hint="leave it out: each target has its file")
    make_jobs = partial(_jobs, session, names, requirements, options, constraints)
    if options["check"]:
        _require_locks(_path(name, options) for name in names)
        return _check(session, make_jobs())
    jobs: list[_Job] = []
    done = 0
    try:
        with open_index(session, options) as client:
            client.warm_up()
            jobs = make_jobs()
            resolve_job = _resolving(session, options, client)
            answers = []
            for job in jobs:
                answers.append(_locked(session, job, client, resolve_job(job), options))
                done += 1
            statistics = client.statistics
    except KeyboardInterrupt:
        kept = [f"{job.path} {'is as before' if job.path.exists() else 'was not written'}" for job in jobs[done:]]
        if jobs:
            session.reporter.message("warning", ", ".join(kept) or "all locks are written")
        raise
    session.reporter.message("info", f"{statistics.requests} requests, {statistics.bytes / 1e6:.1f} MB")
    session.answer(answers[0] if len(answers) == 1 else {"locks": answers})
    return 0


def _jobs(
    session: Session,
    names: tuple[str | None, ...],
    requirements: tuple[str, ...],
    options: Mapping[str, Any],
    constraints: tuple[str, ...],
) -> list[_Job]:
    return [_job(session, name, requirements, options, constraints) for name in names]


def _path(name: str | None, options: Mapping[str, Any]) -> Path:
    return Path(options["output"] or (f"pylock.{name}.toml" if name else "pylock.toml"))


def _job(
    session: Session,
    name: str | None,
    requirements: tuple[str, ...],
    options: Mapping[str, Any],
    constraints: tuple[str, ...],
) -> _Job:
    from cudalock.lock import recorded_policy, refuse_foreign

    path = _path(name, options)
    if not options["check"]:
        refuse_foreign(path, force=options["force"])
    existing = None if options["force"] and not _readable(path) else read_lock_if_there(path)
    ours = existing if existing is not None and existing.ours else None
    target = make_target(session, options, name=name, lock=ours.target if ours else None)
    request = make_request(session, requirements, options, existing=ours, constraints=constraints)
    policy = make_policy(options, recorded_policy(ours) if ours and not requirements else None)
    return _Job(path=path, target=target, existing=ours, request=request, policy=policy)


def _readable(path: Path) -> bool:
    from cudalock.lock import read_lock

    try:
        read_lock(path)
    except UsageError:
        return False
    return True


def _require_locks(paths: Iterable[Path]) -> None:
    """Before anything else is looked at: without a lock there is nothing to check."""
    for path in paths:
        if not path.exists():
            raise UsageError(
                "lock-missing",
                f"there is no lock at {path}",
                hint="`cudalock resolve` with the same arguments, without --check, makes it",
            )


def _check(session: Session, jobs: list[_Job]) -> int:
    from cudalock.lock import outdated

    reasons: list[str] = []
    for job in jobs:
        if job.existing is None:
            raise UsageError(
                "lock-not-ours", f"{job.path} was not made by cudalock", hint="--check speaks of cudalock's own locks"
            )
        reasons += [f"{job.path}: {reason}" for reason in outdated(job.existing, job.request, job.target, job.policy)]
    if reasons:
        raise AnswerIsNo(
            "lock-outdated",
            "; ".join(reasons),
            hint="`cudalock resolve` with the same arguments, without --check, makes the lock anew",
            details={"reasons": reasons},
        )
    if not session.answer({"up_to_date": True, "locks": [str(job.path) for job in jobs]}):
        from cudalock.cli.output import emit_text

        emit_text("\n".join(f"{job.path} is up to date" for job in jobs))
    return 0


def _resolving(session: Session, options: Mapping[str, Any], client: IndexClient) -> Callable[[_Job], Resolution]:
    """The function that resolves one job after the other, each in the light of those before."""
    from cudalock.lock import preferred_pins
    from cudalock.resolve import Earlier, resolve

    earlier = Earlier()
    resolve_options = make_resolve_options(session, options, client)

    def resolve_job(job: _Job) -> Resolution:
        asked = ", ".join(str(asked.requirement) for asked in job.request.requirements[:4])
        more = len(job.request.requirements) - 4
        some = f"{asked}{f' and {more} more' if more > 0 else ''}"
        session.reporter.step(f"resolving {some} for {describe(job.target)}")
        return resolve(
            job.request,
            job.target,
            client,
            policy=job.policy,
            preferred=preferred_pins(job.existing) if job.existing else {},
            options=resolve_options,
            reporter=session.reporter,
            earlier=earlier,
        )

    return resolve_job


def _locked(
    session: Session, job: _Job, client: IndexClient, resolution: Resolution, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Writes the lock of a resolution and says what is worth knowing of it."""
    from cudalock.lock import build_lock, complete_hashes, diff_locks, write_lock

    resolution = complete_hashes(resolution, client)
    urls = {"main": client.main.url, "pytorch": client.settings.pytorch_url, **client.settings.sources}
    lock = build_lock(resolution, job.target, job.request, job.policy, index_urls=urls)
    changed = write_lock(job.path, lock, force=options["force"])
    difference = diff_locks(job.existing, lock)
    for warning in resolution.warnings:
        session.reporter.message("warning", warning.sentence, code=warning.code)
    for note in resolution.notes:
        session.reporter.message("note", note.sentence)
    for sentence in resolution.held_back:
        session.reporter.message("note", sentence)
    if not session.as_json:
        _draw(job, lock, resolution, difference, changed=changed, quiet=session.reporter.verbosity < 0)
    return _as_json(job, lock, resolution, difference, changed=changed)


def describe(target: Target) -> str:
    """The target in one line: GPUs, driver, Python and platform."""
    if target.cpu:
        machine = "CPU"
    else:
        gpus = ", ".join(f"{gpu.count} x {gpu}" if gpu.count > 1 else str(gpu) for gpu in target.gpus)
        machine = f"{gpus}, driver {target.driver}"
    return f"{machine}, Python {target.python}, {target.platform}"


def _as_json(job: _Job, lock: Lock, resolution: Resolution, difference: LockDiff, *, changed: bool) -> dict[str, Any]:
    triple = lock.triple
    verdict = resolution.triple.verdict if resolution.triple else None
    return {
        "lock": str(job.path),
        "written": changed,
        "target": {
            "platform": str(job.target.platform),
            "python": str(job.target.python),
            "driver": str(job.target.driver) if job.target.driver else None,
            "gpus": [str(capability) for capability in job.target.capabilities],
            "cpu": job.target.cpu,
            "name": job.target.name,
            "origin": dict(job.target.origin),
        },
        "triple": {
            "torch": triple.torch,
            "triton": triple.triton,
            "cuda": str(triple.cuda) if triple.cuda else None,
            "source": resolution.triple.build.source if resolution.triple else None,
        }
        if triple
        else None,
        "compat": verdict.mode.value if verdict and verdict.mode else None,
        "indexes": list(resolution.indexes),
        "packages": [{"name": pin.name, "version": str(pin.version)} for pin in resolution.pins],
        "changes": difference.to_json(),
        "notes": [note.to_json() for note in resolution.notes],
        "warnings": [warning.to_json() for warning in resolution.warnings],
        "held_back": list(resolution.held_back),
    }


def _draw(job: _Job, lock: Lock, resolution: Resolution, difference: LockDiff, *, changed: bool, quiet: bool) -> None:
    from cudalock.cli.output import emit_line

    if lock.triple:
        verdict = resolution.triple.verdict if resolution.triple else None
        emit_line(
            (f"torch {lock.triple.torch}", "bold"),
            (f"  triton {lock.triple.triton or 'none'}", "bold"),
            (f"  CUDA {lock.triple.cuda or 'none (CPU build)'}", "bold"),
            (f"  ({verdict.mode.value})" if verdict and verdict.mode else "", "dim"),
        )
    if quiet:
        return
    for name, version in difference.added if job.existing else ():
        emit_line((f"+ {name} {version}", "green"))
    for name, version in difference.removed:
        emit_line((f"- {name} {version}", "red"))
    for change in difference.changed:
        emit_line((f"~ {change.name} {change.before} -> {change.after}", "yellow"))
    state = "wrote" if changed else "unchanged:"
    emit_line(f"{state} {job.path} ({len(resolution.pins)} packages from {', '.join(resolution.indexes)})")
