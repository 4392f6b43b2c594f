"""Requirements and constraints files in pip's syntax.

A line is a requirement, an option that stands alone, or nothing. ``#`` starts a comment at the beginning of a line or
after white space, a backslash at the end joins lines, ``${NAME}`` is an environment variable. Options that name
further files are followed; those that would change where files come from are refused, because cudalock takes them
from its own configuration; those without meaning here give a note.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from cudalock.errors import UsageError
from cudalock.files import read_file
from cudalock.requirements.faults import Faults
from cudalock.requirements.model import AskedRequirement
from cudalock.requirements.parsing import parse_requirement

__all__ = ["FileReader", "logical_lines"]

_COMMENT = re.compile(r"(^|\s+)#.*$")
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
_PYTORCH_HOSTS = frozenset({"download.pytorch.org", "download-r2.pytorch.org"})
_SHORT = {"-r": "--requirement", "-c": "--constraint", "-i": "--index-url", "-f": "--find-links", "-e": "--editable"}
_INDEX_OPTIONS = frozenset({"--index-url", "--extra-index-url", "--find-links"})
_WITHOUT_EFFECT = {
    "--require-hashes": None,  # the lock holds the sha256 of every file anyway
    "--prefer-binary": None,  # wheels are always preferred
    "--only-binary": "only wheels are taken unless --allow-build NAME says otherwise",
    "--use-feature": "features of pip mean nothing to cudalock",
}
_REFUSED = {
    "--no-index": "give the folder or index that should be used with --index-url on the command line",
    "--trusted-host": "configure the index and its certificate with cudalock's own options",
    "--pre": "name the pre-release in the requirement, e.g. `torch>=2.9.dev0`",
    "--no-binary": "use --allow-build NAME on the command line for packages that may be built from source",
    "--hash": "delete the hashes: the lock that cudalock writes holds the sha256 of every file",
    "--config-settings": "build a wheel of it first and write `name @ file:///path/to/the.whl`",
    "--global-option": "build a wheel of it first and write `name @ file:///path/to/the.whl`",
}

Kind = Literal["requirements", "constraints"]


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that say something, joined and without comments, each with the number of its first physical line."""
    start = 0
    parts: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        start = start if parts else number
        is_comment = _COMMENT.match(line) is not None
        if line.endswith("\\") and not is_comment:
            parts.append(line[:-1])
            continue
        parts.append("" if is_comment else line)
        joined = _COMMENT.sub("", "".join(parts)).strip()
        parts = []
        if joined:
            yield start, joined


