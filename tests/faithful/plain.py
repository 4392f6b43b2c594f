"""Plain dependencies of torch and its companions on the faithful main index: a few releases of each.

Names, requirements and the span of Pythons follow the real releases; hashes are made up. What has no compiled code is
one ``py3-none-any`` wheel. For compiled ones the CPython tags are listed; their newest release also has wheels for
Pythons that came after it, so that a refusal in a test is torch's and not markupsafe's.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PLAIN", "Plain"]

_ALL = "cp310 cp311 cp312 cp313 cp313t cp314 cp314t cp315 cp315t"


@dataclass(frozen=True, slots=True)
class Plain:
    """One release: ``tags`` is empty for a pure wheel, else CPython ABI tags; ``year`` is when it was uploaded."""

    name: str
    version: str
    requires_python: str | None
    requires: tuple[str, ...] = ()
    tags: str = ""
    year: int = 2024


def _pure(name: str, requires_python: str | None, *versions: str, requires: tuple[str, ...] = ()) -> list[Plain]:
    years = range(2026 - len(versions) + 1, 2027)
    return [Plain(name, v, requires_python, requires, "", year) for v, year in zip(versions, years, strict=True)]


PLAIN: tuple[Plain, ...] = (
    *_pure("filelock", ">=3.8", "3.13.1", "3.16.1"),
    Plain("filelock", "3.20.3", ">=3.10", year=2026),
    Plain("typing-extensions", "4.12.2", ">=3.8"),
    Plain("typing-extensions", "4.15.0", ">=3.9", year=2025),
    Plain("sympy", "1.13.1", ">=3.8", ("mpmath<1.4,>=1.1.0",)),
    Plain("sympy", "1.13.3", ">=3.8", ("mpmath<1.4,>=1.1.0",)),
    Plain("sympy", "1.14.0", ">=3.9", ("mpmath<1.4,>=1.1.0",), year=2025),
    Plain("mpmath", "1.3.0", None, year=2023),
    Plain("networkx", "3.1", ">=3.8", year=2023),
    Plain("networkx", "3.2.1", ">=3.9", year=2023),
    Plain("networkx", "3.4.2", ">=3.10"),
    Plain("networkx", "3.5", ">=3.11", year=2025),
    Plain("networkx", "3.6.1", ">=3.11,!=3.14.1", year=2025),
    Plain("jinja2", "3.1.4", ">=3.7", ("MarkupSafe>=2.0",)),
    Plain("jinja2", "3.1.6", ">=3.7", ("MarkupSafe>=2.0",), year=2025),
    Plain("markupsafe", "2.1.5", ">=3.7", (), "cp38 cp39 cp310 cp311 cp312"),
    Plain("markupsafe", "3.0.3", ">=3.9", (), f"cp39 {_ALL}", 2025),
    Plain("fsspec", "2024.6.1", ">=3.8"),
    Plain("fsspec", "2025.10.0", ">=3.9", year=2025),
    Plain("fsspec", "2026.9.0", ">=3.10", year=2026),
    Plain("setuptools", "70.2.0", ">=3.8"),
    Plain("setuptools", "80.9.0", ">=3.9", year=2025),
    Plain("setuptools", "81.0.0", ">=3.9", year=2026),
    Plain("setuptools", "84.0.0", ">=3.10", year=2026),
    Plain("wheel", "0.45.1", ">=3.8"),
    Plain("numpy", "1.24.4", ">=3.8", (), "cp38 cp39 cp310 cp311", 2023),
    Plain("numpy", "1.26.4", ">=3.9", (), "cp39 cp310 cp311 cp312"),
    Plain("numpy", "2.2.6", ">=3.10", (), "cp310 cp311 cp312 cp313 cp313t", 2025),
    Plain("numpy", "2.3.5", ">=3.11", (), "cp311 cp312 cp313 cp313t cp314 cp314t", 2025),
    Plain("numpy", "2.5.1", ">=3.12", (), "cp312 cp313 cp314 cp314t cp315 cp315t", 2026),
    Plain("pillow", "10.4.0", ">=3.8", (), "cp38 cp39 cp310 cp311 cp312 cp313"),
    Plain("pillow", "11.3.0", ">=3.9", (), "cp39 cp310 cp311 cp312 cp313 cp313t cp314 cp314t", 2025),
    Plain("pillow", "13.0.0", ">=3.11", (), "cp311 cp312 cp313 cp314 cp314t cp315 cp315t", 2026),
    Plain(
        "requests",
        "2.32.5",
        ">=3.9",
        ("charset_normalizer<4,>=2", "idna<4,>=2.5", "urllib3<3,>=1.21.1", "certifi>=2017.4.17"),
        year=2025,
    ),
    Plain("charset-normalizer", "3.4.4", ">=3.7", year=2025),
    Plain("idna", "3.11", ">=3.8", year=2025),
    Plain("urllib3", "2.6.3", ">=3.9", year=2026),
    Plain("certifi", "2026.10.19", ">=3.7", year=2026),
    Plain("cmake", "3.31.6", ">=3.7", (), "py3"),
    Plain("lit", "18.1.8", None),
    Plain("sympy", "1.12.1", ">=3.8", ("mpmath<1.4.0,>=1.1.0",)),
    Plain("importlib-metadata", "8.7.0", ">=3.9", ("zipp>=3.20",), year=2025),
    Plain("zipp", "3.23.0", ">=3.9", year=2025),
    Plain("backports-strenum", "1.3.1", ">=3.8", year=2023),
    Plain("protobuf", "6.33.5", ">=3.9", (), "abi3", 2026),
    Plain("cuda-python", "12.9.4", ">=3.9", ("cuda-bindings~=12.9.4", "cuda-pathfinder~=1.1"), year=2025),
    Plain("cuda-python", "13.0.3", ">=3.10", ("cuda-bindings~=13.0.3", "cuda-pathfinder~=1.1"), year=2025),
    Plain("cuda-python", "13.5.0", ">=3.11", ("cuda-bindings~=13.5.0", "cuda-pathfinder>=1.4.2"), year=2026),
    Plain("mkl", "2021.4.0", None, ("intel-openmp==2021.*", "tbb==2021.*"), "py3", 2022),
    Plain("intel-openmp", "2021.4.0", None, (), "py3", 2022),
    Plain("tbb", "2021.4.0", None, (), "py3", 2022),
    Plain("opt-einsum", "3.4.0", ">=3.8"),
    Plain("optree", "0.18.0", ">=3.9", ("typing-extensions>=4.6.0",), f"cp39 {_ALL}", 2025),
    Plain("pyyaml", "6.0.3", ">=3.8", (), f"cp39 {_ALL}", 2025),
    Plain("einops", "0.8.1", ">=3.8", year=2025),
    Plain("packaging", "25.0", ">=3.8", year=2025),
    Plain("psutil", "7.1.3", ">=3.6", (), "abi3", 2025),
    Plain("ninja", "1.13.0", ">=3.8", (), "py3", 2025),
    Plain("tqdm", "4.67.1", ">=3.7"),
    Plain("regex", "2025.11.3", ">=3.9", (), f"cp39 {_ALL}", 2025),
    Plain("safetensors", "0.7.0", ">=3.9", (), "abi3", 2025),
    Plain("huggingface-hub", "1.31.0", ">=3.10", ("filelock", "fsspec>=2023.5.0", "pyyaml>=5.1", "tqdm>=4.42.1"), year=2026),
    Plain("tokenizers", "0.23.2", ">=3.10", ("huggingface-hub<2.0,>=0.16.4",), "abi3", 2026),
    Plain(
        "transformers",
        "5.17.0",
        ">=3.10",
        ("huggingface-hub<2.0,>=1.0", "numpy>=1.17", "packaging>=20.0", "pyyaml>=5.1", "regex!=2019.12.17",
         "tokenizers<=0.24.0,>=0.22.0", "safetensors>=0.4.3", "tqdm>=4.27", "filelock",
         'torch>=2.4; extra == "torch"', 'accelerate>=1.1.0; extra == "torch"'),
        year=2026,
    ),
    Plain("accelerate", "1.12.0", ">=3.10", ("numpy<3.0.0,>=1.17", "packaging>=20.0", "psutil", "pyyaml", "torch>=2.0.0", "huggingface_hub>=0.21.0", "safetensors>=0.4.3"), year=2026),
)  # fmt: skip
