"""cudalock: one consistent torch / triton / CUDA triple for machines with NVIDIA GPUs, locked, installed and proven."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing here would cost `--version` a fifth of its time
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["__version__", "lazy_names"]

__version__ = "0.1.0"


def lazy_names(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` (PEP 562) for a package whose names are loaded when they are first used.

    A command then pays for the modules it needs and for no others; ``check`` has a tenth of a second.

    Args:
        package: name of the package.
        homes: module below the package -> names that it defines.
    """
    home_of = {name: f"{package}.{module}" for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        import sys
        from importlib import import_module

        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(home_of)
