"""When an image is pulled, from a registry on loopback, and what is told when it cannot be."""

from collections.abc import AsyncIterator

import pytest

from executor.container import ContainerExecutor
from executor.interface import Outcome, OutcomeKind
from tests.docker_engine import ask
from tests.executor.containers import attempt, executor_on
from tests.executor.image_registry import ImageRegistry, image_registry
from tests.executor.outputs import KeptOutput

pytestmark = [pytest.mark.asyncio(loop_factories=["uvloop"]), pytest.mark.slow]
SUCCEEDED = Outcome(kind=OutcomeKind.SUCCEEDED, status=0)


@pytest.fixture
async def registry(docker_socket: str) -> AsyncIterator[ImageRegistry]:
    async with image_registry() as made:
        yield made
        for image in ask(docker_socket, "GET", "/images/json"):
            for tag in image["RepoTags"] or ():
                if tag.startswith(made.host):
                    ask(docker_socket, "DELETE", f"/images/{tag}")


@pytest.fixture
async def container(docker_socket: str) -> AsyncIterator[ContainerExecutor]:
    made = executor_on(docker_socket)
    yield made
    await made.close()


async def test_a_missing_image_is_pulled_once(
    container: ContainerExecutor, registry: ImageRegistry, output: KeptOutput
) -> None:
    """(M2) And what it says it runs is run, if the job says nothing else."""
    image = f"{registry.host}/report:1"
    assert await container.run(attempt(image=image), output) == SUCCEEDED
    assert await container.run(attempt(image=image), output) == SUCCEEDED
    assert (output.data, registry.pulls) == (b"pulled\npulled\n", 1)
    assert await container.run(attempt("true", image=image, pull="always"), output) == SUCCEEDED
    assert registry.pulls == 2


async def test_without_pulling_an_image_has_to_be_there(
    container: ContainerExecutor, registry: ImageRegistry, output: KeptOutput
) -> None:
    outcome = await container.run(attempt("true", image=f"{registry.host}/report:1", pull="never"), output)
    assert outcome.kind == OutcomeKind.FAILED
    assert outcome.detail == f"No such image: {registry.host}/report:1"
    assert registry.pulls == 0


@pytest.mark.parametrize("image", ["report:2", "nothing:1"])
async def test_an_image_that_the_registry_has_not_fails_the_attempt(
    container: ContainerExecutor, registry: ImageRegistry, output: KeptOutput, image: str
) -> None:
    outcome = await container.run(attempt("true", image=f"{registry.host}/{image}"), output)
    assert outcome.kind == OutcomeKind.FAILED
    assert f"{registry.host}/{image.partition(':')[0]}" in (outcome.detail or "")


async def test_pulling_ends_with_the_attempts_time(
    container: ContainerExecutor, registry: ImageRegistry, output: KeptOutput
) -> None:
    outcome = await container.run(attempt("true", image=f"{registry.host}/slow:1", timeout_s=1.0), output)
    assert outcome.kind == OutcomeKind.TIMED_OUT
    assert "pulling its image takes too long" in (outcome.detail or "")
