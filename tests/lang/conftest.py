"""Helpers of the bridge's tests: a scripted worker, pictures in a blob folder, turns to run."""

from __future__ import annotations

import hashlib
import io
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from agentserve.core.blobs import blob_path, sha256_of
from agentserve.core.families import family_named
from agentserve.core.hosting import HostTurn
from agentserve.core.plans import Piece, Plan, VisualItem
from agentserve.core.screens import Size, screen_space
from agentserve.lang.http import WorkerHttp
from agentserve.lang.registry import load_registry
from agentserve.lang.tokenizer import SessionTokenizer
from agentserve.lang.turns import TurnRunner
from agentserve.nano.tokenizer import build_tokenizer

SPACE = screen_space(Size(width=160, height=210), 1.4, 28)
DROP = "drop"
"""In a script: close the connection without an answer, as a dying worker does."""


class ScriptedWorker:
    """Speaks a worker's HTTP and answers ``/generate`` as told, for what a real one never does.

    An entry of ``script`` is a JSON answer, a status code for an error in SGLang's shape, a number
    of seconds to stay silent before dropping the connection, or DROP. Without an entry it answers
    every prompt with an action.
    """

    def __init__(self, tokenizer_json: str) -> None:
        self.tokenizer_json = tokenizer_json
        self.tokenizer = SessionTokenizer(tokenizer_json)
        self.script: list[Any] = []
        self.requests: list[dict[str, Any]] = []
        self.fetches = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                owner.fetches += 1
                self._send(200, owner.tokenizer_json.encode())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                owner.requests.append(body)
                entry = owner.script.pop(0) if owner.script else owner.default(body)
                if isinstance(entry, float):
                    time.sleep(entry)
                if isinstance(entry, float) or entry == DROP:
                    self.close_connection = True
                    linger = struct.pack("ii", 1, 0)
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    self.connection.close()
                elif isinstance(entry, int):
                    message = {"error": {"message": f"status {entry} as told"}}
                    self._send(entry, json.dumps(message).encode())
                else:
                    self._send(200, json.dumps(entry).encode())

            def _send(self, status: int, data: bytes) -> None:
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # dropped connections are part of the script
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, text: str, *, prompt: int = 10, finish: dict | None = None) -> dict[str, Any]:
        """A generation of ``text`` that ended at the stop token, or as ``finish`` says."""
        stop = self.tokenizer.special_id("<|im_end|>")
        ids = self.tokenizer.encode(text) + ([] if finish else [stop])
        meta = {
            "prompt_tokens": prompt,
            "cached_tokens": 0,
            "completion_tokens": len(ids),
            "finish_reason": finish or {"type": "stop", "matched": stop},
        }
        return {"text": text, "output_ids": ids, "meta_info": meta}

    def default(self, body: dict[str, Any]) -> dict[str, Any]:
        return self.answer("click 1 2", prompt=len(body["input_ids"]))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(scope="session")
def tokenizer_json() -> str:
    """The nano model's tokenizer: the real thing, without a worker."""
    return build_tokenizer().to_str()


@pytest.fixture(scope="session")
def tokenizer(tokenizer_json: str) -> SessionTokenizer:
    return SessionTokenizer(tokenizer_json)


@pytest.fixture(scope="session")
def family():
    return family_named("qwen2_5_vl")


@pytest.fixture
def scripted(tokenizer_json: str) -> Iterator[ScriptedWorker]:
    worker = ScriptedWorker(tokenizer_json)
    yield worker
    worker.close()


@pytest.fixture
def http() -> Iterator[WorkerHttp]:
    with WorkerHttp() as client:
        yield client


@pytest.fixture
def blobs(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def picture(blobs: Path) -> Callable[[int], VisualItem]:
    """``picture(n)``: a screen of its own colour, stored as a blob, for turn n."""

    def make(n: int) -> VisualItem:
        size = (SPACE.model.width, SPACE.model.height)
        image = Image.new("RGB", size, (n * 37 % 256, n * 91 % 256, 128))
        image.paste((255, 255, 255), (n % 100, 20, n % 100 + 60, 80))
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        sha = sha256_of(buffer.getvalue())
        path = blob_path(blobs, "", sha)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(buffer.getvalue())
        return VisualItem(blob=sha, size=SPACE.model, tokens=SPACE.visual_tokens, turn=n)

    return make


@pytest.fixture
def make_turn(picture) -> Callable[..., HostTurn]:
    """``make_turn(program, worker_url, prior=…, **fields)``: the next turn of a session."""

    shas: dict[str, str] = {}

    def make(
        program: str, worker_url: str, *, prior: list[Piece] | None = None, shade: int = 0, **fields
    ) -> HostTurn:
        if worker_url not in shas:
            text = httpx.get(f"{worker_url}/agentserve/tokenizer", timeout=30).content
            shas[worker_url] = hashlib.sha256(text).hexdigest()
        number = sum(isinstance(piece, VisualItem) for piece in prior or [])
        item = picture(number + shade)
        values: dict[str, Any] = {
            "session_id": "s_test",
            "request_id": "r_test",
            "program": program,
            "task": "Press OK",
            "instruction": "" if prior else "Press OK",
            "outcome": None,
            "first": not prior,
            "turn": number,
            "plan": Plan(prior=prior or [], screen=[item.model_copy(update={"turn": number})]),
            "space": SPACE,
            "family": "qwen2_5_vl",
            "worker_url": worker_url,
            "tokenizer_sha256": shas[worker_url],
            "timeout_s": 60,
            "max_turn_tokens": 256,
        }
        return HostTurn(**{**values, **fields})

    return make


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    return folder


@pytest.fixture
def write_program(programs: Path) -> Callable[..., Path]:
    """``write_program(turn_body)``: the program ``probe`` whose turn runs ``turn_body``."""

    def write(turn_body: str, *, name: str = "probe", begin_body: str = "pass") -> Path:
        def indent(body: str) -> str:
            return "".join(f"    {line}\n" for line in body.strip().splitlines())

        path = programs / f"{name}.py"
        path.write_text(
            "import sglang as sgl\n"
            "from agentserve.lang import action, screen\n\n"
            f"@sgl.function\ndef begin(s, task):\n{indent(begin_body)}\n"
            f"@sgl.function\ndef turn(s, view, instruction, feedback):\n{indent(turn_body)}"
        )
        return path

    return write


@pytest.fixture
def runner(programs: Path, blobs: Path, http: WorkerHttp) -> Callable[[], TurnRunner]:
    """``runner()``: a runner of the programs written so far."""
    return lambda: TurnRunner(registry=load_registry([programs]), blobs=blobs, http=http)


@pytest.fixture
def bundled() -> Path:
    """The folder of the programs that come with agentserve."""
    return Path(__file__).parents[2] / "programs"
