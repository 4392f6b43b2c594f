"""What holds for the rules whatever the machine and the build: checked on made-up ones."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version

from cudalock import facts
from cudalock.builds.model import Build, TritonRelease
from cudalock.compat.driver import drives
from cudalock.compat.judging import judge, preference
from cudalock.compat.model import Mode, Policy
from cudalock.compat.remedy import best_admitted, remedies
from cudalock.compat.triton import is_passenger
from cudalock.target.model import Target, TargetGpu
from cudalock.versions import Architecture, ComputeCapability, CudaVersion, DriverVersion
from support.judging import linux_target, make_build, torch_options

CAPABILITIES = [
    ComputeCapability.parse(text)
    for text in [
        "3.7",
        "5.0",
        "5.3",
        "6.0",
        "6.1",
        "7.0",
        "7.2",
        "7.5",
        "8.0",
        "8.6",
        "8.7",
        "8.9",
        "9.0",
        "10.0",
        "10.1",
        "10.3",
        "11.0",
        "12.0",
        "12.1",
    ]
]
CUDAS = [
    CudaVersion.parse(text) for text in ["11.7", "11.8", "12.1", "12.4", "12.6", "12.8", "12.9", "13.0", "13.2", "13.4"]
]
ARCHITECTURES = [
    Architecture(capability, suffix, ptx)
    for capability in CAPABILITIES
    for ptx in (False, True)
    for suffix in (("", "a", "f") if capability >= ComputeCapability(9, 0) else ("",))
]
BRANCHES = [branch for branch in facts.branches("linux") if branch.branch >= 450]
DRIVERS = [branch.first for branch in BRANCHES] + [branch.newest for branch in BRANCHES]

capabilities = st.sampled_from(CAPABILITIES)
drivers = st.sampled_from(DRIVERS)
gpus = st.builds(TargetGpu, compute_capability=capabilities, forward_compatible=st.sampled_from([None, True, False]))
tritons = st.one_of(
    st.none(),
    st.builds(
        TritonRelease,
        version=st.sampled_from([Version(text) for text in ("2.1.0", "3.2.0", "3.3.1", "3.6.0", "3.9.0")]),
        ptxas=st.sampled_from(CUDAS),
        ptxas_blackwell=st.one_of(st.none(), st.sampled_from(CUDAS)),
        blackwell_from=st.sampled_from([90, 100]),
    ),
)
policies = st.builds(
    Policy,
    modes=st.sampled_from([frozenset({Mode.NATIVE, Mode.MINOR}), frozenset(Mode), frozenset({Mode.NATIVE})]),
    without_triton=st.booleans(),
)


@st.composite
def builds(draw: st.DrawFn) -> Build:
    cuda = draw(st.sampled_from(CUDAS))
    code = draw(st.lists(st.sampled_from(ARCHITECTURES), min_size=6, max_size=24, unique=True))
    source = draw(st.sampled_from(["main", "pytorch"]))
    local = "" if source == "main" else f"+{cuda.label}"
    return replace(make_build(f"2.9.0{local}", str(cuda), "", source=source, triton=">=2"), architectures=tuple(code))


@st.composite
def targets(draw: st.DrawFn) -> Target:
    driver = draw(drivers)
    own = facts.cuda_of_driver(driver, "linux")
    assert own is not None
    kinds = draw(st.lists(gpus, min_size=1, max_size=4))
    driven = [gpu for gpu in kinds if drives(driver, gpu, "linux") == "yes"]
    target = replace(linux_target(driver.text), gpus=tuple(driven or kinds))
    if draw(st.booleans()):
        lifted = max(own, draw(st.sampled_from(CUDAS)))
        target = replace(target, cuda_driver=lifted, forward_active=lifted > own)
    return target


@given(builds(), targets(), tritons, policies, gpus)
@settings(max_examples=120, deadline=None)
def test_another_gpu_never_widens_what_is_admitted(
    build: Build, target: Target, triton: TritonRelease | None, policy: Policy, gpu: TargetGpu
) -> None:
    more = replace(target, gpus=(*target.gpus, gpu))
    if judge(build, more, triton=triton, policy=policy).admitted:
        assert judge(build, target, triton=triton, policy=policy).admitted


@given(builds(), targets(), tritons, policies)
@settings(max_examples=120, deadline=None)
def test_what_a_set_admits_every_member_admits(
    build: Build, target: Target, triton: TritonRelease | None, policy: Policy
) -> None:
    whole = judge(build, target, triton=triton, policy=policy)
    members = [judge(build, replace(target, gpus=(gpu,)), triton=triton, policy=policy) for gpu in target.gpus]
    if whole.admitted:
        assert all(member.admitted for member in members)
    elif Mode.FORWARD not in policy.modes and not target.forward_active:
        assert not all(member.admitted for member in members)  # without a shared library nothing else refuses


@given(builds(), targets(), tritons, policies)
@settings(max_examples=120, deadline=None)
def test_a_passenger_is_one_by_itself(
    build: Build, target: Target, triton: TritonRelease | None, policy: Policy
) -> None:
    whole = judge(build, target, triton=triton, policy=policy)
    for gpu in target.gpus:
        alone = judge(build, replace(target, gpus=(gpu,)), triton=triton, policy=policy).gpus[0]
        same = [one for one in target.gpus if one.compute_capability == gpu.compute_capability]
        if len(same) == 1:
            assert alone == next(one for one in whole.gpus if one.gpu == gpu.compute_capability)


@given(builds(), targets(), tritons, policies, drivers)
@settings(max_examples=200, deadline=None)
def test_a_newer_driver_of_the_same_major_never_narrows(
    build: Build, target: Target, triton: TritonRelease | None, policy: Policy, newer: DriverVersion
) -> None:
    target = replace(target, forward_active=False, cuda_driver=facts.cuda_of_driver(target.driver or newer, "linux"))
    updated = replace(target, driver=newer, cuda_driver=facts.cuda_of_driver(newer, "linux"))
    assert target.driver is not None
    assert target.cuda_driver is not None
    assert updated.cuda_driver is not None
    if newer < target.driver or updated.cuda_driver.major != target.cuda_driver.major:
        return
    if any(drives(newer, gpu, "linux") != "yes" for gpu in target.gpus):
        return
    plain = replace(policy, modes=policy.modes - {Mode.FORWARD})  # a cuda-compat package is made for named branches
    if judge(build, target, triton=triton, policy=plain).admitted:
        assert judge(build, updated, triton=triton, policy=plain).admitted


@given(builds(), targets(), tritons, policies)
@settings(max_examples=100, deadline=None)
def test_the_lowest_driver_of_the_contract_admits(
    build: Build, target: Target, triton: TritonRelease | None, policy: Policy
) -> None:
    """What the lock calls driver-min really is enough, for each GPU that is no passenger by its driver."""
    target = replace(target, forward_active=False, cuda_driver=facts.cuda_of_driver(target.driver, "linux"))  # type: ignore[arg-type]
    plain = replace(policy, modes=frozenset({Mode.NATIVE, Mode.MINOR}))
    if not judge(build, target, triton=triton, policy=plain).admitted:
        return
    for gpu in target.gpus:
        alone = replace(target, gpus=(gpu,))
        lowest = judge(build, alone, triton=triton, policy=plain).gpus[0].driver_min
        assert lowest is not None
        assert target.driver is not None
        assert lowest <= target.driver
        if is_passenger(gpu.compute_capability, target.cuda_driver) and gpu.compute_capability >= ComputeCapability(
            7, 0
        ):
            continue
        at_lowest = replace(alone, driver=lowest, cuda_driver=facts.cuda_of_driver(lowest, "linux"))
        assert judge(build, at_lowest, triton=triton, policy=plain).admitted


@given(builds(), targets(), tritons, policies, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_order_and_number_of_gpus_make_no_difference(
    build: Build, target: Target, triton: TritonRelease | None, policy: Policy, random: object
) -> None:
    shuffled = list(target.gpus)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    doubled = replace(target, gpus=(*shuffled, *(replace(gpu, count=7) for gpu in target.gpus)))
    mixed = replace(build, architectures=tuple(reversed(build.architectures)))
    first, second = (
        judge(one, where, triton=triton, policy=policy) for one, where in ((build, target), (mixed, doubled))
    )
    assert first.gpus == second.gpus
    assert first.mode == second.mode
    assert {reason.code for reason in first.refusals} == {reason.code for reason in second.refusals}
    assert judge(build, doubled, triton=triton, policy=policy) == first


@given(st.lists(capabilities, min_size=1, max_size=3, unique=True), drivers, st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_choice_does_not_depend_on_the_order_of_builds(
    chosen: list[ComputeCapability], driver: DriverVersion, random: object
) -> None:
    target = linux_target(driver.text, *map(str, chosen))
    options = list(torch_options())
    first = best_admitted(options, target, Policy())
    random.shuffle(options)  # type: ignore[attr-defined]
    second = best_admitted(options, target, Policy())
    assert (first and first[0].build) == (second and second[0].build)
    if first is not None:
        same = [one for one in options if one.build.version.public == first[0].build.version.public]
        keys = [
            preference(one.build, verdict, target)
            for one in same
            if (verdict := judge(one.build, target, triton=one.triton, policy=Policy())).admitted
        ]
        assert preference(first[0].build, first[1], target) == min(keys)


@given(
    st.lists(capabilities, min_size=1, max_size=3, unique=True),
    drivers,
    st.sampled_from(["", "==2.13.0", "==2.5.1", "<2.1", ">=2.14"]),
)
@settings(max_examples=20, deadline=None)
def test_what_is_offered_is_admitted(chosen: list[ComputeCapability], driver: DriverVersion, pin: str) -> None:
    target = linux_target(driver.text, *map(str, chosen))
    options = torch_options(pin)
    if best_admitted([one for one in options if one.wanted], target, Policy()) is not None:
        return
    for remedy in remedies(options, target, Policy(), asked=f"torch{pin}"):
        changed, policy, pool = target, Policy(), [one for one in options if one.wanted]
        if remedy.kind == "pin":
            pool = [one for one in options if not one.wanted]
        elif remedy.kind in {"without-triton", "assembler"}:
            policy = Policy(without_triton=True)
        elif remedy.kind == "driver":
            given_driver = DriverVersion(remedy.facts["driver"])
            assert all(drives(given_driver, gpu, "linux") == "yes" for gpu in target.gpus)
            changed = replace(target, driver=given_driver, cuda_driver=facts.cuda_of_driver(given_driver, "linux"))
        elif remedy.kind == "gpus":
            kept = tuple(gpu for gpu in target.gpus if str(gpu.compute_capability) in remedy.facts["gpus"])
            assert 0 < len(kept) < len(target.gpus)
            changed = replace(target, gpus=kept)
        named = [one for one in pool if str(one.build.version) == remedy.admits]
        assert any(judge(one.build, changed, triton=one.triton, policy=policy).admitted for one in named), remedy


@given(
    st.lists(capabilities, min_size=1, max_size=2, unique=True), drivers, st.sampled_from(["", "==2.13.0", ">=2.14"])
)
@settings(max_examples=20, deadline=None)
def test_the_driver_that_is_offered_is_the_lowest(
    chosen: list[ComputeCapability], driver: DriverVersion, pin: str
) -> None:
    target = linux_target(driver.text, *map(str, chosen))
    options = [one for one in torch_options(pin) if one.wanted]
    if best_admitted(options, target, Policy()) is not None:
        return
    offered = [one.facts["driver"] for one in remedies(options, target, Policy()) if one.kind == "driver"]
    for branch in BRANCHES:
        newer = replace(target, driver=branch.newest, cuda_driver=branch.cuda)
        if branch.newest > driver and best_admitted(options, newer, Policy()) is not None:
            assert offered
            assert DriverVersion(offered[0]) <= branch.newest
            return
