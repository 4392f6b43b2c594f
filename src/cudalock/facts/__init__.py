"""Facts about drivers, GPUs and builds, read from the tables in ``data/``. Each has a source; none is guessed.

Names are imported when they are first used, so that a command pays for the tables it needs and no others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudalock.facts.architectures import (
        DriverRange,
        ServingRule,
        driver_range,
        driver_ranges,
        family_members,
        newest_driver_for,
        ptx_isa,
        ptxas_targets,
        serving_rule,
    )
    from cudalock.facts.catalogue import FindingRow, finding_codes
    from cudalock.facts.drivers import Branch, Os, branches, cuda_of_driver, driver_floor, driver_native, toolkit_driver
    from cudalock.facts.forward import ForwardCompat, ForwardState, forward_compat, forward_compat_branches
    from cudalock.facts.loader import FactsError, forget_tables, table_names, tables_digest
    from cudalock.facts.nccl import NcclRow, nccl_known_bad, nccl_trouble
    from cudalock.facts.pairing import (
        CompanionRow,
        ImpliedBound,
        companions,
        cuda_major_of_package,
        implied_bounds,
        is_placeholder,
        library_folder,
        prefers_main,
        torch_family,
    )
    from cudalock.facts.products import ProductMatch, UnknownProduct, find_product, product_names, product_of_pci
    from cudalock.facts.sources import SourceBuild, source_builds
    from cudalock.facts.torch import LabelRow, TorchRow, labels, torch_pythons, torch_row, torch_rows
    from cudalock.facts.triton import TritonLimits, TritonRow, triton_limits, triton_row, triton_rows

__all__ = [
    "Branch",
    "branches",
    "CompanionRow",
    "companions",
    "cuda_major_of_package",
    "cuda_of_driver",
    "driver_floor",
    "driver_native",
    "driver_range",
    "driver_ranges",
    "DriverRange",
    "FactsError",
    "family_members",
    "find_product",
    "finding_codes",
    "FindingRow",
    "forget_tables",
    "forward_compat",
    "forward_compat_branches",
    "ForwardCompat",
    "ForwardState",
    "implied_bounds",
    "ImpliedBound",
    "is_placeholder",
    "LabelRow",
    "labels",
    "library_folder",
    "nccl_known_bad",
    "nccl_trouble",
    "NcclRow",
    "newest_driver_for",
    "Os",
    "prefers_main",
    "product_names",
    "product_of_pci",
    "ProductMatch",
    "ptx_isa",
    "ptxas_targets",
    "serving_rule",
    "ServingRule",
    "source_builds",
    "SourceBuild",
    "table_names",
    "tables_digest",
    "toolkit_driver",
    "torch_family",
    "torch_pythons",
    "torch_row",
    "torch_rows",
    "TorchRow",
    "triton_limits",
    "triton_row",
    "triton_rows",
    "TritonLimits",
    "TritonRow",
    "UnknownProduct",
]

_HOMES: dict[str, list[str]] = {
    "architectures": [
        "driver_range",
        "driver_ranges",
        "DriverRange",
        "family_members",
        "newest_driver_for",
        "ptx_isa",
        "ptxas_targets",
        "serving_rule",
        "ServingRule",
    ],
    "catalogue": ["finding_codes", "FindingRow"],
    "drivers": ["Branch", "branches", "cuda_of_driver", "driver_floor", "driver_native", "Os", "toolkit_driver"],
    "forward": ["forward_compat", "forward_compat_branches", "ForwardCompat", "ForwardState"],
    "loader": ["FactsError", "forget_tables", "table_names", "tables_digest"],
    "nccl": ["nccl_known_bad", "nccl_trouble", "NcclRow"],
    "pairing": [
        "CompanionRow",
        "companions",
        "cuda_major_of_package",
        "implied_bounds",
        "ImpliedBound",
        "is_placeholder",
        "library_folder",
        "prefers_main",
        "torch_family",
    ],
    "products": ["find_product", "product_names", "product_of_pci", "ProductMatch", "UnknownProduct"],
    "sources": ["source_builds", "SourceBuild"],
    "torch": ["LabelRow", "labels", "torch_pythons", "torch_row", "torch_rows", "TorchRow"],
    "triton": ["triton_limits", "triton_row", "triton_rows", "TritonLimits", "TritonRow"],
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
