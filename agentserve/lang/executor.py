"""SGLang's interpreter over a session's prompt: pieces and token ids instead of one string."""

from __future__ import annotations

from sglang.lang.chat_template import ChatTemplate
from sglang.lang.interpreter import StreamExecutor
from sglang.lang.ir import (
    SglConcateAndAppend,
    SglExpr,
    SglGen,
    SglImage,
    SglRoleBegin,
    SglRoleEnd,
    SglSamplingParams,
    SglSelect,
    SglSeparateReasoning,
    SglVideo,
)

from agentserve.core.errors import ProgramFailed
from agentserve.core.families import Family
from agentserve.lang.backend import SessionBackend
from agentserve.lang.expressions import SglAction, SglLookAgain, SglScreen
from agentserve.lang.prompt import Prompt

_REFUSED: dict[type[SglExpr], str] = {
    SglImage: "sgl.image is not possible inside a turn: write screen(view)",
    SglVideo: "sgl.video is not possible inside a turn: write screen(view)",
    SglConcateAndAppend: "join is not possible inside a turn",
    SglSeparateReasoning: "separate_reasoning rewrites the prompt: not inside a turn",
}


def chat_template(family: Family) -> ChatTemplate:
    """The family's messages in SGLang's own form, without a default system message."""
    return ChatTemplate(
        name=family.name,
        default_system_prompt=None,
        role_prefix_and_suffix={
            role: (family.role_begin.format(role=role), family.role_end)
            for role in ("system", "user", "assistant")
        },
        stop_str=(),
        image_token=family.image_begin + family.image_token + family.image_end,
    )


class SessionExecutor(StreamExecutor):
    """Runs a program's expressions one by one, in the calling thread.

    ``text_`` is kept as in the base class, so that ``s.text()`` works; what the worker gets is
    ``prompt``. Both hold the same words, but only the prompt knows what is a marker and what is
    text that looks like one.
    """

    def __init__(self, backend: SessionBackend, prompt: Prompt) -> None:
        self.prompt = prompt
        self.generated: list[str] = []
        """Texts that the model wrote, in order."""
        self.action_name: str | None = None
        """Variable of the last action."""
        self.look_again = False
        """Whether the next turn is to show thin parts of the screen in full."""
        super().__init__(
            backend,
            arguments={},
            default_sampling_para=SglSamplingParams(stop=[], stop_token_ids=[], stop_regex=[]),
            chat_template=chat_template(prompt.family),
            stream=False,
            use_thread=False,
        )

    def get_var(self, name: str):
        # The base class waits for an event here. Without a thread nothing could ever set it.
        return self.variables[name]

    def fork(self, size: int = 1, position_ids_offset: list[int] | None = None):
        raise ProgramFailed(
            "fork is not possible inside a turn",
            hint="a session's prompt is one line of pieces; create a second session instead",
        )

    def _execute(self, other: SglExpr | str) -> None:
        if isinstance(other, SglScreen):
            self._execute_screen(other)
        elif isinstance(other, SglLookAgain):
            self.look_again = True
        elif type(other) in _REFUSED:
            raise ProgramFailed(_REFUSED[type(other)])
        else:
            super()._execute(other)

    def _execute_fill(self, value: str, prefix: bool = False) -> None:
        self.text_ += str(value)
        self.prompt.text(str(value))

    def _execute_screen(self, expr: SglScreen) -> None:
        self.text_ += self.chat_template.image_token * len(expr.view.items)
        self.prompt.screen(expr.view.items)

    def _execute_role_begin(self, expr: SglRoleBegin) -> None:
        if self.cur_role is not None:
            raise ProgramFailed(f"a {expr.role} message cannot begin inside a {self.cur_role} one")
        self.cur_role = expr.role
        self.text_ += self.chat_template.get_prefix_and_suffix(expr.role, self.messages_)[0]
        self.cur_role_begin_pos = len(self.text_)
        self.prompt.begin_message(expr.role)

    def _execute_role_end(self, expr: SglRoleEnd) -> None:
        content = self.text_[self.cur_role_begin_pos :].lstrip()
        self.messages_.append({"role": expr.role, "content": content})
        self.cur_role = None
        self.text_ += self.chat_template.get_prefix_and_suffix(expr.role, self.messages_)[1]
        self.prompt.end_message()

    def _execute_gen(self, expr: SglGen) -> None:
        before = len(self.text_)
        super()._execute_gen(expr)
        self._generated(self.text_[before:], self.meta_info[expr.name]["kept_ids"])
        if isinstance(expr, SglAction):
            self.action_name = expr.name

    def _execute_select(self, expr: SglSelect) -> None:
        before = len(self.text_)
        super()._execute_select(expr)
        decision = self.text_[before:]
        self._generated(decision, self.prompt.tokenizer.encode(decision))

    def _generated(self, text: str, ids: list[int]) -> None:
        self.generated.append(text)
        self.prompt.generated(ids, text)
