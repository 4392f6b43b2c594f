"""Seeds, words and strategies from which untrusted inputs are made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from cudalock.lock.file import dump_lock
from support.locks import a_lock, linux_target
from support.wheels import make_metadata, make_sdist, make_wheel

__all__ = ["SEEDS", "WORDS", "inputs"]

_HOSTILE = [
    "\x1b[31m", "\u202e", "\u2066", "\x00", "..", "/", "\\", "%00", "%2e%2e", "\ufeff", "9" * 30, "9" * 5000, "-1", "1e999",
    "\ud7ff", "ﬁ", "İ", "\r", "\n", "\t", '"', "'", "{", "}", "[", "]", "[" * 50, "{" * 50, "NaN", "null", "true", "1!2.3",
]  # fmt: skip
_FILE = "demo-1.0-py3-none-any.whl"


def _page() -> bytes:
    entry = {
        "filename": _FILE, "url": f"../../files/{_FILE}", "hashes": {"sha256": "ab" * 32}, "size": 1, "yanked": False,
        "requires-python": ">=3.9", "core-metadata": {"sha256": "cd" * 32}, "upload-time": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    page = {"meta": {"api-version": "1.1"}, "name": "demo", "files": [entry, dict(entry, filename="demo-1.1.tar.gz")]}
    return json.dumps(page).encode()


_HTML = (
    f'<!DOCTYPE html><html><head><base href="/x/"></head><body><a href="{_FILE}#sha256={"ab" * 32}" data-yanked="" '
    'data-requires-python="&gt;=3.9" data-core-metadata="true" data-upload-time="2026-01-01">x</a><!-- y --></body></html>'
).encode()
_FACTS = {
    "schema": 1,
    "host": {
        "os": "linux", "machine": "x86_64", "libc": "glibc 2.35", "driver": "570.124.06", "cuda_driver": "12.8",
        "gpus": [{"name": "NVIDIA GeForce RTX 5090", "compute_capability": "12.0", "count": 2}], "python": "3.11.9",
        "container": {"require_cuda": "cuda>=12.8"}, "wsl": False,
    },
    "environment": {
        "packages": {"torch": "2.7.0+cu126", "triton": "3.3.0"}, "variables": {"LD_LIBRARY_PATH": "/usr/lib"},
        "libraries": {"libcuda.so.1": "/usr/lib/libcuda.so.1"}, "tools": {"cc": None}, "files": {},
        "errors": ["no kernel image is available for execution on the device"],
    },
}  # fmt: skip
_LOG = b"""Traceback (most recent call last):
  File "x.py", line 3, in <module>
