"""``[tool.cudalock]``: between the table of the document and its values. Errors name the path of the faulty key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from cudalock.builds.model import Evidence
from cudalock.compat.model import Mode
from cudalock.lock.canonical import digest_of
from cudalock.lock.model import Contract, GpuContract, Lock, LockedTarget, LockedTriple
from cudalock.versions import Architecture, ComputeCapability, CudaVersion, DriverVersion

if TYPE_CHECKING:
    from packaging.pylock import Pylock

__all__ = ["DocumentError", "INPUT_LISTS", "parse_lock", "SCHEMA", "TooNewError", "tool_table"]

SCHEMA = 1
INPUT_LISTS = ("requirements", "constraints", "extras", "groups", "allow-build", "prerelease")
_INPUT_TEXTS = ("exclude-newer", "cuda", "compat")
_INPUT_FLAGS = ("without-triton", "project")

T = TypeVar("T")


class DocumentError(ValueError):
    """A key of the document has a value that it cannot have."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class TooNewError(DocumentError):
    """The document has a schema that only a newer cudalock knows."""


# --- values -> table


def tool_table(
    *,
    inputs: Mapping[str, Any],
    indexes: tuple[str, ...],
    triple: LockedTriple | None,
    target: LockedTarget,
    contract: Contract | None,
) -> dict[str, Any]:
    """The table ``[tool.cudalock]`` without its digest, keys in the order in which they are read best."""
    table: dict[str, Any] = {"schema": SCHEMA}
    table |= {key: list(inputs[key]) for key in INPUT_LISTS if inputs.get(key) or key == "requirements"}
    table |= {key: inputs[key] for key in (*_INPUT_TEXTS, *_INPUT_FLAGS) if inputs.get(key)}
    table["indexes"] = list(indexes)
    if triple is not None:
        table["triple"] = _without_none(
            {"torch": triple.torch, "triton": triple.triton, "cuda": str(triple.cuda) if triple.cuda else None}
        )
    table["target"] = _without_none(
        {
            "platform": target.platform,
            "libc": target.libc,
            "python": target.python,
            "driver": str(target.driver) if target.driver else None,
            "gpus": [str(gpu) for gpu in target.gpus],
            "cpu": True if target.cpu else None,
        }
    )
    if contract is not None:
        table["contract"] = _contract_table(contract)
    return table


def _contract_table(contract: Contract) -> dict[str, Any]:
    table = _without_none(
        {
            "driver-min": _text(contract.driver_min),
            "driver-native": _text(contract.driver_native),
            "compat": contract.compat.value,
            "compat-package": contract.compat_package,
            "architectures": [_architecture_text(architecture) for architecture in contract.architectures],
            "ptx": [str(capability) for capability in contract.ptx],
            "evidence": contract.evidence,
        }
    )
    gpus = {
        str(gpu): _without_none({"driver-min": _text(part.driver_min), "triton": part.triton})
        for gpu, part in sorted(contract.gpus.items())
    }
    if gpus:
        table["gpu"] = gpus
    return table


def _architecture_text(architecture: Architecture) -> str:
    return f"{architecture.capability}{architecture.suffix}"


def _text(value: object | None) -> str | None:
    return None if value is None else str(value)


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


# --- table -> values


def parse_lock(document: Mapping[str, Any], read: Callable[[], Pylock]) -> Lock:
    """Reads cudalock's part of a document.

    What cudalock wrote was valid when it was written, and a matching digest says that it still is that: such a
    document is read in full only when its packages are asked for. Any other is read at once.

    Args:
        document: as parsed from TOML.
        read: reads and validates it as PEP 751 has it.

    Raises:
        TooNewError: if its schema is newer than ours.
        DocumentError: if a value has the wrong type or form.
    """
    written = _written_digest(document)
    actual = digest_of(document) if written is not None else None
    intact = written is not None and written == actual
    pylock: Any = None if intact else read()
    unread = read if intact else None
    wheels = tuple(_wheel_names(document))
    tool = document.get("tool", {})
    if "cudalock" not in tool:
        return Lock(pylock=pylock, unread=unread, ours=False, wheels=wheels)
    table = _Table(tool["cudalock"], "tool.cudalock")
    schema = table.required("schema", int)
    if schema > SCHEMA:
        raise TooNewError("tool.cudalock.schema", f"schema {schema} is newer than {SCHEMA}")
    if schema < 1:
        raise DocumentError("tool.cudalock.schema", f"there is no schema {schema}")
    digest = table.optional("digest", str)
    return Lock(
        pylock=pylock,
        unread=unread,
        ours=True,
        wheels=wheels,
        inputs=_inputs(table),
        indexes=table.texts("indexes"),
        triple=_triple(table.sub("triple")),
        target=_target(table.sub("target")),
        contract=_contract(table.sub("contract")),
        digest=digest,
        digest_ok=intact,
    )


def _written_digest(document: Mapping[str, Any]) -> str | None:
    tool = document.get("tool")
    table = tool.get("cudalock") if isinstance(tool, Mapping) else None
    digest = table.get("digest") if isinstance(table, Mapping) else None
    return digest if isinstance(digest, str) else None


