"""Product names and PCI ids -> compute capability: ``data/products.toml``.

Used for targets that are not there and for hosts whose driver cannot be asked. Names are understood in any case,
with or without maker, brand, memory size and form factor; what stays ambiguous is reported as such, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cudalock.errors import UsageError
from cudalock.facts.loader import Row, cached, table
from cudalock.spelling import near_words
from cudalock.versions import ComputeCapability, DriverVersion

__all__ = ["find_product", "product_names", "product_of_pci", "ProductMatch", "UnknownProduct"]

# kind of product -> whether a cuda-compat library may lift it above its driver (None: unknown), see forward_compat.toml
_FORWARD: Mapping[str, bool | None] = {
    "data-centre": True,
    "jetson": True,
    "geforce": False,
    "mining": False,
    "integrated": None,
    "workstation": None,
    "other": None,
}
_INTEGRATED = frozenset({"jetson", "integrated"})

_MAKERS = frozenset(
    {
        "nvidia",
        "corporation",
        "asus",
        "msi",
        "gigabyte",
        "evga",
        "zotac",
        "palit",
        "pny",
        "inno3d",
        "gainward",
        "colorful",
        "galax",
        "kfa2",
        "dell",
        "hp",
        "lenovo",
    }
)
_BRANDS = frozenset({"geforce", "tesla", "quadro", "grid"})
_FORM = frozenset(
    {
        "gpu",
        "graphics",
        "card",
        "laptop",
        "mobile",
        "notebook",
        "with",
        "max",
        "q",
        "design",
        "pcie",
        "pci",
        "e",
        "sxm",
        "sxm2",
        "sxm3",
        "sxm4",
        "sxm5",
        "sxm6",
        "nvl",
        "hbm2",
        "hbm2e",
        "hbm3",
        "hbm3e",
        "gddr5",
        "gddr6",
        "gddr6x",
        "gddr7",
        "founders",
        "edition",
        "generation",
        "fe",
        "oc",
        "oem",
    }
)
_MEMORY = re.compile(r"\d{1,3}gb?")
_VIRTUAL = re.compile(r"\d{1,3}[abcq]")  # the profile of a vGPU, e.g. A10-24Q
_GLUED = re.compile(r"\b(rtx|gtx|gt|mx)(?=\d)|(?<=\d{4})(?=(?:ti|super)\b)")
# Words that name no product on their own
_VAGUE = frozenset(
    {
        "rtx",
        "gtx",
        "gt",
        "mx",
        "pro",
        "ti",
        "super",
        "titan",
        "jetson",
        "agx",
        "nx",
        "nano",
        "ada",
        "blackwell",
        "hopper",
        "ampere",
        "laptop",
        "d",
        "a",
    }
)


class UnknownProduct(UsageError):  # noqa: N818 - reads as the answer it is
    """No known product has this name; the hint lists names close to it."""

    def __init__(self, name: str, near: tuple[str, ...]) -> None:
        close = f"close to it: {', '.join(near)}; or give" if near else "give"
        super().__init__(
            "gpu-unknown",
            f"no GPU is known by the name {name!r}",
            hint=f"{close} the compute capability instead, e.g. --gpu 8.9",
            details={"name": name, "near": list(near)},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductMatch:
    """What a product's name stands for.

    Attributes:
        name: the product as NVIDIA names it, or as it was asked for where several fit.
        capabilities: its compute capability; more than one means that the name is ambiguous.
        forward_compatible: whether a cuda-compat library may lift it; None if unknown.
        integrated: whether it is an integrated GPU (Jetson, GB10).
        min_driver: lowest Linux driver that supports this very product, None if unknown.
        names: all products that fit.
        source: where it was read.
    """

    name: str
    capabilities: tuple[ComputeCapability, ...]
    forward_compatible: bool | None = None
    integrated: bool = False
    min_driver: DriverVersion | None = None
    names: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class _Product:
    name: str
    capability: ComputeCapability
    kind: str
    source: str
    words: tuple[str, ...]  # without maker
    bare: tuple[str, ...]  # also without brand
    core: tuple[str, ...]  # also without form factor and memory


def _words(name: str) -> tuple[str, ...]:
    text = re.sub(r"[^a-z0-9.]+", " ", name.lower().split(" mig ")[0])
    text = _GLUED.sub(lambda match: f"{match[0]} ", text)
    return tuple(word for word in text.split() if word not in _MAKERS)


def _without(words: Iterable[str], noise: frozenset[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in noise)


def _core(bare: tuple[str, ...]) -> tuple[str, ...]:
    kept = _without((word for word in bare if not _MEMORY.fullmatch(word)), _FORM)
    if len(kept) > 1 and _VIRTUAL.fullmatch(kept[-1]):
        kept = kept[:-1]
    return kept or bare


def _product(name: str, capability: ComputeCapability, kind: str, source: str) -> _Product:
    words = _words(name)
    bare = _without(words, _BRANDS) or words
    return _Product(name, capability, kind, source, words, bare, _core(bare))


@cached
def _products() -> tuple[_Product, ...]:
    found: list[_Product] = []
    seen: dict[tuple[str, ComputeCapability], Row] = {}
    for row in table("products").rows("product"):
        capability = row.parsed("capability", ComputeCapability.parse)
        kind = row.text("kind")
        if kind not in _FORWARD:
            row.fail(f"unknown kind {kind!r}")
        for name in row.text("names").strip().splitlines():
            if (other := seen.get((name.lower(), capability))) is not None:
                row.fail(f"{name!r} with {capability} stands in {other.place} already")
            seen[name.lower(), capability] = row
            found.append(_product(name, capability, kind, row.source))
    return tuple(found)


@cached
def product_names() -> Mapping[str, frozenset[ComputeCapability]]:
    """Every product's name with its compute capabilities (several where one name stands for different chips)."""
    found: dict[str, frozenset[ComputeCapability]] = {}
    for product in _products():
        found[product.name] = found.get(product.name, frozenset()) | {product.capability}
    return found


