"""Stock programs on RouterEndpoint: a router's pass-through is scripted, the worker is real."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import httpx
import pytest
import sglang as sgl

from agentserve.core.blobs import blob_path
from agentserve.core.errors import AgentServeError, NoWorker, SessionClosed, Unavailable
from agentserve.core.workers import Worker, WorkerList, WorkerReport, WorkerState
from agentserve.lang import RouterEndpoint

STOCK = Path(__file__).parents[1] / "programs" / "stock_loop.py"


class PassingRouter(httpx.BaseTransport):
    """A router's worker list and pass-through, over one real worker."""

    def __init__(self, worker_url: str) -> None:
        self.worker_url = worker_url
        self.bodies: list[dict] = []
        self.sessions: list[str] = []
        self.error: httpx.Response | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/workers":
            report = WorkerReport.model_validate(httpx.get(f"{self.worker_url}/agentserve").json())
            ready = Worker(id="w-1", url=self.worker_url, state=WorkerState.READY, report=report)
            return httpx.Response(200, text=WorkerList(workers=[ready]).model_dump_json())
        self.bodies.append(json.loads(request.read()))
        self.sessions.append(request.headers["X-Session-Id"])
        if self.error is not None:
            return self.error
        answer = httpx.post(
            self.worker_url + request.url.path, content=request.content, timeout=60,
            headers={"content-type": "application/json"},
        )  # fmt: skip
        return httpx.Response(answer.status_code, content=answer.content)


@pytest.fixture
def passing(worker_url: str) -> PassingRouter:
    return PassingRouter(worker_url)


@pytest.fixture
def endpoint(passing: PassingRouter):
    endpoint = RouterEndpoint("http://router", transport=passing)
    yield endpoint
    endpoint.close()


@pytest.fixture
def pixels(picture, blobs) -> list[bytes]:
    return [blob_path(blobs, "", picture(n).blob).read_bytes() for n in range(4)]


def stock_loop():
    spec = importlib.util.spec_from_file_location("stock_loop", STOCK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_looping_program_with_many_images(endpoint, passing, pixels) -> None:
    performed: list[str] = []
    screens = iter(pixels)

    def perform(action: str) -> bool:
        performed.append(action)
        return len(performed) < 3

    state = stock_loop().work.run(
        observe=lambda: next(screens), perform=perform, goal="Press OK", backend=endpoint
    )
    assert state.error() is None
    assert performed == [state[f"action_{n}"] for n in range(3)]
    assert all(action == "done" or action.startswith("click ") for action in performed)
    assert [len(body["image_data"]) for body in passing.bodies] == [1, 2, 3]
    first, second, third = [body["text"] for body in passing.bodies]
    assert first.startswith("<|im_start|>system\nYou operate a web page.<|im_end|>\n<|im_start|>")
    assert third.startswith(second) and second.startswith(first)
    assert third.count("<|vision_start|><|image_pad|><|vision_end|>") == 3
    # all of the run's calls belong to one session, so that they meet their cache
    assert len(set(passing.sessions)) == 1
    meta = [state.get_meta_info(f"action_{n}") for n in range(3)]
    assert meta[1]["cached_tokens"] >= meta[0]["prompt_tokens"] - 1
    assert meta[2]["prompt_tokens"] > 3 * 80


def test_a_batch_is_a_session_a_run(endpoint, passing, pixels) -> None:
    @sgl.function
    def ask(s, shot, question):
        s += sgl.user(sgl.image(shot) + question)
        s += sgl.assistant(sgl.gen("answer", max_tokens=4, temperature=0))

    runs = [{"shot": shot, "question": f"Question {n}?"} for n, shot in enumerate(pixels)]
    states = ask.run_batch(runs, backend=endpoint, num_threads=4)
    assert [f"Question {n}?" in state.text() for n, state in enumerate(states)] == [True] * 4
    assert all(isinstance(state["answer"], str) for state in states)
    assert len(set(passing.sessions)) == 4


def test_select_with_two_images(endpoint, passing, pixels) -> None:
    @sgl.function
    def compare(s, left, right):
        s += sgl.user(sgl.image(left) + sgl.image(right) + "Are they equal?")
        s += sgl.assistant("Answer: " + sgl.select("equal", ["yes", "no"]))

    state = compare.run(pixels[0], pixels[1], backend=endpoint)
    assert state.error() is None
    assert state["equal"] in ("yes", "no")
    assert [len(images) for images in passing.bodies[-1]["image_data"]] == [2, 2]


def test_streaming_gives_the_same_text(endpoint, pixels) -> None:
    @sgl.function
    def ask(s, shot):
        s += sgl.user(sgl.image(shot))
        s += sgl.assistant(sgl.gen("answer", max_tokens=6, temperature=0, regex="[a-z]{6}"))

    plain = ask.run(pixels[0], backend=endpoint)
    streamed = ask.run(pixels[0], backend=endpoint, stream=True)
    assert "".join(streamed.text_iter("answer")) == plain["answer"]


def test_one_session_for_all_runs(passing) -> None:
    @sgl.function
    def say(s):
        s += "Hi " + sgl.gen("x", max_tokens=2)

    endpoint = RouterEndpoint("http://router", session_id="mine", transport=passing)
    say.run(backend=endpoint).sync()
    say.run(backend=endpoint).sync()
    endpoint.close()
    assert passing.sessions == ["mine", "mine"]


@pytest.mark.filterwarnings("ignore:Error in stream_executor")
def test_errors_of_the_router_are_what_they_are(endpoint, passing) -> None:
    @sgl.function
    def say(s):
        s += sgl.gen("x", max_tokens=2)

    passing.error = httpx.Response(409, json=SessionClosed("it is released").body())
    assert isinstance(say.run(backend=endpoint).error(), SessionClosed)
    passing.error = httpx.Response(400, json={"error": {"message": "the worker's own words"}})
    error = say.run(backend=endpoint).error()
    assert type(error) is AgentServeError
    assert "the worker's own words" in error.message


def test_a_router_without_workers() -> None:
    nobody = httpx.MockTransport(lambda _: httpx.Response(200, json={"workers": []}))
    with pytest.raises(NoWorker):
        RouterEndpoint("http://router", transport=nobody)


def test_a_router_that_is_not_there() -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(Unavailable, match="cannot reach the router at http://router"):
        RouterEndpoint("http://router", transport=httpx.MockTransport(refuse))
