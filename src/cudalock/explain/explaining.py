"""Error texts and logs -> what broke first, the line that shows it, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from packaging.version import Version

from cudalock import facts
from cudalock.explain.matching import Scan
from cudalock.explain.model import STAGES, Explanation, Match
from cudalock.explain.ordering import Cause, causes_of, finding_of
from cudalock.explain.reading import Source
from cudalock.facts.explanations import explanations
from cudalock.progress import SILENT, Reporter

__all__ = ["explain", "explain_text"]

_COLLECT_UNKNOWN = (
    "the whole output from its first line, with the full traceback and not its last line alone: cudalock explain FILE",
    "the machine as it is: cudalock detect --json",
    "the environment as it is: cudalock doctor --venv DIR",
    "what the kernel says of the GPU: dmesg | grep -iE 'xid|nvrm'",
)
_COLLECT_OPEN = (
    "what tells the causes apart, as listed under each",
    "the place of the fault: run once more with CUDA_LAUNCH_BLOCKING=1",
    "the machine and the environment as they are: cudalock detect --json, cudalock doctor --venv DIR",
    "what the kernel says of the GPU: dmesg | grep -iE 'xid|nvrm'",
)


def explain(sources: Iterable[tuple[str, Source]], *, reporter: Reporter = SILENT) -> Explanation:
    """Explains logs that belong together, in the order given.

    Args:
        sources: (name, binary stream or lines of text); read once, in pieces.
        reporter: hears how many bytes have been read.

    Raises:
        UsageError: ``log-unreadable``.
    """
    scan = Scan(explanations())
    for number, (name, source) in enumerate(sources):
        done = 0
        for done in scan.read(number, name, source):
            reporter.advance(f"reading {name}", done, None, unit="bytes")
        reporter.advance(f"reading {name}", done, done, unit="bytes")
    return _explanation(causes_of(match for match in scan.matches.values() if _holds(match, scan.matches)))


def explain_text(text: str) -> Explanation:
    """Explains one text, e.g. what a program printed."""
    return explain([("text", text.splitlines())])


def _holds(match: Match, all_matches: Mapping[str, Match]) -> bool:
    """Whether a sighting says something: some rows do only beside a failure, or by what was captured."""
    row = match.row
    failures = {one.row.code for one in all_matches.values() if not one.row.goes_on}
    if row.beside and failures.isdisjoint(row.beside):
        return False
    judge = _JUDGES.get(row.name)
    return judge is None or judge(match.captured)


def _has_reported_trouble(captured: Mapping[str, str]) -> bool:
    return bool(facts.nccl_trouble(Version(captured["version"])))


def _is_no_known_label(captured: Mapping[str, str]) -> bool:
    """Labels older than the oldest known may exist: nothing is said of them."""
    numbers = {int(one.label.removeprefix("cu")) for one in facts.labels()}
    number = int(captured["label"].lower().removeprefix("cu"))
    return number > min(numbers) and number not in numbers


_JUDGES: Mapping[str, Callable[[Mapping[str, str]], bool]] = {
    "nccl-version": _has_reported_trouble,
    "pip-label-unknown": _is_no_known_label,
}


def _explanation(causes: tuple[Cause, ...]) -> Explanation:
    findings = tuple(finding_of(cause) for cause in causes)
    faults = [cause for cause in causes if cause.severity != "info"]  # the rest only describes the machine
    errors = [cause for cause in causes if cause.severity == "error"] or faults
    first = min((cause.stage for cause in errors), key=STAGES.index, default=None)
    some_open = any(cause.open for cause in faults)  # what programs go on after explains no symptom beside it
    unknown = all(cause.open or (some_open and cause.severity != "error") for cause in faults)
    collect = () if not unknown else _COLLECT_OPEN if faults else _COLLECT_UNKNOWN
    return Explanation(findings=findings, first_stage=first, unknown=unknown, collect=collect)
