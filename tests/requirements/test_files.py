"""Requirements files in pip's syntax; pip itself is the judge of how lines are joined and commented."""

from __future__ import annotations

from pathlib import Path

import pytest
from pip._internal.req.req_file import preprocess

from cudalock.errors import UsageError
from cudalock.requirements import Request, read_request
from cudalock.requirements.files import logical_lines


def read(tmp_path: Path, text: str, **files: str) -> Request:
    for name, content in {
        "requirements.txt": text,
        **{k.replace("_", "/") + ".txt": v for k, v in files.items()},
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return read_request(requirement_files=[tmp_path / "requirements.txt"])


def fault(tmp_path: Path, text: str, **files: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text, **files)
    return caught.value


def texts(request: Request) -> list[str]:
    return [str(asked.requirement) for asked in request.requirements]


@pytest.mark.parametrize(
    "text",
    [
        "torch\nsympy\n",
        "# only a comment\n\n   \ntorch # why\n",
        "torch>=2,\\\n  <3\nsympy",
        "torch \\\n# a comment ends it\nsympy",
        "torch \\\n  # an indented one, too\nsympy",
        "name#not-a-comment\n",
        "torch\\",
        "a \\\n\\\nb\n",
        "\\\ntorch\n",
        "one\r\ntwo \\\r\n three\r\n",
    ],
)
def test_lines_are_joined_as_pip_joins_them(text: str) -> None:
    ours = [(number, " ".join(line.split())) for number, line in logical_lines(text)]
    theirs = [(number, " ".join(line.split())) for number, line in preprocess(text)]
    assert ours == theirs


def test_requirements_keep_order_and_origin(tmp_path: Path) -> None:
    request = read(tmp_path, "# torch\ntorch>=2.8  # newest\n\nsympy \\\n  <2; python_version > '3'\n")
    assert texts(request) == ["torch>=2.8", 'sympy<2; python_version > "3"']
    assert [asked.origin.rsplit("/", 1)[-1] for asked in request.requirements] == [
        "requirements.txt:2",
        "requirements.txt:4",
    ]


def test_files_include_files_relative_to_themselves(tmp_path: Path) -> None:
    request = read(
        tmp_path,
        "-r sub/more.txt\n--requirement=sub/more.txt\n-csub/limits.txt\ntorch\n",
        sub_more="sympy\n-r deep.txt\n",
        sub_deep="numpy\n",
        sub_limits="numpy<3\n-r more.txt\n",
    )
    assert texts(request) == ["sympy", "numpy", "sympy", "numpy", "torch"]
    # what a constraints file includes is a constraint
    assert [str(asked.requirement) for asked in request.constraints] == ["numpy<3", "sympy", "numpy"]


def test_a_file_may_be_read_twice_but_not_inside_itself(tmp_path: Path) -> None:
    error = fault(tmp_path, "-r sub/more.txt\n", sub_more="sympy\n-r ../requirements.txt\n")
    assert error.code == "requirements-file-cycle"
    assert "more.txt:2" in error.message


def test_environment_variables_are_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANTED", "2.8")
    assert texts(read(tmp_path, "torch==${WANTED}\n")) == ["torch==2.8"]
    assert fault(tmp_path, "torch==${NOT_SET_ANYWHERE}\n").code == "requirement-invalid"


def test_a_byte_order_mark_is_no_part_of_the_name(tmp_path: Path) -> None:
    (tmp_path / "bom.txt").write_bytes(b"\xef\xbb\xbftorch\n")
    assert texts(read_request(requirement_files=[tmp_path / "bom.txt"])) == ["torch"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("-e .", "requirement-is-editable"),
        ("--editable git+https://git.example/x", "requirement-is-editable"),
        ("git+https://git.example/x", "requirement-is-vcs"),
        ("x @ git+https://git.example/x", "requirement-is-vcs"),
        ("./x-1.0-py3-none-any.whl", "requirement-is-path"),
        ("torch=>2", "requirement-invalid"),
        ("--index-url https://user:secret@index.example/simple", "requirements-option-unsupported"),
        ("-i https://index.example/simple", "requirements-option-unsupported"),
        ("--extra-index-url=https://index.example/simple", "requirements-option-unsupported"),
        ("-f https://[broken", "requirements-option-unsupported"),
        ("--no-index", "requirements-option-unsupported"),
        ("--pre", "requirements-option-unsupported"),
        ("--trusted-host index.example", "requirements-option-unsupported"),
        ("--no-binary :all:", "requirements-option-unsupported"),
        ("torch==2.8 --hash=sha256:" + 64 * "0", "requirements-option-unsupported"),
        ("torch --config-settings x=y", "requirements-option-unsupported"),
        ("--wibble", "requirement-invalid"),
        ("-r", "requirement-invalid"),
        ("-x", "requirement-invalid"),
        ("-r 'unclosed", "requirement-invalid"),
        ("-r nowhere.txt", "requirements-file-missing"),
        ("-c https://index.example/limits.txt", "requirements-file-is-url"),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, line: str, code: str) -> None:
    error = fault(tmp_path, f"# first\ntorch\n{line}\n")
    assert error.code == code
    assert error.message.startswith(f"{tmp_path / 'requirements.txt'}:3: ")
    assert error.hint
    assert "secret" not in str(error.to_json())


def test_all_faults_are_reported_at_once(tmp_path: Path) -> None:
    error = fault(tmp_path, "torch=>2\nsympy\n-e .\n-r nowhere.txt\n")
    assert error.code == "requirement-invalid"
    assert [item["code"] for item in error.details["faults"]] == [
        "requirement-invalid",
        "requirement-is-editable",
        "requirements-file-missing",
    ]
    assert len(error.message.splitlines()) == 3


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--extra-index-url https://download.pytorch.org/whl/cu128", "`--cuda cu128` asks for that label"),
        ("-i https://download.pytorch.org/whl", "cudalock asks the PyTorch index itself"),
        ("--only-binary :all:", "only wheels are taken"),
        ("--use-feature fast-deps", "nothing to cudalock"),
    ],
)
def test_options_without_effect_give_a_note(tmp_path: Path, line: str, said: str) -> None:
    request = read(tmp_path, f"{line}\ntorch\n")
    assert texts(request) == ["torch"]
    (note,) = request.notes
    assert "requirements.txt:1" in note
    assert said in note


@pytest.mark.parametrize("line", ["--require-hashes", "--prefer-binary"])
def test_what_cudalock_does_anyway_is_silent(tmp_path: Path, line: str) -> None:
    request = read(tmp_path, f"{line}\ntorch\n")
    assert (texts(request), request.notes) == (["torch"], ())


def test_unreadable_files_are_typed_errors(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("grüße\n".encode("latin-1"))
    for path, code in [
        (tmp_path / "missing.txt", "requirements-file-missing"),
        (tmp_path, "requirements-file-unreadable"),
        (tmp_path / "latin.txt", "requirements-file-unreadable"),
        (Path("nul\0.txt"), "requirements-file-unreadable"),
    ]:
        with pytest.raises(UsageError) as caught:
            read_request(requirement_files=[path])
        assert caught.value.code == code, path
