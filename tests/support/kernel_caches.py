"""Caches of Triton as each release since 2.1 writes them, made by hand after real ones."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

__all__ = ["add_kernel", "add_library", "age", "key_of", "LAYOUTS", "snapshot"]

LAYOUTS = {"2.1.0": "md5", "3.0.0": "sha256", "3.2.0": "base64", "3.3.1": "base32", "3.6.0": "base32"}
ELF = b"\x7fELF\x02\x01\x01" + bytes(57)


def key_of(version: str, seed: str) -> str:
    """The name of the folder for a key, as that release encodes it."""
    layout = LAYOUTS[version]
    if layout == "md5":
        return hashlib.md5(seed.encode(), usedforsecurity=False).hexdigest()
    digest = hashlib.sha256(seed.encode()).digest()
    if layout == "sha256":
        return digest.hex()
    if layout == "base64":
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return base64.b32encode(digest).decode().rstrip("=")


def add_kernel(cache: Path, version: str, arch: int, name: str = "add_k", *, seed: str = "", old: bool = True) -> Path:
    """One kernel; more than an hour old unless ``old`` is False."""
    folder = cache / key_of(version, f"{version} {arch} {name} {seed}")
    folder.mkdir(parents=True)
    metadata: dict[str, Any] = {
        "hash": hashlib.sha256(folder.name.encode()).hexdigest(), "num_warps": 4, "num_stages": 3, "shared": 0,
        "name": name, "target": {"backend": "cuda", "arch": arch, "warp_size": 32},
    }  # fmt: skip
    if version == "2.1.0":
        metadata["target"] = ["cuda", arch]
    if tuple(map(int, version.split(".")[:2])) >= (3, 3):
        metadata |= {"triton_version": version, "arch": f"sm{arch}"}
    files = {f"{name}.{ext}": b"text" for ext in ("ttir", "ttgir", "llir", "ptx")}
    files |= {f"{name}.cubin": ELF, f"{name}.json": json.dumps(metadata).encode()}
    if version == "3.6.0":
        files[f"{name}.source"] = b"text"
    group = {"child_paths": {file: str(folder / file) for file in files}}
    files[f"__grp__{name}.json"] = json.dumps(group).encode()
    for file, content in files.items():
        (folder / file).write_bytes(content)
    if old:
        age(folder)
    return folder


def add_library(cache: Path, version: str, file: str, *, seed: str = "") -> Path:
    """A library that Triton built for its own use, e.g. ``cuda_utils.so``."""
    folder = cache / key_of(version, f"{version} {file} {seed}")
    folder.mkdir(parents=True)
    (folder / file).write_bytes(ELF)
    age(folder)
    return folder


def age(folder: Path, seconds: float = 4000) -> None:
    """Makes a folder and all in it that old."""
    then = time.time() - seconds
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (then, then), follow_symlinks=False)


def snapshot(folder: Path) -> set[str]:
    """Names of all files and links below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}
