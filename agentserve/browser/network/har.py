"""A HAR file as questions and their answers, in their order. Pure.

Two requests ask the same when method, address (without its fragment) and body are the same: JSON is
compared by its value, a multipart body without its boundary, everything else as it is. The same
question is answered anew each time it is asked, in the recorded order; behind the last recorded
answer, that one is repeated: pages that poll ask more or less often.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urldefrag, urljoin

from pydantic_core import from_json

from agentserve.browser.policy import origin_of
from agentserve.core.errors import InvalidRequest, RecordingError

MAX_ENTRIES = 50_000
MAX_REDIRECTS = 20
_BOUNDARY = re.compile(r'boundary="?([^";,]+)', re.IGNORECASE)
_UNFIT_HEADERS = {"content-encoding", "content-length", "transfer-encoding", "connection"}
"""Of the transfer as it was; the body is kept decoded."""


@dataclass(frozen=True)
class Question:
    method: str
    url: str
    body: str = ""
    """Hash of what the body says; empty for none."""

    def __str__(self) -> str:
        body = f" with body {self.body[:12]}" if self.body else ""
        return f"{self.method} {self.url[:500]}{body}"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case; several values of one are on lines of their own."""
    body: bytes = b""
    failure: str = ""
    """Why there was no answer, in the browser's words."""

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    def redirect(self, question: Question) -> Question | None:
        """What a browser asks next."""
        location = self.headers.get("location")
        if self.status not in (301, 302, 303, 307, 308) or not location:
            return None
        url = urldefrag(urljoin(question.url, location)).url
        if self.status in (307, 308) or question.method in ("GET", "HEAD"):
            return Question(question.method, url, question.body)
        return Question("GET", url)


def question_of(method: str, url: str, body: bytes | str | None, content_type: str) -> Question:
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    said = meaning(text or "", content_type)
    key = hashlib.sha256(said.encode("utf-8", "replace")).hexdigest() if said else ""
    return Question(method.upper(), urldefrag(url).url, key)


def meaning(text: str, content_type: str) -> str:
    """A body such that bodies which say the same are equal."""
    kind = content_type.lower()
    if "json" in kind:
        try:
            return json.dumps(from_json(text), sort_keys=True, ensure_ascii=False)
        except ValueError:
            return text
    if kind.startswith("multipart/") and (found := _BOUNDARY.search(content_type)):
        return text.replace(found[1], "boundary")
    return text


class Har:
    """The answers of one recording, given once more. Of one replay: it counts."""

    def __init__(self, answers: Mapping[Question, list[Answer]]) -> None:
        self._answers = answers
        self._asked: Counter[Question] = Counter()
        self._moved: tuple[str, str] | None = None

    def moved(self, recorded_url: str, live_url: str) -> None:
        """The recorded site is at another origin now: questions there are asked as if here. Without
        effect when one of them is no http(s) address."""
        try:
            self._moved = (origin_of(recorded_url), origin_of(live_url))
        except InvalidRequest:
            self._moved = None

    def answer(self, question: Question) -> Answer | None:
        """The next answer to a question as it is asked live. None: it was never asked."""
        asked = self._recorded(question)
        answers = self._answers.get(asked)
        if not answers:
            return None
        index = self._asked[asked]
        self._asked[asked] += 1
        return answers[min(index, len(answers) - 1)]

    def _recorded(self, question: Question) -> Question:
        if self._moved is None:
            return question
        recorded, live = self._moved
        try:
            if origin_of(question.url) != live:
                return question
        except InvalidRequest:
            return question
        return Question(question.method, recorded + question.url[len(live) :], question.body)


def read_har(data: bytes) -> Har:
    """HAR 1.2 with its bodies inside, as Playwright writes it; the caller has bounded its size.

    Raises RecordingError naming the entry that cannot be read.
    """
    try:
        log = from_json(data, allow_inf_nan=False)["log"]
        entries = log["entries"]
    except (ValueError, KeyError, TypeError) as error:
        raise RecordingError("network.har is no HAR file") from error
    if not isinstance(entries, list) or len(entries) > MAX_ENTRIES:
        raise RecordingError(f"network.har must have a list of at most {MAX_ENTRIES} entries")
    answers: dict[Question, list[Answer]] = {}
    for number, entry in enumerate(entries):
        try:
            question, answer = _question(entry["request"]), _answer(entry["response"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise RecordingError(f"network.har: log.entries.{number} cannot be read") from error
        answers.setdefault(question, []).append(answer)
    return Har(answers)


def _question(request: Any) -> Question:
    posted = request.get("postData") or {}
    return question_of(
        request["method"], request["url"], posted.get("text", ""), posted.get("mimeType", "")
    )


def _answer(response: Any) -> Answer:
    headers: dict[str, str] = {}
    for header in response.get("headers", []):
        name = header["name"].lower()
        if name not in _UNFIT_HEADERS:
            value = header["value"]
            headers[name] = f"{headers[name]}\n{value}" if name in headers else value
    content = response.get("content") or {}
    text = content.get("text", "")
    try:
        body = (
            base64.b64decode(text, validate=True)
            if content.get("encoding") == "base64"
            else text.encode("utf-8", "surrogatepass")
        )
    except binascii.Error as error:
        raise ValueError("its body is no base64") from error
    status = response["status"]
    if type(status) is not int:
        raise ValueError("its status is no number")
    failure = str(response.get("_failureText") or "")
    if not 100 <= status <= 599 and not failure:
        failure = "no answer"
    return Answer(status, headers, body, failure)