def _wheel_names(document: Mapping[str, Any]) -> Iterator[str]:
    """The file names of all wheels: stated, else the last part of their URL or path."""
    packages = document.get("packages")
    for package in packages if isinstance(packages, list) else ():
        wheels = package.get("wheels") if isinstance(package, Mapping) else None
        for wheel in wheels if isinstance(wheels, list) else ():
            if isinstance(wheel, Mapping):
                name = wheel.get("name") or wheel.get("path") or wheel.get("url")
                if isinstance(name, str):
                    yield re.split(r"[/\\]", name.partition("#")[0].partition("?")[0])[-1]


def _inputs(table: _Table) -> dict[str, Any]:
    inputs: dict[str, Any] = {key: table.texts(key) for key in INPUT_LISTS if key in table}
    inputs |= {key: table.required(key, str) for key in _INPUT_TEXTS if key in table}
    inputs |= {key: table.required(key, bool) for key in _INPUT_FLAGS if key in table}
    return inputs


def _triple(table: _Table | None) -> LockedTriple | None:
    if table is None:
        return None
    table.required("torch", str)
    return LockedTriple(
        torch=table.parsed("torch", _version) or "",
        triton=table.parsed("triton", _version),
        cuda=table.parsed("cuda", CudaVersion.parse),
    )


def _version(text: str) -> str:
    from packaging.version import Version

    try:
        Version(text)
    except ValueError:
        raise ValueError(f"not a version: {text[:80]!r} (expected e.g. 2.9.1+cu128)") from None
    return text


def _target(table: _Table | None) -> LockedTarget | None:
    if table is None:
        return None
    return LockedTarget(
        platform=table.required("platform", str),
        python=table.required("python", str),
        libc=table.parsed("libc", _libc),
        driver=table.parsed("driver", DriverVersion.parse),
        gpus=table.all_parsed("gpus", ComputeCapability.parse),
        cpu=table.optional("cpu", bool) or False,
    )


def _libc(text: str) -> str:
    if not re.fullmatch(r"[a-z]+-\d{1,4}\.\d{1,4}", text):
        raise ValueError(f"not a libc: {text!r} (expected e.g. glibc-2.28)")
    return text


def _contract(table: _Table | None) -> Contract | None:
    if table is None:
        return None
    gpus: dict[ComputeCapability, GpuContract] = {}
    if parts := table.sub("gpu"):
        for name in parts.names():
            part = parts.sub(name)
            if part is not None:
                gpus[parts.key_as(name, ComputeCapability.parse)] = GpuContract(
                    driver_min=part.parsed("driver-min", DriverVersion.parse), triton=part.optional("triton", str)
                )
    return Contract(
        driver_min=table.parsed("driver-min", DriverVersion.parse),
        driver_native=table.parsed("driver-native", DriverVersion.parse),
        compat=table.parsed("compat", Mode) or Mode.NATIVE,
        compat_package=table.optional("compat-package", str),
        architectures=table.all_parsed("architectures", Architecture.parse),
        ptx=table.all_parsed("ptx", ComputeCapability.parse),
        evidence=table.parsed("evidence", _evidence) or "inferred",
        gpus=gpus,
    )


def _evidence(text: str) -> Evidence:
    for known in get_args(Evidence):
        if text == known:
            evidence: Evidence = known
            return evidence
    raise ValueError(f"not one of {', '.join(get_args(Evidence))}: {text!r}")


class _Table:
    """A table of the document that knows its own path."""

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, Mapping):
            raise DocumentError(path, "expected a table")
        self._value = value
        self._path = path

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def names(self) -> list[str]:
        return sorted(self._value)

    def path_of(self, key: str) -> str:
        return f"{self._path}.{key}" if re.fullmatch(r"[A-Za-z0-9_-]+", key) else f'{self._path}."{key}"'

    def sub(self, key: str) -> _Table | None:
        return _Table(self._value[key], self.path_of(key)) if key in self._value else None

    def optional(self, key: str, kind: type[T]) -> T | None:
        return self.required(key, kind) if key in self._value else None

    def required(self, key: str, kind: type[T]) -> T:
        if key not in self._value:
            raise DocumentError(self.path_of(key), "is missing")
        return _typed(self._value[key], kind, self.path_of(key))

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._value.get(key, [])
        if not isinstance(value, list):
            raise DocumentError(self.path_of(key), "expected a list of strings")
        return tuple(_typed(item, str, f"{self.path_of(key)}[{index}]") for index, item in enumerate(value))

    def parsed(self, key: str, parse: Callable[[str], T]) -> T | None:
        text = self.optional(key, str)
        return None if text is None else _parsed(text, parse, self.path_of(key))

    def all_parsed(self, key: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        path = self.path_of(key)
        return tuple(_parsed(text, parse, f"{path}[{index}]") for index, text in enumerate(self.texts(key)))

    def key_as(self, key: str, parse: Callable[[str], T]) -> T:
        return _parsed(key, parse, self.path_of(key))


_KINDS = {str: "a string", int: "an integer", bool: "true or false"}


def _typed(value: Any, kind: type[T], path: str) -> T:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise DocumentError(path, f"expected {_KINDS.get(kind, kind.__name__)}")
    return value


def _parsed(text: str, parse: Callable[[str], T], path: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise DocumentError(path, str(error)) from error
