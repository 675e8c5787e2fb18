"""What becomes of attempts when the engine is away, slow, old or odd."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from executor.container import ContainerExecutor
from executor.engine import Engine, EngineAway, EngineError, chosen_version, split_image
from executor.interface import Outcome, OutcomeKind, Unavailable
from tests.executor.containers import attempt, executor_on
from tests.executor.fake_engine import FakeEngine, answering, breaking_off, fake_engine, hanging
from tests.executor.outputs import KeptOutput

SUCCEEDED = Outcome(kind=OutcomeKind.SUCCEEDED, status=0)
REMOVED = "DELETE /v1.41/containers/horae-0193f2aa0000-01JD-7"


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[FakeEngine]:
    async with fake_engine(tmp_path / "engine.sock") as made:
        yield made


@pytest.fixture
async def container(engine: FakeEngine) -> AsyncIterator[ContainerExecutor]:
    made = executor_on(engine.path)
    yield made
    await made.close()


async def test_an_attempt_asks_for_one_thing_after_another(
    container: ContainerExecutor, engine: FakeEngine, output: KeptOutput
) -> None:
    assert await container.run(attempt("true"), output) == SUCCEEDED
    assert output.data == b"hi\n"
    assert [call.replace("/v1.41", "").replace("horae-0193f2aa0000-01JD-7", "NAME") for call in engine.calls] == [
        "GET /_ping",
        "GET /containers/json",
        "GET /images/horae-test:1/json",
        "POST /containers/create",
        "POST /containers/NAME/attach",
        "POST /containers/NAME/start",
        "POST /containers/NAME/wait",
        "GET /containers/NAME/json",
        "DELETE /containers/NAME",
    ]


# --- away -------------------------------------------------------------------------------------------------------------


async def test_without_an_engine_the_attempt_fails_and_says_where_it_was_looked_for(
    tmp_path: Path, output: KeptOutput
) -> None:
    container = executor_on(str(tmp_path / "none.sock"))
    outcome = await container.run(attempt("true"), output)
    assert outcome.kind == OutcomeKind.FAILED
    detail = f"the container engine at {tmp_path}/none.sock does not answer: No such file or directory"
    assert outcome.detail == detail
    with pytest.raises(Unavailable, match="does not answer"):
        await container.reap()
    await container.close()


async def test_nothing_starts_before_what_was_left_is_gone(
    container: ContainerExecutor, engine: FakeEngine, output: KeptOutput
) -> None:
    """The engine was away when the node started; the first attempt that finds it reaps."""
    engine.answers["/containers/json"] = answering('{"message": "busy"}', 500)
    assert (await container.run(attempt("true"), output)).detail == "busy"
    assert not any(call.endswith("/create") for call in engine.calls)
    engine.answers["/containers/json"] = answering('[{"Names": ["/left"]}, {"Names": []}]')
    assert await container.run(attempt("true"), output) == SUCCEEDED
    assert engine.calls.index("DELETE /v1.41/containers/left") < engine.calls.index("POST /v1.41/containers/create")
    assert await container.run(attempt("true"), output) == SUCCEEDED
    assert engine.calls.count("GET /v1.41/containers/json") == 2


async def test_an_engine_that_restarts_is_waited_for(
    container: ContainerExecutor, engine: FakeEngine, output: KeptOutput, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With live-restore, its containers have not noticed; and it may be a newer one that comes back."""
    monkeypatch.setattr("executor.container.ENGINE_BACK_S", 0.0)

    async def break_once(request: web.Request) -> web.StreamResponse:
        del engine.answers["/wait"]
        engine.api_version = "1.52"
        return await breaking_off(request)

    engine.answers["/wait"] = break_once
    assert await container.run(attempt("true"), output) == SUCCEEDED
    assert "POST /v1.47/containers/horae-0193f2aa0000-01JD-7/wait" in engine.calls


