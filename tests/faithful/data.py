"""Reads ``index.json.xz``: the rows of every page, the metadata behind them and the bodies of the wheels."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import lzma
import random
import zipfile
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

__all__ = ["FaithfulData", "MAIN_FILES", "MetadataRow", "PYTORCH", "PYTORCH_R2", "Row"]

MAIN_FILES = "https://files.main.example/packages"
PYTORCH = "https://download.pytorch.org"
PYTORCH_R2 = "https://download-r2.pytorch.org"


@dataclass(frozen=True, slots=True)
class MetadataRow:
    """The parts of METADATA that many files share; the version is the file's."""

    name: str
    requires_python: str | None
    requires: tuple[str, ...]
    extras: tuple[str, ...]
    dynamic: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One file of one page.

    Attributes:
        label: the prefix it lies under: ``cu126``, "" for the root of the PyTorch index, None for the main index.
        sha256: as announced; None where the index announces none.
        recorded: whether the hash is a real one.
        sidecar: ``yes``, ``no`` or ``wrong`` (announced, but its text has another hash).
        text: what ``torch/lib/libtorch_python.so`` says of architectures, None for CPU builds and other projects.
        assumed: source of the assumption that the file exists, None if it was recorded.
    """

    label: str | None
    project: str
    filename: str
    sha256: str | None
    recorded: bool
    metadata: int
    time: int
    sidecar: str = "yes"
    r2: bool = False
    text: str | None = None
    assumed: str | None = None

    @property
    def version(self) -> str:
        stem = self.filename.removesuffix(".whl").removesuffix(".tar.gz")
        return stem.split("-")[1]

    @property
    def path(self) -> str:
        """The file's path on its host, escaped."""
        name = quote(self.filename, safe="!-_.~")
        return f"/packages/{name}" if self.label is None else f"/whl/{self.label + '/' if self.label else ''}{name}"

    @property
    def url(self) -> str:
        if self.label is None:
            return f"{MAIN_FILES}/{quote(self.filename, safe='!-_.~')}"
        return (PYTORCH_R2 if self.r2 else PYTORCH) + self.path