RuntimeError: CUDA error: no kernel image is available for execution on the device
2026-01-01T00:00:00Z stderr F {"log": "Internal Triton PTX codegen error\\nptxas fatal : Value 'sm_120' is not defined"}
\x1b[31merror\x1b[0m: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 804
"""
_ELF = (
    b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00\x01\x00\x00\x00" + bytes(8) + (64).to_bytes(8, "little")
    + (200).to_bytes(8, "little") + bytes(4) + b"\x40\x00\x38\x00\x01\x00\x40\x00\x03\x00\x02\x00" + bytes(300)
    + b"sm_75 sm_80 sm_90 compute_90\x00" + b"Cuda compilation tools, release 12.8, V12.8.93\x00"
    + b"\x50\xed\x55\xba\x01\x00\x10\x00" + bytes(64)
)  # fmt: skip
_CONFIG = b"""[project]
name = "x"
[tool.cudalock]
driver = "535.161.08"
gpu = ["RTX 4090"]
compat = "native"
index-url = "https://index.example/simple"
[tool.cudalock.targets.cluster]
gpu = ["H100"]
[tool.cudalock.sources.internal]
url = "https://packages.example/simple"
projects = ["our-kernels"]
[global]
index-url = https://index.example/simple
"""
_REQUIREMENTS = b"""# comment
torch>=2.8 ; python_version > "3.8"
transformers[torch]~=4.0
-c missing.txt
--extra-index-url https://download.pytorch.org/whl/cu128
name @ https://host.example/name-1.0-py3-none-any.whl
${HOME}
a \\
  b
"""

SEEDS: Mapping[str, Sequence[bytes]] = {
    "page_json": (_page(),),
    "page_html": (_HTML,),
    "metadata": (make_metadata("demo", "1.0", requires=["a>=1; python_version>'3'", "b[c] (>=1.*)"], requires_python=">=3"),),
    "wheel": (
        make_wheel("demo", "1.0", requires=["a"])[1],
        make_wheel("demo", "1.0", stored=True, files={"torch/lib/libtorch_python.so": _ELF})[1],
    ),
    "sdist": (make_sdist("demo", "1.0", requires=["a"])[1],),
    "binary": (_ELF,),
    "lock": (dump_lock(a_lock(linux_target("9.0"))).encode(), dump_lock(a_lock(linux_target("7.0", driver="535.161.08"))).encode()),
    "facts": (json.dumps(_FACTS).encode(),),
    "requirements": (_REQUIREMENTS,),
    "log": (_LOG,),
    "configuration": (_CONFIG,),
}  # fmt: skip

_OWN: Mapping[str, Sequence[str]] = {
    "page_json": ('"files"', '"meta"', '"api-version"', '"filename":', '"url":', '"hashes":', '"2.0"', ": [", "{}"),
    "page_html": ("<a href=", "</a>", "<base href=", "<!--", "-->", "<script>", "data-yanked=", "&#x202e;", "&amp", "<a", ">"),
    "metadata": (
        "Name: demo\n", "Version: 1.0\n", "Requires-Dist: ", "Provides-Extra: ", "Dynamic: ", "; extra == 'x'", "~=", "(>=1)",
        "Metadata-Version: 2.2\n", "Requires-Python: ", " @ https://x.example/y.whl", "===", "; os_name ~= 'x'", "\r\n",
    ),
    "lock": (
        "[tool.cudalock.contract]\n", "[[packages]]\n", 'url = "', 'path = "', "[packages.wheels.hashes]\n", "digest = ",
        "schema = 2\n", 'driver-min = "x"\n', "gpus = [1]\n", "marker = ", "[packages.vcs]\n", "= 1979-05-27T07:32:00Z\n",
    ),
    "facts": ('"host":', '"gpus":', '"compute_capability":', '"driver":', '"environment":', '"errors":', "[]", "{}", '"files":'),
    "requirements": ("-r ", "-r ~x\x00", "-c ", "--hash=", "-e ", "; ", " @ ", "~=", "===", "\\\n", "#", "${PATH}", "git+https://", "--pre\n"),
    "log": ("ptxas fatal", "CUDA error: ", "sm_120", "Error 804", "\r", '{"log": "', "rank0]: ", "no kernel image", "NCCL"),
    "configuration": ("[tool.cudalock]\n", "targets", "sources", 'gpu = "', "= []\n", "[global]\n", "index-url = ", "%(x)s"),
    "binary": ("sm_", "compute_", "sm_90a sm_100f\0", "release 12.8, V...", "V9.\0", "release 12.8, V12.8.93"),
    "wheel": ("PK\x05\x06", "PK\x01\x02", "PK\x03\x04", "demo-1.0.dist-info/METADATA"),
    "sdist": ("demo-1.0/PKG-INFO", "ustar", "demo-1.0/pyproject.toml"),
}  # fmt: skip
WORDS: Mapping[str, Sequence[bytes]] = {
    name: [word.encode("utf-8", "surrogatepass") for word in (*words, *_HOSTILE)] for name, words in _OWN.items()
}


def inputs(kind: str) -> st.SearchStrategy[bytes]:
    """Inputs of a kind: seeds with parts cut, doubled, moved and overwritten, and texts out of its words."""
    word = st.one_of(st.sampled_from(list(WORDS[kind])), st.binary(max_size=8), st.text(max_size=8).map(str.encode))
    edit = st.tuples(st.integers(0, 1 << 16), st.integers(0, 40), st.sampled_from("icdr"), word)
    changed = st.builds(_edited, st.sampled_from(list(SEEDS[kind])), st.lists(edit, max_size=6))
    return st.one_of(changed, st.lists(word, max_size=25).map(b"".join))


def _edited(data: bytes, edits: list[tuple[int, int, str, bytes]]) -> bytes:
    for position, length, how, word in edits:
        at = position % (len(data) + 1)
        part = data[at : at + length]
        if how == "i":
            data = data[:at] + word + data[at:]
        elif how == "c":
            data = data[:at] + data[at + length :]
        elif how == "d":
            data = data[:at] + part * 3 + data[at:]
        else:
            data = data[:at] + word + data[at + len(word) :]
    return data