async def test_an_engine_that_does_not_come_back_fails_the_attempt(
    container: ContainerExecutor, engine: FakeEngine, output: KeptOutput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("executor.container.ENGINE_BACK_S", 0.0)
    engine.answers["/wait"] = breaking_off
    outcome = await container.run(attempt("true"), output)
    assert outcome.kind == OutcomeKind.FAILED
    assert "does not answer" in (outcome.detail or "")
    assert engine.calls[-1] == REMOVED


async def test_what_could_not_be_removed_is_found_later(
    container: ContainerExecutor, engine: FakeEngine, output: KeptOutput
) -> None:
    name = "horae-0193f2aa0000-01JD-7"
    engine.answers[name] = breaking_off
    assert await container.run(attempt("true"), output) == SUCCEEDED
    del engine.answers[name]
    engine.answers["/containers/json"] = answering(f'[{{"Names": ["/{name}"]}}]')
    assert await container.reap() == 1
    assert engine.calls[-1] == REMOVED


# --- slow -------------------------------------------------------------------------------------------------------------


async def test_an_engine_that_hangs_is_told(
    container: ContainerExecutor, engine: FakeEngine, output: KeptOutput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Engine._call.__kwdefaults__, "timeout_s", 0.05)
    engine.answers["/create"] = hanging
    outcome = await container.run(attempt("true"), output)
    assert outcome.detail == f"the container engine at {engine.path} does not answer: no answer within 0.05 s"


async def test_the_time_limit_is_for_the_pulling_too(
    container: ContainerExecutor, engine: FakeEngine, output: KeptOutput
) -> None:
    engine.answers["/images/create"] = hanging
    outcome = await container.run(attempt("true", pull="always", timeout_s=0.1), output)
    assert outcome.kind == OutcomeKind.TIMED_OUT
    assert "pulling its image takes too long" in (outcome.detail or "")


async def test_a_stop_that_fails_is_still_a_timeout(
    container: ContainerExecutor, engine: FakeEngine, output: KeptOutput
) -> None:
    engine.answers["/wait"] = hanging
    engine.answers["/stop"] = answering('{"message": "cannot"}', 500)
    outcome = await container.run(attempt("true", timeout_s=0.1), output)
    assert outcome == Outcome(kind=OutcomeKind.TIMED_OUT, detail="killed after 0.1 s")
    assert engine.calls[-1] == REMOVED


async def test_a_removal_goes_on_when_its_task_is_cancelled_again(
    container: ContainerExecutor, engine: FakeEngine, output: KeptOutput
) -> None:
    """(I9) And closing waits for it."""
    may_answer = asyncio.Event()
    removing = asyncio.Event()

    async def remove(request: web.Request) -> web.StreamResponse:
        removing.set()
        await may_answer.wait()
        return web.Response(status=204)

    engine.answers["horae-0193f2aa0000-01JD-7"] = remove
    engine.answers["/wait"] = hanging
    task = asyncio.create_task(container.run(attempt("true"), output))
    await output.wait_for(b"hi")
    for _ in range(2):
        task.cancel()
        await removing.wait()
    await asyncio.wait([task])
    assert task.cancelled()
    closing = asyncio.create_task(container.close())
    await asyncio.sleep(0)
    assert not closing.done()
    may_answer.set()
    await closing


# --- odd --------------------------------------------------------------------------------------------------------------


async def test_output_in_no_frames_is_told_in_the_log_and_does_not_decide(
    container: ContainerExecutor, engine: FakeEngine, output: KeptOutput
) -> None:
    engine.wrote = b"plain text"
    assert await container.run(attempt("true"), output) == SUCCEEDED
    assert output.data == b"[the engine's output is not in frames: the rest is missing]\n"


@pytest.mark.parametrize(
    ("text", "detail"),
    [('{"message": "out of space"}', "out of space"), ("<html>", "HTTP 500"), ("[]", "HTTP 500")],
)
async def test_a_refusal_is_told_in_the_engines_words(
    container: ContainerExecutor, engine: FakeEngine, output: KeptOutput, text: str, detail: str
) -> None:
    engine.answers["/create"] = answering(text, 500)
    assert (await container.run(attempt("true"), output)).detail == detail


@pytest.mark.parametrize("text", ["no json", '{"half": '])
async def test_an_answer_that_is_no_json_is_no_answer(engine: FakeEngine, text: str) -> None:
    engine.answers["/wait"] = answering(text)
    made = Engine(engine.path)
    with pytest.raises(EngineAway):
        await made.wait("a")
    await made.close()


async def test_something_else_on_the_socket_is_no_engine(engine: FakeEngine) -> None:
    engine.api_version = "nginx"
    made = Engine(engine.path)
    with pytest.raises(EngineAway, match="does not answer"):
        await made.start("a")
    await made.close()


@pytest.mark.parametrize(("status", "is_fine"), [(204, True), (404, True), (409, True), (500, False)])
async def test_what_is_gone_or_going_is_removed(engine: FakeEngine, status: int, is_fine: bool) -> None:
    engine.answers["/containers/a"] = answering("", status)
    made = Engine(engine.path)
    if is_fine:
        await made.remove("a")
    else:
        with pytest.raises(EngineError):
            await made.remove("a")
    await made.close()


@pytest.mark.parametrize(
    ("offered", "chosen"), [("1.41", "1.41"), ("1.25", "1.25"), ("1.47", "1.47"), ("1.52", "1.47")]
)
def test_the_version_is_one_that_both_speak(offered: str, chosen: str) -> None:
    assert chosen_version(offered) == chosen


@pytest.mark.parametrize("offered", ["1.24", "", "x.y"])
def test_an_engine_that_is_too_old_is_refused(offered: str) -> None:
    with pytest.raises(ValueError):
        chosen_version(offered)


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("busybox", ("busybox", "latest")),
        ("busybox:1.36", ("busybox", "1.36")),
        ("host:5000/a/b", ("host:5000/a/b", "latest")),
        ("host:5000/a/b:v1", ("host:5000/a/b", "v1")),
        ("a@sha256:00", ("a@sha256:00", "")),
        ("a:v1@sha256:00", ("a:v1@sha256:00", "")),
    ],
)
def test_one_image_is_pulled_not_all_of_its_tags(image: str, parts: tuple[str, str]) -> None:
    assert split_image(image) == parts
