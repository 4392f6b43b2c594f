"""A host as JSON: what ``detect --json`` prints and what ``--facts`` takes, hand-written parts included."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TextIO

from cudalock.errors import UsageError
from cudalock.files import read_file
from cudalock.host.gpus import with_products
from cudalock.host.model import Container, Gpu, Host, ProbeOutcome
from cudalock.host.surroundings import fold_machine
from cudalock.progress import SILENT, Reporter
from cudalock.versions import ComputeCapability, CudaVersion, DriverVersion

__all__ = ["SCHEMA", "host_to_json", "parse_facts", "read_facts"]

SCHEMA = 1
_MAXIMUM_COUNT = 1024


def host_to_json(host: Host) -> dict[str, Any]:
    """The host as the value of ``"host"``; what is unknown is left out, so that reading it back changes nothing."""
    document: dict[str, Any] = {}
    for key in _SCALARS:
        value = getattr(host, key)
        if value is not None:
            document[key] = value if isinstance(value, (str, bool)) else str(value)
    if host.libc:
        name, (major, minor) = host.libc
        document["libc"] = f"{name} {major}.{minor}"
    if host.gpus_known or host.gpus:
        document["gpus"] = [_gpu_to_json(gpu) for gpu in host.gpus]
    if host.pythons:
        document["pythons"] = [{"version": version, "path": path} for version, path in host.pythons]
    if host.container:
        document["container"] = _present({"kind": host.container.kind, "require_cuda": host.container.require_cuda})
    document["wsl"] = host.wsl
    document["jetson"] = host.jetson
    if host.probes:
        document["probes"] = [
            _present(
                {
                    "name": probe.name,
                    "answered": probe.answered,
                    "seconds": round(probe.seconds, 3),
                    "error": probe.error,
                    "error_code": probe.error_code,
                }
            )
            for probe in host.probes
        ]
    if host.origin:
        document["origin"] = dict(host.origin)
    return document


def _gpu_to_json(gpu: Gpu) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for field in fields(Gpu):
        value = getattr(gpu, field.name)
        if isinstance(value, ComputeCapability):
            value = str(value)
        elif isinstance(value, tuple):
            value = list(value) or None
        elif isinstance(value, Mapping):
            value = dict(value) or None
        document[field.name] = value
    return _present(document)


def _present(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if value is not None}


def read_facts(
    source: Path | str, *, reporter: Reporter = SILENT, stdin: TextIO | None = None
) -> tuple[Host, Mapping[str, Any]]:
    """Reads a facts file, ``-`` for standard input.

    Returns:
        the host, and the ``environment`` part as it stands (``packages``, ``variables``, ``libraries``, ``tools``,
        ``files``, ``errors``), types checked.

    Raises:
        UsageError: ``facts-not-found``, ``facts-not-json``, ``facts-newer-schema`` or ``facts-invalid``, which lists
            every fault with its path.
    """
    name = "standard input" if str(source) == "-" else str(source)
    try:
        text = (stdin or sys.stdin).read() if str(source) == "-" else read_file(Path(source)).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(
            "facts-not-found",
            f"cannot read the facts file {name}: {error.strerror or error}",
            hint="make one with `cudalock detect --json > facts.json` on the machine it is about",
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError("facts-not-json", f"{name} is not UTF-8 text", hint="save it as UTF-8") from error
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f", line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else ""
        raise UsageError(
            "facts-not-json", f"{name} is not JSON{where}", hint="`cudalock detect --json` prints the form it takes"
        ) from error
    return parse_facts(document, name=name, reporter=reporter)


def parse_facts(document: Any, *, name: str = "facts", reporter: Reporter = SILENT) -> tuple[Host, Mapping[str, Any]]:
    """The same from a parsed document; absent keys and null are unknown, keys that nobody knows are noted."""
    reader = _Reader()
    whole = reader.table(document, "", {"schema", "host", "environment"})
    schema = whole.get("schema", SCHEMA)
    if isinstance(schema, int) and not isinstance(schema, bool) and schema > SCHEMA:
        raise UsageError(
            "facts-newer-schema",
            f"{name} has schema {schema}; this cudalock reads up to {SCHEMA}",
            hint="update cudalock, or run `cudalock detect --json` with this version",
        )
    if schema != SCHEMA or isinstance(schema, bool):
        reader.fault("schema", f"expected {SCHEMA}")
    host = reader.host(whole.get("host"))
    environment = reader.environment(whole.get("environment"))
    if reader.faults:
        first = reader.faults[0]
        more = f" (and {len(reader.faults) - 1} more)" if len(reader.faults) > 1 else ""
        raise UsageError(
            "facts-invalid",
            f"{name}: {first['path'] or 'the document'}: {first['message']}{more}",
            hint="; ".join(f"{fault['path'] or 'the document'}: {fault['message']}" for fault in reader.faults[1:])
            or "`cudalock detect --json` prints the form it takes",
            details={"faults": reader.faults},
        )
    for path in reader.unknown:
        reporter.message("note", f"{name}: {path} is not known to this version and was ignored")
    return host, environment


def _python(text: str) -> str:
    if not re.fullmatch(r"3\.\d+(\.\d+)?([ab]\d+|rc\d+)?t?", text):
        raise ValueError(f"not a Python version: {text!r} (expected e.g. 3.12.4 or 3.14t)")
    return text


def _os(text: str) -> str:
    if text.lower() not in ("linux", "windows", "darwin"):
        raise ValueError(f"not an operating system: {text!r} (expected linux, windows or darwin)")
    return text.lower()


def _libc(text: str) -> tuple[str, tuple[int, int]]:
    if text.strip() == "musl":  # which version hardly matters: what there is for musl is made for 1.2
        return "musl", (1, 2)
    match = re.fullmatch(r"(glibc|musl)[ -](\d{1,9})\.(\d{1,9})(\.\d+)*", text.strip())
    if not match:
        raise ValueError(f"not a C library: {text!r} (expected e.g. glibc 2.35 or musl 1.2)")
    return match[1], (int(match[2]), int(match[3]))


def _module(text: str) -> str:
    if text not in ("open", "proprietary"):
        raise ValueError(f"not a kind of kernel module: {text!r} (expected open or proprietary)")
    return text


_SCALARS: Mapping[str, Callable[[str], Any]] = {
    "os": _os,
    "os_release": str,
    "machine": fold_machine,
    "driver": DriverVersion.parse,
    "driver_library": DriverVersion.parse,
    "cuda_driver": CudaVersion.parse,
    "kernel_module": _module,
    "visible_devices": str,
    "device_order": str,
    "compat_library": str,
    "cuda_library": str,
    "cuda_library_error": str,
    "python": _python,
    "l4t": str,
}
_GPU_SCALARS: Mapping[str, Callable[[str], Any]] = {
    "name": str,
    "uuid": str,
    "pci_bus_id": str,
    "pci_device_id": str,
    "compute_capability": ComputeCapability.parse,
    "error": str,
}
_GPU_NUMBERS = ("memory_bytes", "cuda_index")
_HOST_KEYS = {*_SCALARS, "libc", "gpus", "pythons", "container", "wsl", "jetson", "probes", "origin", "gpus_known"}
_GPU_KEYS = {*_GPU_SCALARS, *_GPU_NUMBERS, "index", "count", "mig_enabled", "mig_devices", "origin"}
_ENVIRONMENT_KEYS = {"packages", "variables", "libraries", "tools", "files", "errors"}


class _Reader:
    """Reads a document piece by piece and collects every fault instead of stopping at the first."""

    def __init__(self) -> None:
        self.faults: list[dict[str, str]] = []
        self.unknown: list[str] = []

    def fault(self, path: str, message: str) -> None:
        self.faults.append({"path": path, "message": message})

    def table(self, value: Any, path: str, known: set[str] | None = None) -> dict[str, Any]:
        """The keys that carry something; null counts as absent."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.fault(path, f"expected an object, got {_kind(value)}")
            return {}
        prefix = f"{path}." if path else ""
        if known is not None:
            self.unknown.extend(f"{prefix}{key}" for key in value if key not in known)
        return {key: item for key, item in value.items() if item is not None}

    def items(self, value: Any, path: str) -> list[tuple[str, Any]]:
        if value is None:
            return []
        if not isinstance(value, list):
            self.fault(path, f"expected a list, got {_kind(value)}")
            return []
        return [(f"{path}[{number}]", item) for number, item in enumerate(value)]

    def text(self, value: Any, path: str, parse: Callable[[str], Any] = str) -> Any:
        if value is None:
            return None
        if not isinstance(value, str):
            self.fault(path, f"expected text in quotes, got {_kind(value)}")
            return None
        try:
            return parse(value)
        except ValueError as error:
            self.fault(path, str(error))
            return None

    def number(self, value: Any, path: str, *, least: int = 0) -> int | None:
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.fault(path, f"expected a whole number of at least {least}")
            return None
        return value

    def truth(self, value: Any, path: str) -> bool | None:
        if value is not None and not isinstance(value, bool):
            self.fault(path, f"expected true or false, got {_kind(value)}")
            return None
        return value

    def texts(self, value: Any, path: str, *, null: bool = False) -> dict[str, Any]:
        """An object whose values are text (or null where that says something, e.g. a tool that is missing)."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.fault(path, f"expected an object, got {_kind(value)}")
            return {}
        for key, item in value.items():
            if not isinstance(item, str) and not (null and item is None):
                self.fault(f"{path}.{key}", f"expected text in quotes, got {_kind(item)}")
        return dict(value)

    def host(self, value: Any) -> Host:
        table = self.table(value, "host", _HOST_KEYS)
        scalars = {key: self.text(table.get(key), f"host.{key}", parse) for key, parse in _SCALARS.items()}
        gpus = tuple(gpu for path, item in self.items(table.get("gpus"), "host.gpus") for gpu in self.gpu(item, path))
        numbered = tuple(_renumbered(gpu, index) for index, gpu in enumerate(gpus))
        return Host(
            **scalars,
            libc=self.text(table.get("libc"), "host.libc", _libc),
            gpus=with_products(numbered),
            gpus_known=isinstance(table.get("gpus"), list),
            pythons=self.pythons(table.get("pythons")),
            container=self.container(table.get("container")),
            wsl=bool(self.truth(table.get("wsl"), "host.wsl")),
            jetson=bool(self.truth(table.get("jetson"), "host.jetson")),
            probes=self.probes(table.get("probes")),
            origin=self.texts(table.get("origin"), "host.origin")
            or {key: "facts" for key in (*_SCALARS, "libc") if key in table},
        )

    def gpu(self, value: Any, path: str) -> list[Gpu]:
        """One entry, as often as its ``count`` says."""
        table = self.table(value, path, _GPU_KEYS)
        attributes = {key: self.text(table.get(key), f"{path}.{key}", parse) for key, parse in _GPU_SCALARS.items()}
        for key in _GPU_NUMBERS:
            attributes[key] = self.number(table.get(key), f"{path}.{key}")
        count = self.number(table.get("count", 1), f"{path}.count", least=1) or 1
        if count > _MAXIMUM_COUNT:
            self.fault(f"{path}.count", f"expected at most {_MAXIMUM_COUNT}")
            count = 1
        if isinstance(value, dict) and not table.keys() & {"name", "compute_capability", "pci_device_id", "error"}:
            self.fault(path, "names no GPU: give name or compute_capability")
        instances = self.items(table.get("mig_devices"), f"{path}.mig_devices")
        gpu = Gpu(
            index=self.number(table.get("index", 0), f"{path}.index") or 0,
            **attributes,
            mig_enabled=self.truth(table.get("mig_enabled"), f"{path}.mig_enabled"),
            mig_devices=tuple(text for at, item in instances if (text := self.text(item, at)) is not None),
            origin=self.texts(table.get("origin"), f"{path}.origin")
            or {key: "facts" for key in table if key in _GPU_SCALARS},
        )
        return [gpu] * count

    def pythons(self, value: Any) -> tuple[tuple[str, str], ...]:
        found = []
        for path, item in self.items(value, "host.pythons"):
            table = self.table(item, path, {"version", "path"})
            version = self.text(table.get("version"), f"{path}.version", _python)
            found.append((version or "", self.text(table.get("path"), f"{path}.path") or ""))
        return tuple(found)

    def container(self, value: Any) -> Container | None:
        if value is None or value is False:
            return None
        table = self.table(value, "host.container", {"kind", "require_cuda"})
        return Container(
            kind=self.text(table.get("kind"), "host.container.kind"),
            require_cuda=self.text(table.get("require_cuda"), "host.container.require_cuda"),
        )

    def probes(self, value: Any) -> tuple[ProbeOutcome, ...]:
        found = []
        for path, item in self.items(value, "host.probes"):
            table = self.table(item, path)
            seconds, code = table.get("seconds", 0.0), table.get("error_code")
            found.append(
                ProbeOutcome(
                    name=self.text(table.get("name"), f"{path}.name") or "",
                    answered=bool(self.truth(table.get("answered"), f"{path}.answered")),
                    seconds=float(seconds) if isinstance(seconds, (int, float)) else 0.0,
                    error=self.text(table.get("error"), f"{path}.error"),
                    error_code=code if isinstance(code, int) else None,
                )
            )
        return tuple(found)

    def environment(self, value: Any) -> dict[str, Any]:
        table = self.table(value, "environment", _ENVIRONMENT_KEYS)
        for key in ("packages", "variables", "libraries"):
            self.texts(table.get(key), f"environment.{key}")
        self.texts(table.get("tools"), "environment.tools", null=True)
        if not isinstance(table.get("files", {}), dict):
            self.fault("environment.files", f"expected an object, got {_kind(table['files'])}")
        for path, item in self.items(table.get("errors"), "environment.errors"):
            self.text(item, path)
        return table


def _renumbered(gpu: Gpu, index: int) -> Gpu:
    from dataclasses import replace

    return gpu if gpu.index == index else replace(gpu, index=index)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)
