"""Reads the metadata of what torch pins (nvidia wheels, cuda-toolkit and so on) from the real main index.

Run by a maintainer, through the pip that is configured on the machine: ``python tests/faithful/closure.py FACTS``.
It rewrites ``closure.json`` beside it, which ``build.py`` reads: file name, sha256 and requirements of every release
that some build of torch pins, for x86_64. Releases that the index no longer serves are listed under ``missing``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent
PLATFORMS = ("manylinux1", "manylinux2010", "manylinux2014", *(f"manylinux_2_{minor}" for minor in range(5, 40)))

# Releases that no torch pins exactly but that its ranges lead to, and companions the facts folder has no rows for.
EXTRA = (
    *(f"cuda-bindings=={v}" for v in ("12.9.4", "12.9.6", "12.9.7", "13.0.3", "13.2.0", "13.3.1", "13.5.0")),
    *(f"cuda-pathfinder=={v}" for v in ("1.3.3", "1.4.2", "1.9.1")),
    *(f"cuda-toolkit=={v}" for v in ("12.6.3", "12.8.1", "12.9.1", "13.0.2", "13.0.3", "13.2.1", "13.2.2", "13.4.3")),
    *(f"vllm=={v}" for v in ("0.9.2", "0.10.0", "0.11.2", "0.19.1")),
    *(f"torchcodec=={v}" for v in ("0.7.0", "0.10.0", "0.11.1", "0.14.0", "0.17.0")),
    *(f"nvidia-cutlass-dsl=={v}" for v in ("4.4.2", "4.5.2", "4.6.0", "4.6.2", "4.7.1", "4.8.0")),
    "nvidia-ml-py==13.580.82",
    "einops==0.8.1",
)
_EXTRAS = [
    "cublas",
    "cudart",
    "cufft",
    "cufile",
    "cupti",
    "curand",
    "cusolver",
    "cusparse",
    "nvjitlink",
    "nvrtc",
    "nvtx",
]
_LINUX = {"platform_system": "Linux", "sys_platform": "linux", "platform_machine": "x86_64", "python_version": "3.12"}


def pinned(facts: Path) -> Iterator[str]:
    """``name==version`` of every CUDA-related package that a build of torch pins, in the facts."""
    requires = json.loads((facts / "pypi_requires.json").read_text())["torch"]["torch"]
    for release in requires.values():
        for text in release["by_platform"][release["reference"]]["requires_dist"]:
            requirement = Requirement(text)
            exact = re.findall(r"==([\d.]+)", str(requirement.specifier))
            if requirement.name.startswith(("nvidia", "cuda-toolkit")) and exact:
                yield f"{requirement.name}=={exact[0]}"
    for labels in json.loads((facts / "torch_variants.json").read_text()).values():
        for variant in labels.values():
            votes = {name: ranks[0][0] for name, ranks in variant.get("lock_pins", {}).items()}
            for name, version in {**variant.get("monobase", {}).get("direct_pins", {}), **votes}.items():
                if name.startswith("nvidia"):
                    yield f"{name}=={version}"


def rounds(requirements: Iterable[str]) -> Iterator[list[str]]:
    """Splits them so that no round names a project twice."""
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for requirement in sorted(set(requirements)):
        by_name[Requirement(requirement).name].append(requirement)
    for index in range(max(map(len, by_name.values()), default=0)):
        yield [versions[index] for versions in by_name.values() if index < len(versions)]


def report(requirements: list[str]) -> list[dict[str, Any]]:
    """pip's installation report for these requirements alone; one by one where the whole round fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
        command += ["--use-feature=fast-deps"]  # the metadata by ranged reads, not wheels of 700 MB
        command += ["--report", str(path), "--python-version", "3.12", "--implementation", "cp"]
        command += ["--only-binary", ":all:", "--target", folder]
        for platform in PLATFORMS:
            command += ["--platform", f"{platform}_x86_64"]
        environment = {**os.environ, "PIP_CONSTRAINT": os.devnull}
        done = subprocess.run([*command, *requirements], capture_output=True, text=True, check=False, env=environment)
        if done.returncode == 0:
            entries: list[dict[str, Any]] = json.loads(path.read_text())["install"]
            return entries
    if len(requirements) == 1:
        return []
    middle = len(requirements) // 2
    return report(requirements[:middle]) + report(requirements[middle:])


def main() -> None:
    wanted = set(pinned(Path(sys.argv[1]))) | set(EXTRA)
    target = HERE / "closure.json"
    packages: dict[str, dict[str, Any]] = json.loads(target.read_text())["packages"] if target.exists() else {}
    asked: set[str] = set()
    while todo := {r for r in (wanted | led_to(packages)) - asked if r not in packages}:
        asked |= todo
        for number, requirements in enumerate(rounds(todo), 1):
            print(f"round {number}: {len(requirements)} releases", file=sys.stderr)
            for entry in report(requirements):
                metadata = entry["metadata"]
                name = canonicalize_name(metadata["name"])
                source = next(r for r in requirements if Requirement(r).name == name)
                packages[source] = {
                    "version": metadata["version"],
                    "filename": entry["download_info"]["url"].rsplit("/", 1)[1],
                    "sha256": entry["download_info"]["archive_info"]["hashes"]["sha256"],
                    "requires_python": metadata.get("requires_python"),
                    "requires_dist": metadata.get("requires_dist", []),
                    "provides_extra": metadata.get("provides_extra", []),
                }
    missing = sorted(asked - set(packages))
    document = {"missing": missing, "packages": dict(sorted(packages.items()))}
    target.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    print(f"{len(packages)} releases, {len(missing)} missing", file=sys.stderr)


def led_to(packages: dict[str, Any]) -> set[str]:
    known = {Requirement(key).name for key in packages}
    return {follow for key, package in packages.items() for follow in follows(key, package, known)}


def follows(key: str, package: dict[str, Any], known: set[str]) -> Iterator[str]:
    """What a release leads to on linux x86_64 with the extras that torch asks for, CUDA-related only: the next round."""
    if key.startswith(("vllm", "torchcodec")):
        return
    for text in package["requires_dist"]:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if not name.startswith("nvidia"):
            continue
        extras = _EXTRAS if key.startswith("cuda-toolkit") else ["", "cu13"]
        if requirement.marker and not any(requirement.marker.evaluate({**_LINUX, "extra": extra}) for extra in extras):
            continue
        if requirement.specifier or name not in known:
            yield f"{name}{requirement.specifier}"


if __name__ == "__main__":
    main()
