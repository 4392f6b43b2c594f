"""From the values of options to the library's own values: the target, the indexes, the request, the policy."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cudalock.errors import UsageError

if TYPE_CHECKING:
    from cudalock.cli.session import Session
    from cudalock.compat.model import Policy
    from cudalock.host.model import Host
    from cudalock.index import IndexClient, IndexSettings
    from cudalock.index.model import CoreMetadata, IndexFile
    from cudalock.install import SourceRules
    from cudalock.lock.model import Lock, LockedTarget
    from cudalock.requirements.model import Request
    from cudalock.resolve import ResolveOptions
    from cudalock.target.model import Target

__all__ = [
    "TARGET_NAMES",
    "index_settings",
    "locks_on_disk",
    "make_policy",
    "make_request",
    "make_resolve_options",
    "make_target",
    "open_index",
    "pip_notes",
    "read_lock_if_there",
    "source_rules",
]

TARGET_NAMES = ("gpu", "driver", "python", "platform", "cpu", "facts")
"""The options that describe one target; ``--target`` names one that the configuration describes."""


def make_target(
    session: Session, options: Mapping[str, Any], *, name: str | None, lock: LockedTarget | None = None
) -> Target:
    """The target: flags, else the environment, else ``[tool.cudalock]``, else the existing lock, else this machine."""
    from cudalock.host import detect, detect_surroundings, read_facts
    from cudalock.target import TargetOptions, build_target

    host: Any
    if options["facts"]:
        host = read_facts(options["facts"], reporter=session.reporter)[0]
        surroundings: Any = None
    else:

        def host() -> Host:
            return detect(reporter=session.reporter)

        surroundings = detect_surroundings
    config = session.config
    target = build_target(
        TargetOptions(
            gpus=tuple(options["gpu"]),
            driver=options["driver"],
            python=options["python"],
            platform=options["platform"],
            cpu=options["cpu"] or None,
            name=name,
            facts=options["facts"],
            origins=_from_environment({"gpus": "gpu"} | {key: key for key in TARGET_NAMES}),
        ),
        host=host,
        surroundings=surroundings,
        targets=config.targets,
        default=config.target,
        lock=lock,
    )
    for note in target.notes:
        session.reporter.message("note", note)
    from_lock = sorted(attribute for attribute, origin in target.origin.items() if origin == "lock")
    if from_lock:
        session.reporter.message(
            "note",
            f"{_listed(from_lock)} of the target {'comes' if len(from_lock) == 1 else 'come'} from the existing lock;"
            " name another with an option, or remove the lock to start from this machine",
        )
    return target


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _from_environment(parameters: Mapping[str, str]) -> dict[str, str]:
    context = click.get_current_context()
    return {
        attribute: "environment"
        for attribute, parameter in parameters.items()
        if context.get_parameter_source(parameter) is click.core.ParameterSource.ENVIRONMENT
    }


def index_settings(session: Session, options: Mapping[str, Any]) -> IndexSettings:
    """Where the indexes are and how to talk to them: from options, configuration and the user's pip."""
    import platformdirs

    from cudalock.index import DEFAULT_PYTORCH_URL, IndexSettings, pip_settings

    pip = pip_settings()
    usual = IndexSettings()
    return IndexSettings(
        timeout_s=options["timeout"] or usual.timeout_s,
        retries=usual.retries if options["retries"] is None else options["retries"],
        allowed_hosts=frozenset(options.get("allowed_hosts", ())),
        main_url=options["index_url"],
        pytorch_url=(options["pytorch_index_url"] or DEFAULT_PYTORCH_URL).rstrip("/"),
        sources={name: source.url for name, source in session.config.sources.items()},
        cache_dir=Path(options["cache_dir"] or platformdirs.user_cache_dir("cudalock", appauthor=False)),
        offline=options["offline"],
        allow_insecure_hosts=frozenset(host.lower() for host in options["allow_insecure_host"]),
        ca_bundle=pip.ca_bundle,
        proxy=pip.proxy,
    )


def source_rules(options: Mapping[str, Any]) -> SourceRules:
    """From where the files of a lock may come."""
    from cudalock.install import SourceRules

    return SourceRules(
        allowed_hosts=frozenset(host.lower() for host in options["allowed_hosts"]),
        allow_insecure_hosts=frozenset(host.lower() for host in options["allow_insecure_host"]),
        allow_local_files=options["allow_local_files"],
    )


def open_index(session: Session, options: Mapping[str, Any]) -> IndexClient:
    """The index client; which index is the main one is said with ``-v``."""
    from cudalock.cli.memory import return_memory
    from cudalock.index import IndexClient

    return_memory()
    client = IndexClient(index_settings(session, options), reporter=session.reporter, config=session.config.defaults)
    session.reporter.message("info", f"the main index is {client.main.url} ({client.main.origin})")
    return client


def pip_notes(session: Session) -> tuple[str, ...]:
    """Pip's configured constraints, shown and returned, and a note on the indexes of its that are not used."""
    from cudalock.index import pip_settings

    pip = pip_settings()
    if pip.constraints:
        session.reporter.message(
            "note", f"pip's constraint counts as -c: {', '.join(pip.constraints)} ({pip.constraints_origin})"
        )
    if pip.ignored:
        names = ", ".join(dict.fromkeys(f"{option} {value}" for option, value, _ in pip.ignored))
        session.reporter.message(
            "note",
            f"pip is also configured with {names}; cudalock does not search these"
            " (map projects to an index in [tool.cudalock.sources])",
        )
    return pip.constraints


