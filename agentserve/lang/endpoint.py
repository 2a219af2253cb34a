"""The router as a backend for stock SGLang programs that run in their user's own process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
from sglang.lang.backend.base_backend import BaseBackend
from sglang.lang.backend.runtime_endpoint import RuntimeEndpoint
from sglang.lang.global_config import global_config
from sglang.lang.interpreter import StreamExecutor
from sglang.lang.ir import SglSamplingParams

from agentserve.core.config import KEEP_CONNECTION_S
from agentserve.core.errors import AgentServeError, InvalidRequest, NoWorker, Unavailable, from_body
from agentserve.core.families import family_of
from agentserve.core.workers import Worker, WorkerList, WorkerState
from agentserve.lang.executor import chat_template

SESSION_HEADER = "X-Session-Id"
TIMEOUT_S = 600.0
_LOGPROB_FIELDS = (
    "return_logprob",
    "logprob_start_len",
    "top_logprobs_num",
    "return_text_in_logprobs",
)


class RouterEndpoint(RuntimeEndpoint):
    """SGLang's RuntimeEndpoint over a router's pass-through, with any number of images a prompt.

        sgl.set_default_backend(RouterEndpoint("http://127.0.0.1:8300"))
        state = my_program.run(...)

    Every run of a program is a session of its own, so that its calls meet the worker that holds
    its KV cache; ``session_id`` puts all runs into one. Errors of the router are raised as the
    AgentServeError they are; Unavailable when it cannot be reached.
    """

    def __init__(
        self,
        url: str,
        session_id: str | None = None,
        *,
        api_key: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Asks the router for its workers, whose model decides the chat template.

        Raises NoWorker while none is ready. ``transport`` replaces the network in tests.
        """
        BaseBackend.__init__(self)  # RuntimeEndpoint's asks the URL as if it were a worker
        self.base_url = url.rstrip("/")
        self.session_id = session_id
        self._http = httpx.Client(
            base_url=self.base_url,
            timeout=TIMEOUT_S,
            headers={"authorization": f"Bearer {api_key}"} if api_key else None,
            limits=httpx.Limits(max_connections=None, keepalive_expiry=KEEP_CONNECTION_S),
            transport=transport,
        )
        worker = _ready_worker(self._send("GET", "/v1/workers"))
        self.model_info = {"model_path": worker.report.model}
        family = family_of(worker.report.architecture)
        self.chat_template = replace(chat_template(family), stop_str=family.stop_tokens[:1])

    def close(self) -> None:
        self._http.close()

    def generate(
        self, s: StreamExecutor, sampling_params: SglSamplingParams
    ) -> tuple[Any, dict[str, Any]]:
        answer = self._generate_http_request(s, self._body(s, sampling_params))
        if isinstance(answer, list):  # n > 1
            return [one["text"] for one in answer], answer[0]["meta_info"]
        return answer["text"], answer["meta_info"]

    def generate_stream(
        self, s: StreamExecutor, sampling_params: SglSamplingParams
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        data = {**self._body(s, sampling_params), "stream": True}
        self._add_images(s, data)
        request = self._http.build_request("POST", "/generate", json=data, headers=self._headers(s))
        response = self._answer(request, stream=True)
        sent = 0
        try:
            for line in response.iter_lines():
                if not line.startswith("data:") or line == "data: [DONE]":
                    continue
                chunk = json.loads(line[5:])
                text = chunk["text"][sent:]
                sent += len(text)
                yield text, chunk["meta_info"]
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        finally:
            response.close()

    def commit_lazy_operations(self, s: StreamExecutor) -> None:
        self._prefill(s)

    def fill_image(self, s: StreamExecutor) -> None:
        self._prefill(s)

    def cache_prefix(self, prefix_str: str) -> None:
        """Nothing: a prefix would be cached on one worker, while the runs go to all of them."""

    def get_server_info(self) -> dict[str, Any]:
        return self._send("GET", "/v1/workers").json()

    def flush_cache(self) -> None:
        raise InvalidRequest("a router does not flush its workers' caches")

    def _prefill(self, s: StreamExecutor) -> None:
        self._generate_http_request(s, {"text": s.text_, "sampling_params": {"max_new_tokens": 0}})

    def _body(self, s: StreamExecutor, sampling_params: SglSamplingParams) -> dict[str, Any]:
        self._handle_dtype_to_regex(sampling_params)
        body: dict[str, Any] = {
            "text": s.text_,
            "sampling_params": {
                "skip_special_tokens": global_config.skip_special_tokens_in_output,
                "spaces_between_special_tokens": global_config.spaces_between_special_tokens_in_out,
                **sampling_params.to_srt_kwargs(),
            },
        }
        for name in _LOGPROB_FIELDS:
            if (value := getattr(sampling_params, name)) is not None:
                body[name] = value
        return body

    # used by RuntimeEndpoint.select too
    def _generate_http_request(self, s: StreamExecutor, data: dict[str, Any]) -> Any:
        self._add_images(s, data)
        return self._send("POST", "/generate", json=data, headers=self._headers(s)).json()

    def _add_images(self, s: StreamExecutor, data: dict[str, Any]) -> None:
        if s.images_ and "text" in data:
            images = [base64 for _, base64 in s.images_]
            texts = data["text"]
            data["image_data"] = [images] * len(texts) if isinstance(texts, list) else images

    def _headers(self, s: StreamExecutor) -> dict[str, str]:
        return {SESSION_HEADER: self.session_id or s.sid}

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._answer(self._http.build_request(method, path, **options))

    def _answer(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        try:
            response = self._http.send(request, stream=stream)
            if response.is_success:
                return response
            response.read()
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        try:
            body = response.json()
        except ValueError:
            body = None
        if isinstance(body, dict) and "code" in body:
            raise from_body(body)
        # the pass-through is lossless: a worker's own error comes in the worker's own words
        raise AgentServeError(
            f"{request.url.path} answered {response.status_code}: {response.text[:2000]}"
        )

    def _unreachable(self, error: httpx.TransportError) -> Unavailable:
        return Unavailable(
            f"cannot reach the router at {self.base_url}: {error or type(error).__name__}",
            hint="start one: `agentserve demo --keep-alive`, or `agentserve serve --worker URL`",
        )


def _ready_worker(response: httpx.Response) -> Worker:
    for worker in WorkerList.model_validate(response.json()).workers:
        if worker.state is WorkerState.READY and worker.report is not None:
            return worker
    raise NoWorker("the router has no ready worker with the agentserve plugin", hint="try again")
