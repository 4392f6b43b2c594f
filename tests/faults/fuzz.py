"""The coverage-guided fuzzer (atheris) over the targets; run by hand, it is no part of the test run.

    pip install atheris                                  # in an environment with cudalock
    python tests/faults/fuzz.py lock -max_total_time=600 -rss_limit_mb=2048

The first argument is the kind of input, the others are libFuzzer's. Seeds and words come from ``inputs.py``.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    atheris = importlib.import_module("atheris")  # only whoever fuzzes has it

    with atheris.instrument_imports(include=["cudalock", "packaging", "zipfile", "tarfile", "tomllib", "elftools"]):
        from faults.inputs import SEEDS, WORDS
        from faults.targets import TARGETS
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: fuzz.py {'|'.join(TARGETS)} [option of libFuzzer]...")
    kind = sys.argv[1]
    folder = Path(tempfile.mkdtemp(prefix=f"cudalock-fuzz-{kind}-"))
    for number, seed in enumerate(SEEDS[kind]):
        (folder / f"seed{number}").write_bytes(seed)
    words = folder.with_suffix(".dict")
    escaped = ("".join(f"\\x{byte:02x}" for byte in word) for word in WORDS[kind] if 0 < len(word) <= 60)
    words.write_text("".join(f'"{word}"\n' for word in escaped))
    atheris.Setup(
        [sys.argv[0], f"-dict={words}", "-timeout=20", "-max_len=65536", *sys.argv[2:], str(folder)], TARGETS[kind]
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
