"""A project's own dependencies, with extras and groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from cudalock.errors import UsageError
from cudalock.requirements import Request, read_request

PROJECT = """
[project]
name = "My.Project"
dependencies = ["torch>=2.8", "numpy"]

[project.optional-dependencies]
vision = ["torchvision", "pillow; python_version >= '3.12'"]
Speed_Up = ["xformers"]
all = ["my-project[vision]; sys_platform == 'linux'", "my_project[speed-up]"]
loop = ["my-project[loop]", "sympy"]

[dependency-groups]
test = ["pytest", {include-group = "Lint"}]
lint = ["ruff"]
self = ["my-project[speed-up]"]
"""


def read(tmp_path: Path, text: str = PROJECT, *, extras: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> Request:
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    return read_request(project=tmp_path, extras=extras, groups=groups)


def texts(request: Request) -> list[str]:
    return [str(asked.requirement) for asked in request.requirements]


def test_dependencies_extras_and_groups(tmp_path: Path) -> None:
    request = read(tmp_path, extras=("vision", "speed.up"), groups=("Test",))
    assert texts(request) == [
        "torch>=2.8", "numpy", "torchvision", 'pillow; python_version >= "3.12"', "xformers", "pytest", "ruff",
    ]  # fmt: skip
    assert [asked.origin for asked in request.requirements] == [
        "pyproject.toml", "pyproject.toml", "pyproject.toml extra vision", "pyproject.toml extra vision",
        "pyproject.toml extra speed-up", "pyproject.toml group test", "pyproject.toml group test",
    ]  # fmt: skip
    assert request.extras == ("speed-up", "vision")
    assert request.groups == ("test",)


def test_the_file_itself_may_be_named(tmp_path: Path) -> None:
    read(tmp_path)
    assert texts(read_request(project=tmp_path / "pyproject.toml")) == ["torch>=2.8", "numpy"]


def test_extras_of_the_project_itself_are_expanded_with_their_markers(tmp_path: Path) -> None:
    assert texts(read(tmp_path, extras=("all",)))[2:] == [
        'torchvision; sys_platform == "linux"',
        'pillow; sys_platform == "linux" and python_version >= "3.12"',
        "xformers",
    ]
    assert texts(read(tmp_path, extras=("loop",)))[2:] == ["sympy"]
    assert texts(read(tmp_path, groups=("self",)))[2:] == ["xformers"]


def test_a_project_of_groups_alone(tmp_path: Path) -> None:
    assert texts(read(tmp_path, '[dependency-groups]\ngpu = ["torch"]\n', groups=("gpu",))) == ["torch"]


@pytest.mark.parametrize(
    ("text", "extras", "groups", "code", "said"),
    [
        (PROJECT, ("visoin",), (), "extra-unknown", "did you mean `vision`?"),
        (PROJECT, ("zzz",), (), "extra-unknown", "all, loop, speed-up, vision"),
        (PROJECT, (), ("tests",), "group-unknown", "did you mean `test`?"),
        ("[project]\nname='x'\n", ("a",), (), "extra-unknown", "declares no extras"),
        ("[project]\nname='x'\ndependencies=['torch=>2']\n", (), (), "requirement-invalid", ""),
        ("[project]\nname='x'\ndynamic=['dependencies']\n", (), (), "project-dependencies-dynamic", "-r FILE"),
        ("[project]\nname='x'\ndynamic=['optional-dependencies']\n", ("a",), (), "project-dependencies-dynamic", ""),
        ("[project]\nname='x'\ndependencies='torch'\n", (), (), "project-invalid", ""),
        ("[project]\nname='x'\ndependencies=[1]\n", (), (), "project-invalid", ""),
        ("[project]\nname=1\n", (), (), "project-invalid", ""),
        ("project = 1\n", (), (), "project-invalid", ""),
        ("[project]\nname='x'\noptional-dependencies=[]\n", (), (), "project-invalid", ""),
        ("[tool.other]\n", (), (), "project-invalid", "cudalock resolve torch"),
        ("not toml", (), (), "project-invalid", ""),
        ("[dependency-groups]\na=[{include-group='b'}]\nb=[{include-group='a'}]\n", (), ("a",), "project-invalid", ""),
        ("[dependency-groups]\na=[{include-group='b'}]\n", (), ("a",), "project-invalid", ""),
        ("[dependency-groups]\na=[3]\n", (), ("a",), "project-invalid", ""),
        ("[dependency-groups]\na='torch'\n", (), ("a",), "project-invalid", ""),
        ("[dependency-groups]\nA=[]\na=[]\n", (), ("a",), "project-invalid", ""),
        ("[dependency-groups]\na=['torch=>2']\n", (), ("a",), "project-invalid", ""),
    ],
)
def test_faults_are_typed(
    tmp_path: Path, text: str, extras: tuple[str, ...], groups: tuple[str, ...], code: str, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text, extras=extras, groups=groups)
    assert caught.value.code == code
    assert "pyproject.toml" in caught.value.message
    assert said in (caught.value.hint or "")


def test_no_project_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_request(project=tmp_path)
    assert caught.value.code == "project-missing"
    with pytest.raises(UsageError) as caught:
        read_request(["torch"], groups=["test"])
    assert caught.value.code == "project-missing"


def test_the_paths_of_faulty_keys_are_exact(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"pyproject.toml: project.optional-dependencies.a\[1\]: expected a string"):
        read(tmp_path, "[project]\nname='x'\n[project.optional-dependencies]\na=['torch', 2]\n", extras=("a",))