class FaithfulData:
    """All pages of both indexes; load it once with :meth:`load`."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.metadata = [MetadataRow(n, p, tuple(r), tuple(e), tuple(d)) for n, p, r, e, d in document["metadata"]]
        self.labels: tuple[str, ...] = tuple(document["labels"])
        self.triton: dict[str, list[Any]] = document["triton"]
        texts, assumed = document["texts"], document["assumed"]
        self.main: dict[str, tuple[Row, ...]] = {
            project: tuple(
                Row(None, project, name, sha or made_up(f"main/{name}"), bool(sha), metadata, time,
                    "no" if name.endswith(".tar.gz") else "yes", text=None if text < 0 else texts[text])
                for name, sha, metadata, time, text in rows
            )
            for project, rows in document["main"].items()
        }  # fmt: skip
        self.pytorch: dict[str, dict[str, tuple[Row, ...]]] = {
            label: {
                project: tuple(
                    Row(label, project, name, made_up(f"{label}/{name}") if sha == 1 else sha or None, isinstance(sha, str), metadata, time,
                        ("no", "yes", "wrong")[sidecar], bool(r2), None if text < 0 else texts[text], None if mark < 0 else assumed[mark])
                    for name, sha, metadata, time, sidecar, r2, text, mark in rows
                )
                for project, rows in pages.items()
            }
            for label, pages in document["pytorch"].items()
        }  # fmt: skip
        self.links: dict[str, dict[str, int]] = document["links"]

    @staticmethod
    @cache
    def load() -> FaithfulData:
        raw = lzma.decompress(Path(__file__).with_name("index.json.xz").read_bytes())
        return FaithfulData(json.loads(raw))

    def pytorch_rows(self, label: str | None, project: str) -> tuple[Row, ...]:
        """A page of the PyTorch index: the label's files and every root file; without label, the files of all labels."""
        root = self.pytorch.get("", {}).get(project, ())
        if label is None:
            return root + tuple(row for name in self.labels for row in self.pytorch.get(name, {}).get(project, ()))
        if label not in self.labels:
            return ()
        return self.pytorch.get(label, {}).get(project, ()) + root

    def linked_rows(self, label: str, project: str) -> tuple[Row, ...]:
        """The mirrored page of a foreign project, if there is one; frozen to a few files for labels no longer made."""
        count = self.links.get(label, {}).get(project, 0)
        return self.main.get(project, ())[:count]

    def metadata_text(self, row: Row) -> bytes:
        """METADATA as it stands in the wheel."""
        entry = self.metadata[row.metadata]
        lines = [
            "Metadata-Version: 2.4" if entry.dynamic else "Metadata-Version: 2.1",
            f"Name: {entry.name}",
            f"Version: {row.version}",
        ]
        lines += [f"Dynamic: {field}" for field in entry.dynamic]
        lines += [f"Requires-Python: {entry.requires_python}"] if entry.requires_python else []
        lines += [f"Provides-Extra: {extra}" for extra in entry.extras]
        lines += [f"Requires-Dist: {requirement}" for requirement in entry.requires]
        return ("\n".join(lines) + "\n").encode()

    def sidecar_text(self, row: Row) -> bytes:
        """What lies beside the wheel: its METADATA, or the same with a line too much (pytorch#197552)."""
        text = self.metadata_text(row)
        return text + b"Checksum-SHA256: oops\n" if row.sidecar == "wrong" else text

    def body(self, row: Row) -> bytes:
        """A small wheel with the true metadata and, in torch and triton, what is read from the real ones."""
        return _body(self, row)

    def members(self, row: Row) -> dict[str, bytes]:
        """The files of the wheel, RECORD left out."""
        stem = f"{row.filename.split('-')[0]}-{row.version}.dist-info"
        tags = row.filename.removesuffix(".whl").rsplit("-", 3)[1:]
        expanded = [
            f"Tag: {p}-{a}-{f}" for p in tags[0].split(".") for a in tags[1].split(".") for f in tags[2].split(".")
        ]
        wheel = ["Wheel-Version: 1.0", "Generator: faithful", "Root-Is-Purelib: true", *expanded]
        members = {f"{stem}/METADATA": self.metadata_text(row), f"{stem}/WHEEL": ("\n".join(wheel) + "\n").encode()}
        if row.project == "torch":
            filler = random.Random(row.filename).randbytes(3000)
            text = b"" if row.text is None else b"\0" + row.text.encode() + b"\0"
            members["torch/__init__.py"] = b""
            members["torch/lib/libtorch_python.so"] = b"\x7fELF" + filler + text + filler[::-1]
        elif row.project == "triton" and row.version in self.triton:
            ptxas, blackwell, first = self.triton[row.version]
            members["triton/__init__.py"] = f"__version__ = '{row.version}'\n".encode()
            folder = "triton/third_party/cuda" if row.version.startswith("2.") else "triton/backends/nvidia"
            members[f"{folder}/bin/ptxas"] = _tool(ptxas)
            if blackwell:
                members[f"{folder}/bin/ptxas-blackwell"] = _tool(blackwell)
                members[f"{folder}/compiler.py"] = (
                    f"def get_ptxas(arch):\n    return blackwell if arch >= {first} else plain\n".encode()
                )
        return members


def made_up(key: str) -> str:
    """A hash for a file whose real one is not known."""
    return hashlib.sha256(b"faithful:" + key.encode()).hexdigest()


def _tool(version: str) -> bytes:
    release = ".".join(version.split(".")[:2])
    return b"\x7fELF\0Cuda compilation tools, release " + f"{release}, V{version}".encode() + b"\0"


@lru_cache(maxsize=4096)
def _body(data: FaithfulData, row: Row) -> bytes:
    if not row.filename.endswith(".whl"):
        return b"a source distribution that nobody should open"
    members = data.members(row)
    record = f"{row.filename.split('-')[0]}-{row.version}.dist-info/RECORD"
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in members.items()] + [f"{record},,"]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**members, record: "\n".join(lines).encode() + b"\n"}.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