def make_policy(options: Mapping[str, Any], recorded: Policy | None = None) -> Policy:
    """``--cuda``, ``--compat`` and ``--without-triton``, each falling back to what an existing lock records."""
    from cudalock.compat.model import Mode, Policy

    policy = recorded or Policy()
    if options["cuda"]:
        from cudalock.versions import CudaVersion

        try:
            policy = replace(policy, cuda=str(CudaVersion.parse(options["cuda"])))
        except ValueError as error:
            raise UsageError("cuda-invalid", str(error), hint="write --cuda 12.8 or --cuda cu128") from error
    modes = {
        "native": frozenset({Mode.NATIVE}),
        "minor": frozenset({Mode.NATIVE, Mode.MINOR}),
        "forward": frozenset(Mode),
    }
    if options["compat"]:
        policy = replace(policy, modes=modes[options["compat"]])
    if options["without_triton"]:
        policy = replace(policy, without_triton=True)
    return policy


def make_resolve_options(
    session: Session, options: Mapping[str, Any], client: IndexClient | None = None
) -> ResolveOptions:
    """How the PyTorch index and further sources are used, and, with a client, how a source distribution is asked."""
    from packaging.utils import canonicalize_name

    from cudalock.resolve import ResolveOptions

    if options["no_pytorch_index"] and options["require_pytorch_index"]:
        raise UsageError(
            "options-conflict",
            "--no-pytorch-index and --require-pytorch-index exclude each other",
            hint="give one of them",
        )
    use = "never" if options["no_pytorch_index"] else "require" if options["require_pytorch_index"] else "auto"
    sources = {
        canonicalize_name(project): name
        for name, source in session.config.sources.items()
        for project in source.projects
    }

    build_metadata = partial(_ask_build, session, options, client) if client is not None else None
    return ResolveOptions(
        pytorch=use,  # type: ignore[arg-type]  # one of the three literals
        sources=sources,
        build_metadata=build_metadata,
    )


def _ask_build(session: Session, options: Mapping[str, Any], client: IndexClient, file: IndexFile) -> CoreMetadata:
    from cudalock.install.metadata import PipMetadata

    where, offline = options["index_url"], options["offline"]
    return PipMetadata(client, index_url=where, offline=offline, reporter=session.reporter)(file)


def make_request(
    session: Session,
    arguments: Sequence[str],
    options: Mapping[str, Any],
    *,
    existing: Lock | None,
    constraints: Sequence[str],
) -> Request:
    """What is asked for: arguments, files and the project, else what the existing lock records, else the project.

    Raises:
        UsageError: ``nothing-asked`` if there is none of these.
    """
    from cudalock.lock import recorded_request
    from cudalock.requirements import read_request

    del session
    named = bool(arguments or options["requirement"] or options["project"])
    project = Path(options["project"]) if options["project"] else None
    if not named:
        if existing is not None and existing.ours and not (options["extra"] or options["group"]):
            recorded_project = bool(existing.inputs.get("project"))
            if not recorded_project:
                return _with_options(recorded_request(existing), options)
        project = _project_here()
        if project is None:
            if existing is not None and existing.ours:
                return _with_options(recorded_request(existing), options)
            raise UsageError(
                "nothing-asked",
                "nothing is asked for: no requirement, no lock with recorded inputs, no project here",
                hint="name what you want, for example `cudalock resolve torch`, or use -r FILE",
            )
    return read_request(
        arguments,
        requirement_files=options["requirement"],
        constraint_files=options["constraint"],
        configured_constraints=constraints,
        project=project,
        extras=options["extra"],
        groups=options["group"],
        exclude_newer=options["exclude_newer"],
        allow_build=options["allow_build"],
        upgrade=options["upgrade"],
        upgrade_packages=options["upgrade_package"],
        prerelease=options["prerelease"],
    )


def _with_options(request: Request, options: Mapping[str, Any]) -> Request:
    """The recorded request with what was said anew on the command line."""
    from cudalock.requirements import read_request

    said = read_request(
        constraint_files=options["constraint"],
        exclude_newer=options["exclude_newer"],
        allow_build=options["allow_build"],
        upgrade=options["upgrade"],
        upgrade_packages=options["upgrade_package"],
        prerelease=options["prerelease"],
    )
    return replace(
        request,
        constraints=(*request.constraints, *said.constraints),
        exclude_newer=said.exclude_newer or request.exclude_newer,
        allow_build=request.allow_build | said.allow_build,
        upgrade=said.upgrade,
        upgrade_packages=said.upgrade_packages,
        prerelease=request.prerelease | said.prerelease,
    )


def _project_here() -> Path | None:
    import tomli

    path = Path("pyproject.toml")
    try:
        document = tomli.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None  # an unreadable one is reported by the configuration
    return Path() if "project" in document else None


def read_lock_if_there(path: Path) -> Lock | None:
    """The lock that is about to be replaced, if there is one."""
    from cudalock.lock import read_lock

    return read_lock(path) if os.path.lexists(path) else None


def locks_on_disk() -> list[str]:
    """Names of the locks in the current folder, for hints."""
    return sorted(path.name for path in Path().glob("pylock*.toml"))