@cached
def _ambiguous() -> dict[tuple[str, ...], tuple[str, tuple[ComputeCapability, ...]]]:
    return {
        _words(name): (row.text("note"), row.parsed_list("capabilities", ComputeCapability.parse))
        for name, row in table("products").by_key("ambiguous", lambda row: row.text("name")).items()
    }


@cached
def _minimum_drivers() -> dict[tuple[str, ...], DriverVersion]:
    rows = table("products").by_key("minimum", lambda row: row.text("name"))
    return {_without(_words(name), _BRANDS): row.parsed("driver", DriverVersion.parse) for name, row in rows.items()}


def _candidates(words: tuple[str, ...]) -> tuple[_Product, ...]:
    """The products that fit, by the narrowest way of comparing that finds any."""
    bare = _without(words, _BRANDS) or words
    core = _core(bare)
    telling = [word for word in core if word not in _VAGUE]
    ways: list[Callable[[_Product], bool]] = [
        lambda product: product.words == words,
        lambda product: product.bare == bare,
        lambda product: product.core == core,
        lambda product: bool(telling) and product.core[: len(core)] == core,
        lambda product: bool(telling) and set(core) <= set(product.core),
    ]
    for fits in ways:
        if found := tuple(product for product in _products() if fits(product)):
            return found
    return ()


def _near(name: str) -> tuple[str, ...]:
    known = {" ".join(product.bare): product.name for product in _products()}
    wanted = " ".join(_without(_words(name), _BRANDS))
    return tuple(dict.fromkeys(known[match] for match in near_words(wanted, known, most=4)))


def _agreed(values: Iterable[bool | None]) -> bool | None:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


@cached
def find_product(name: str) -> ProductMatch:
    """The product with this name; case, maker, brand, memory size and form factor may be left out or added.

    A name that stands for products of several compute capabilities has all of them in ``capabilities``: the caller
    asks which one is meant.

    Source: pci.ids, the README of NVIDIA's open kernel modules and NVIDIA's pages, see ``data/products.toml``.

    Raises:
        UnknownProduct: no product has this name; code ``gpu-unknown``, with names close to it.
    """
    words = _words(name)
    if words in _ambiguous():
        note, capabilities = _ambiguous()[words]
        return ProductMatch(name=name, capabilities=capabilities, names=(note,), source="products.toml")
    found = _candidates(words) if words else ()
    if not found:
        raise UnknownProduct(name, _near(name))
    names = tuple({product.bare: product.name for product in reversed(found)}.values())[::-1]
    bare = _without(words, _BRANDS)
    minimum = _minimum_drivers()
    return ProductMatch(
        name=names[0] if len(names) == 1 else name,
        capabilities=tuple(sorted({product.capability for product in found})),
        forward_compatible=_agreed(_FORWARD[product.kind] for product in found),
        integrated=all(product.kind in _INTEGRATED for product in found),
        min_driver=minimum.get(found[0].bare) or minimum.get(bare) or minimum.get(_core(bare)),
        names=names,
        source=found[0].source,
    )


@cached
def _pci_ids() -> dict[str, ComputeCapability]:
    found: dict[str, ComputeCapability] = {}
    for row in table("products").rows("pci"):
        capability = row.parsed("capability", ComputeCapability.parse)
        for device in row.text("ids").split():
            if device in found:
                row.fail(f"PCI id {device} stands in it twice")
            found[device] = capability
    return found


def product_of_pci(device_id: str) -> ComputeCapability | None:
    """The compute capability of an NVIDIA PCI device id in hexadecimal (``2330``, ``0x2330``); None if unknown.

    Ids that no list has are looked up in the ranges of known chips (inferred).
    """
    device = device_id.strip().upper().removeprefix("0X")
    if not re.fullmatch(r"[0-9A-F]{4}", device):
        return None
    if device in _pci_ids():
        return _pci_ids()[device]
    for row in table("products").rows("pci_range"):
        if row.text("first") <= device <= row.text("last"):
            return row.parsed("capability", ComputeCapability.parse)
    return None
