"""Builds ``index.json.xz``, the faithful copy of both indexes for tests: ``python tests/faithful/build.py FACTS``.

FACTS is the facts folder of the project. Besides it only what is committed here is read: ``closure.json`` (metadata of
the CUDA packages, from the real main index) and ``plain.py``. The result is deterministic. What is recorded and what
is not:

* files of the PyTorch index that public locks recorded, with their true hashes (or none, where the index gave none),
  upload times and hosts; every other file that the release matrix lists is made up for all Pythons of its release and
  marked as assumed, with the source;
* the main index's torch, triton and companions for all recorded tags, with true requirements and, where they were
  read, true hashes; CUDA packages as read by ``closure.py`` for x86_64, their aarch64 files made up beside them;
* vllm keeps of its long closure only what this copy can satisfy.

Left out: macOS, ROCm and XPU but for a few files, cu116, nightlies.
"""

from __future__ import annotations

import json
import lzma
import sys
import tomllib
from pathlib import Path
from typing import Any

from faithful.collect import ASSUMED, HERE, LABEL_PAGES, LINKED
from faithful.main_index import MainIndex
from faithful.pytorch_index import PytorchIndex


class Builder(MainIndex, PytorchIndex):
    """Both indexes as one document."""

    def links(self) -> dict[str, dict[str, int]]:
        """label -> project -> how many of the main index's files its mirrored page lists."""
        projects = [*LINKED, *(p for p in self.main if p.startswith("nvidia-"))]
        live = ("cu126", "cu128", "cu129", "cu130", "cu132", "cu134")
        pages = {
            label: dict.fromkeys(projects, 10_000 if label in live else 2)
            for label in ("cpu", "cu118", "cu121", "cu124", *live)
        }
        del pages["cu134"]["cuda-pathfinder"]  # was missing there (test-infra 80e5be824)
        return pages

    def assemblers(self) -> dict[str, list[Any]]:
        """triton release -> version of ptxas, of ptxas-blackwell, first architecture of the latter."""
        rows = tomllib.loads((self.facts / "triton.toml").read_text())["triton"]
        return {
            v: [row["ptxas"], row.get("ptxas_blackwell"), row.get("blackwell_from")]
            for row in rows
            for v in row["versions"]
        }

    def document(self) -> dict[str, Any]:
        self.main_torch()
        self.main_companions()
        self.main_closure()
        self.main_plain()
        self.recorded()
        self.made_torch()
        self.made_xformers()
        self.made_triton()
        return {
            "schema": 1,
            "metadata": [json.loads(text) for text in self.metadata],
            "texts": list(self.texts),
            "assumed": list(ASSUMED.values()),
            "triton": self.assemblers(),
            "main": {name: sorted(files) for name, files in sorted(self.main.items())},
            "pytorch": {
                label: {n: sorted(f, key=str) for n, f in sorted(pages.items())}
                for label, pages in sorted(self.pytorch.items())
            },
            "labels": list(LABEL_PAGES),
            "links": self.links(),
        }


def main() -> None:
    document = Builder(Path(sys.argv[1])).document()
    raw = json.dumps(document, separators=(",", ":")).encode()
    target = HERE / "index.json.xz"
    target.write_bytes(lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME))
    files = (
        sum(len(f) for f in document["main"].values()),
        sum(len(f) for p in document["pytorch"].values() for f in p.values()),
    )
    print(
        f"{files[0]} files on main, {files[1]} on pytorch, {len(document['metadata'])} metadata, {target.stat().st_size} bytes"
    )


if __name__ == "__main__":
    main()
