"""Requirements that have nothing to do with torch."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cudalock.errors import AnswerIsNo, UsageError
from cudalock.resolve import ResolveOptions
from support.memory_index import LINUX
from support.world import World, make_target, versions


def test_newest_version_and_its_closure(world: World) -> None:
    world.index.add("demo", "1.0")
    world.index.add("demo", "1.1", "dep>=2")
    world.index.add("dep", "2.0", "deeper")
    world.index.add("dep", "1.0")
    world.index.add("deeper", "0.1")
    found = world("demo")
    assert versions(found) == {"demo": "1.1", "dep": "2.0", "deeper": "0.1"}
    assert {pin.name: pin.wanted_by for pin in found.pins} == {"demo": ("",), "dep": ("demo",), "deeper": ("dep",)}
    assert found.triple is None
    assert found.indexes == ("main",)


def test_backtracks_to_versions_that_go_together(world: World) -> None:
    world.index.add("app", "2.0", "lib>=2", "util")
    world.index.add("app", "1.0", "lib>=1", "util")
    world.index.add("lib", "2.0", "core==2")
    world.index.add("lib", "1.0", "core==1")
    world.index.add("util", "1.0", "core<2")
    world.index.add("core", "2")
    world.index.add("core", "1")
    assert versions(world("app")) == {"app": "1.0", "lib": "1.0", "util": "1.0", "core": "1"}


def test_extras_of_a_pinned_metapackage(world: World) -> None:
    extras = {"cublas": ["nvidia-cublas==13.1.0.3.*"], "cudart": ["nvidia-cuda-runtime==13.0.96.*"], "nvcc": ["big"]}
    world.index.add("cuda-toolkit", "13.0.2", extras=extras)
    world.index.add("cuda-toolkit", "13.1.0", extras=extras)
    for name, version in {"nvidia-cublas": "13.1.0.3", "nvidia-cuda-runtime": "13.0.96", "big": "1"}.items():
        world.index.add(name, version, tags="py3-none-manylinux_2_27_x86_64")
    world.index.add("wants", "1.0", "cuda-toolkit[cublas,cudart]==13.0.2")
    found = world("wants")
    assert versions(found) == {
        "cuda-toolkit": "13.0.2", "nvidia-cublas": "13.1.0.3", "nvidia-cuda-runtime": "13.0.96", "wants": "1.0"
    }  # fmt: skip
    toolkit = next(pin for pin in found.pins if pin.name == "cuda-toolkit")
    assert toolkit.extras == {"cublas", "cudart"}
    assert [str(r) for r in toolkit.requires] == ["nvidia-cublas==13.1.0.3.*", "nvidia-cuda-runtime==13.0.96.*"]


def test_extras_come_together_from_several_sides(world: World) -> None:
    world.index.add("demo", "2.0", extras={"a": ["left"], "b": ["right"], "all": ["demo[a,b]"]})
    world.index.add("demo", "1.0", extras={"a": ["left"], "b": ["right"]})
    for name in ("left", "right"):
        world.index.add(name, "1.0")
    world.index.add("other", "1.0", "demo[b]<3")
    found = world("demo[a]", "other")
    assert versions(found) == {"demo": "2.0", "left": "1.0", "right": "1.0", "other": "1.0"}
    assert set(versions(world("demo[all]"))) == {"demo", "left", "right"}


def test_an_extra_that_lowers_the_version_lowers_the_project(world: World) -> None:
    world.index.add("demo", "2.0", extras={"fast": ["engine>=9"]})
    world.index.add("demo", "1.0", extras={"fast": ["engine>=1"]})
    world.index.add("engine", "1.5")
    assert versions(world("demo", "demo[fast]")) == {"demo": "1.0", "engine": "1.5"}


def test_unknown_extra_is_noted(world: World) -> None:
    world.index.add("demo", "1.0")
    found = world("demo[speed]")
    assert [note.code for note in found.notes] == ["extra-unknown"]


@pytest.mark.parametrize(("asked", "meant"), [("trch", "torch"), ("torchvison", "torchvision"), ("vlm", "vllm")])
def test_a_project_named_like_a_slip_is_noted(world: World, asked: str, meant: str) -> None:
    world.index.add(asked, "1.0")
    note = world(asked).notes[0]
    assert note.code == "name-like-another"
    assert note.facts == {"package": asked, "meant": meant}


@pytest.mark.parametrize("name", ["torchx", "torchmetrics", "tritonclient", "pytorch-lightning", "demo"])
def test_a_project_of_its_own_is_not_noted(world: World, name: str) -> None:
    world.index.add(name, "1.0", "trhc")
    world.index.add("trhc", "1.0")  # nobody wrote this one
    assert world(name).notes == ()


def test_markers_are_those_of_the_target(world: World) -> None:
    requires = ['win; sys_platform == "win32"', 'arm; platform_machine == "aarch64"', 'new; python_version >= "3.12"']
    world.index.add("demo", "1.0", *requires)
    for name in ("win", "arm", "new"):
        world.index.add(name, "1.0")
    assert set(versions(world("demo"))) == {"demo", "new"}
    arm = make_target("9.0", driver="580.65.06", platform="linux-aarch64", python="3.11")
    assert set(versions(world("demo", target=arm))) == {"demo", "arm"}
    windows = make_target("8.9", driver="581.10", platform="win-amd64")
    assert set(versions(world("demo", "arm; sys_platform == 'linux'", target=windows))) == {"demo", "new", "win"}


def test_best_wheel_by_tags_and_build_number(world: World) -> None:
    for tags in ("py3-none-any", "cp311-abi3-manylinux_2_17_x86_64", LINUX, "cp313-cp313-manylinux_2_28_x86_64"):
        world.index.add("demo", "1.0", tags=tags)
    world.index.add("demo", "1.0", tags=f"2-{LINUX}")
    world.index.add("demo", "1.0", tags=f"10-{LINUX}")
    assert world("demo").pins[0].file.filename == f"demo-1.0-10-{LINUX}.whl"


def test_yanked_only_when_pinned(world: World) -> None:
    world.index.add("demo", "1.0")
    world.index.add("demo", "2.0", yanked="broken")
    assert versions(world("demo")) == {"demo": "1.0"}
    assert versions(world("demo>=1.0")) == {"demo": "1.0"}
    assert versions(world("demo==2.0")) == {"demo": "2.0"}
    with pytest.raises(AnswerIsNo) as error:
        world("demo>=2.0")
    assert error.value.code == "yanked"


def test_exclude_newer(world: World) -> None:
    world.index.add("demo", "1.0", uploaded=datetime(2025, 1, 1, tzinfo=UTC))
    world.index.add("demo", "2.0", uploaded=datetime(2026, 1, 1, tzinfo=UTC))
    world.index.add("demo", "3.0", uploaded=None)
    assert versions(world("demo", exclude_newer=datetime(2025, 6, 1, tzinfo=UTC))) == {"demo": "1.0"}
    assert versions(world("demo", exclude_newer=datetime(2026, 6, 1, tzinfo=UTC))) == {"demo": "2.0"}
    assert versions(world("demo")) == {"demo": "3.0"}


def test_prereleases_as_pep_440_says(world: World) -> None:
    world.index.add("demo", "1.0")
    world.index.add("demo", "2.0rc1")
    world.index.add("early", "0.1a1")
    assert versions(world("demo", "early")) == {"demo": "1.0", "early": "0.1a1"}
    assert versions(world("demo>=2.0rc1")) == {"demo": "2.0rc1"}
    assert versions(world("demo", prerelease=["demo"])) == {"demo": "2.0rc1"}


def test_constraints_limit_without_asking(world: World) -> None:
    world.index.add("demo", "1.0", "dep")
    for version in ("1.0", "2.0"):
        world.index.add("dep", version)
    world.index.add("unused", "1.0")
    assert versions(world("demo", constraints=["dep<2", "unused==1.0"])) == {"demo": "1.0", "dep": "1.0"}


def test_requires_python_of_page_and_of_metadata(world: World) -> None:
    world.index.add("demo", "1.0")
    world.index.add("demo", "2.0", requires_python=">=3.13")
    # the page is silent, the metadata is not
    world.index.add("demo", "1.5", overrides={"Requires-Python": "<3.12"})
    assert versions(world("demo")) == {"demo": "1.0"}


def test_arbitrary_equality(world: World) -> None:
    for version in ("1.0", "2.0"):
        world.index.add("demo", version)
    assert versions(world("demo===1.0")) == {"demo": "1.0"}


def test_existing_pins_are_kept_unless_upgraded(world: World) -> None:
    for name in ("demo", "dep"):
        for version in ("1.0", "1.1", "2.0"):
            world.index.add(name, version, *(["dep"] if name == "demo" else []))
    pins = {"demo": "1.0", "dep": "1.1"}
    assert versions(world("demo", preferred=pins)) == pins
    assert versions(world("demo>1.0", preferred=pins)) == {"demo": "2.0", "dep": "1.1"}
    assert versions(world("demo", preferred=pins, upgrade_packages=["dep"])) == {"demo": "1.0", "dep": "2.0"}
    assert versions(world("demo", preferred=pins, upgrade=True)) == {"demo": "2.0", "dep": "2.0"}


def test_direct_url_of_a_wheel(world: World) -> None:
    file = world.index.add("demo", "9.9", "dep", index="elsewhere")
    world.index.add("dep", "1.0")
    world.index.add("user", "1.0", "demo>=9")
    digest = "0" * 64
    found = world(f"demo @ {file.url}#sha256={digest}", "user")
    pin = found.pins[0]
    assert (pin.name, str(pin.version), pin.file.url, pin.file.sha256) == ("demo", "9.9", file.url, digest)
    assert set(versions(found)) == {"demo", "dep", "user"}


def test_direct_url_must_name_a_wheel_of_the_project(world: World) -> None:
    with pytest.raises(UsageError) as error:
        world("demo @ https://files.example/other-1.0-py3-none-any.whl")
    assert error.value.code == "direct-url-invalid"


def test_a_package_on_an_index_may_not_require_a_url(world: World) -> None:
    world.index.add("demo", "2.0", "dep @ https://evil.example/dep-1.0-py3-none-any.whl")
    world.index.add("demo", "1.0")
    assert versions(world("demo")) == {"demo": "1.0"}


def test_source_distribution_only_when_allowed(world: World) -> None:
    world.index.add("demo", "1.0", "dep", sdist=True)
    world.index.add("dep", "1.0")
    with pytest.raises(AnswerIsNo) as refused:
        world("demo")
    assert refused.value.code == "source-only"
    assert "--allow-build demo" in (refused.value.hint or "")
    assert set(versions(world("demo", allow_build=["demo"]))) == {"demo", "dep"}


def test_source_distribution_with_dynamic_requirements(world: World) -> None:
    world.index.add("demo", "1.0", sdist=True, overrides={"Dynamic": "Requires-Dist"})
    world.index.add("dep", "1.0")
    with pytest.raises(UsageError) as unknown:
        world("demo", allow_build=["demo"])
    assert unknown.value.code == "build-metadata-unknown"
    built = world.index.metadata(world.index.add("demo", "1.0", "dep", index="built"))
    options = ResolveOptions(build_metadata=lambda _file: built)
    assert set(versions(world("demo", allow_build=["demo"], options=options))) == {"demo", "dep"}


def test_source_of_a_project(world: World) -> None:
    world.index.add("demo", "1.0", "dep")
    world.index.add("demo", "5.0", "dep", index="inhouse")
    world.index.add("dep", "1.0")
    world.index.add("dep", "9.0", index="inhouse")
    options = ResolveOptions(sources={"demo": "inhouse"})  # type: ignore[dict-item] # a normalized name
    found = world("demo", options=options)
    assert versions(found) == {"demo": "5.0", "dep": "1.0"}
    assert found.indexes == ("inhouse", "main")


def test_metadata_of_another_project_is_not_believed(world: World) -> None:
    world.index.add("demo", "2.0", overrides={"Name": "other"})
    world.index.add("demo", "1.0")
    assert versions(world("demo")) == {"demo": "1.0"}


def test_same_answer_whatever_the_order_of_files_and_requirements(world: World) -> None:
    names = ["a", "b", "c", "d"]
    for name in names:
        for version in ("1.0", "2.0"):
            world.index.add(name, version, *(f"{other}<=2" for other in names if other > name))
    first = world(*names)
    for page in world.index.files.values():
        page.reverse()
    assert world(*reversed(names)) == first
