"""What is asked for early may cost no more requests and never changes the answer: on real pages, cold and warm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from benchmarks.server import Server
from benchmarks.snapshot import Snapshot
from benchmarks.tools import SETS
from packaging.requirements import Requirement

from cudalock.compat import Policy
from cudalock.index import IndexClient, IndexSettings
from cudalock.index.model import IndexFile, PageRef
from cudalock.requirements import AskedRequirement, Request
from cudalock.resolve import Resolution, ResolveOptions, resolve
from support.world import make_target


class WithoutSpeculation(IndexClient):
    """Asks for nothing before it is needed."""

    def ahead(self, task: Callable[[], object]) -> None:
        """Drops it, as a reader may."""

    def prefetch(self, *, pages: Iterable[PageRef] = (), metadata: Iterable[IndexFile] = ()) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(Snapshot.load()) as serving:
        yield serving


def answer(client: IndexClient, requirements: Iterable[str]) -> Resolution:
    request = Request(
        requirements=tuple(AskedRequirement(requirement=Requirement(text), origin="argument") for text in requirements)
    )
    target = make_target("9.0", driver="580.65.06", python="3.12", platform="x86_64-manylinux_2_28")
    return resolve(request, target, client, policy=Policy(), options=ResolveOptions(pytorch="never"))


@pytest.mark.parametrize("name", ["torch", pytest.param("fine-tuning", marks=pytest.mark.slow)])
def test_asking_early_changes_no_answer_and_costs_no_request(server: Server, tmp_path: Path, name: str) -> None:
    answers: list[Resolution] = []
    requests: list[int] = []
    for kind in (WithoutSpeculation, IndexClient):
        settings = IndexSettings(main_url=server.index_url, cache_dir=tmp_path / kind.__name__)
        with kind(settings) as client:
            answers.append(answer(client, SETS[name]))
            requests.append(client.statistics.requests)
        with kind(settings) as client:  # from the cache that this left
            answers.append(answer(client, SETS[name]))
            assert client.statistics.requests == 0
    assert len(answers[0].pins) > 20
    assert all(other == answers[0] for other in answers[1:])
    assert requests[1] <= requests[0]