@dataclass(slots=True)
class FileReader:
    """Reads files of requirements and all that they include, and keeps requirements and constraints apart.

    Attributes:
        faults: collects what is wrong, so that everything is reported at once.
        requirements, constraints: what was found, in the order of the files.
        notes: sentences about options that have no effect.
    """

    faults: Faults
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    requirements: list[AskedRequirement] = field(default_factory=list)
    constraints: list[AskedRequirement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def read(self, file: str | Path, kind: Kind, *, label: str | None = None) -> None:
        """Reads one file; ``label`` stands for its name in origins and errors. Faults are collected, not raised."""
        self._read(str(file), kind, label, included_by=None, stack=())

    def _read(
        self, name: str, kind: Kind, label: str | None, *, included_by: str | None, stack: tuple[Path, ...]
    ) -> None:
        shown = label or name
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", name) and not name.startswith("file://"):
            self.faults.add(
                UsageError(
                    "requirements-file-is-url",
                    f"{_prefix(included_by)}{_without_credentials(name)!r} is an address, "
                    f"and cudalock reads {kind} from files only",
                    hint="download it and give the path of the file",
                    details={"file": _without_credentials(name)},
                )
            )
            return
        path = Path(name.removeprefix("file://")).expanduser() if not name.startswith("~") else _expanded(name)
        text = self._text_of(path, kind, shown, included_by)
        if text is None:
            return
        real = path.resolve()
        if real in stack:
            self.faults.add(
                UsageError(
                    "requirements-file-cycle",
                    f"{_prefix(included_by)}{shown} includes itself",
                    hint="remove the -r or -c line that leads back",
                    details={"file": shown},
                )
            )
            return
        for number, line in logical_lines(text):
            origin = f"{shown}:{number}"
            try:
                self._line(self._expand(line), kind, origin, path, (*stack, real))
            except UsageError as error:
                self.faults.add(error)

    def _text_of(self, path: Path, kind: Kind, shown: str, included_by: str | None) -> str | None:
        prefix = _prefix(included_by)
        try:
            return read_file(path).decode("utf-8-sig")
        except FileNotFoundError:
            code, message = "requirements-file-missing", f"{prefix}there is no file {shown}"
        except IsADirectoryError:
            code, message = "requirements-file-unreadable", f"{prefix}{shown} is a folder, not a file of {kind}"
        except UnicodeDecodeError as error:
            code, message = "requirements-file-unreadable", f"{prefix}{shown} is not UTF-8 text (byte {error.start})"
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            code, message = "requirements-file-unreadable", f"{prefix}{shown} cannot be read: {reason}"
        option = "-r" if kind == "requirements" else "-c"
        self.faults.add(
            UsageError(code, message, hint=f"give the path of a text file with {option}", details={"file": shown})
        )
        return None

    def _expand(self, line: str) -> str:
        return _VARIABLE.sub(lambda match: self.environment.get(match[1]) or match[0], line)

    def _line(self, line: str, kind: Kind, origin: str, path: Path, stack: tuple[Path, ...]) -> None:
        if not line.startswith("-"):
            self._requirement(line, kind, origin)
            return
        for option, value in _options(line, origin):
            if option in {"--requirement", "--constraint"}:
                if not value:
                    raise _invalid_line(line, origin, f"{option} names no file")
                # what a constraints file includes stays a constraint
                inner: Kind = "constraints" if kind == "constraints" or option == "--constraint" else "requirements"
                is_address = "://" in value
                nested = value if is_address else str(path.parent / _expanded(value))
                self._read(nested, inner, None, included_by=origin, stack=stack)
            else:
                self._option(option, value, line, origin)

    def _requirement(self, line: str, kind: Kind, origin: str) -> None:
        match = re.search(r"\s(--?[a-z])", line)
        text, options = (line[: match.start()], line[match.start() :]) if match else (line, "")
        for option, value in _options(options, origin) if options else ():
            self._option(option, value, line, origin)
        requirement = parse_requirement(text, origin, constraint=kind == "constraints")
        found = self.constraints if kind == "constraints" else self.requirements
        found.append(AskedRequirement(requirement=requirement, origin=origin))

    def _option(self, option: str, value: str | None, line: str, origin: str) -> None:
        if option in _WITHOUT_EFFECT:
            if reason := _WITHOUT_EFFECT[option]:
                self.notes.append(f"{origin}: {option} has no effect: {reason}")
            return
        if option in _INDEX_OPTIONS:
            self._index_option(option, value or "", origin)
            return
        if option == "--editable":
            raise UsageError(
                "requirement-is-editable",
                f"{origin}: an editable install cannot be locked: {line!r}",
                hint="lock its dependencies with `cudalock resolve` in its folder and install it afterwards",
                details=_details(origin),
            )
        if option in _REFUSED:
            raise UsageError(
                "requirements-option-unsupported",
                f"{origin}: {option} is not supported in a requirements file",
                hint=_REFUSED[option],
                details=_details(origin, option),
            )
        raise _invalid_line(line, origin, f"{option} is not an option of requirements files")

    def _index_option(self, option: str, value: str, origin: str) -> None:
        """An index of PyTorch's is ours anyway (a note); any other must be configured, not smuggled in by a file."""
        try:
            parts = urlsplit(value)
            host = parts.hostname
        except ValueError:
            host, parts = None, urlsplit("")
        if host in _PYTORCH_HOSTS:
            label = parts.path.rstrip("/").rsplit("/", 1)[-1]
            wanted = f"; `--cuda {label}` asks for that label" if re.fullmatch(r"cu\d{2,3}", label) else ""
            self.notes.append(f"{origin}: {option} has no effect: cudalock asks the PyTorch index itself{wanted}")
            return
        raise UsageError(
            "requirements-option-unsupported",
            f"{origin}: {option} is not supported in a requirements file",
            hint="name the main index with --index-url on the command line and others in [tool.cudalock.sources]",
            details=_details(origin, option),
        )


def _options(line: str, origin: str) -> Iterator[tuple[str, str | None]]:
    """The options of a line with their values: ``-r x``, ``-rx``, ``--requirement x``, ``--requirement=x``."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise _invalid_line(line, origin, str(error).lower()) from error
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            yield option, value if equals else _value(words)
        elif word[:2] in _SHORT:
            yield _SHORT[word[:2]], word[2:].removeprefix("=") or _value(words)
        else:
            raise _invalid_line(line, origin, f"{word!r} is not an option of requirements files")


def _value(words: list[str]) -> str | None:
    return words.pop(0) if words and not words[0].startswith("-") else None


def _invalid_line(line: str, origin: str, reason: str) -> UsageError:
    return UsageError(
        "requirement-invalid",
        f"{origin}: {line!r} cannot be read: {reason}",
        hint="each line is a requirement such as `torch>=2.8`, `-r FILE` or `-c FILE`",
        details=_details(origin),
    )


def _details(origin: str, option: str | None = None) -> dict[str, str | int]:
    file, _, line = origin.rpartition(":")
    return {"origin": origin, "file": file, "line": int(line), **({"option": option} if option else {})}


def _prefix(included_by: str | None) -> str:
    return f"{included_by}: " if included_by else ""


def _expanded(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except (RuntimeError, ValueError):  # ~somebody without such a user: it is then a name like any other
        return Path(name)


def _without_credentials(url: str) -> str:
    return re.sub(r"(://)[^/@]*@", r"\1", url)
