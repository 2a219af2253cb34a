"""Turns against a scripted worker: what is sent, what comes back, and every way to fail."""

from __future__ import annotations

import base64

import pytest

from agentserve.core.blobs import blob_path
from agentserve.core.deadlines import Deadline
from agentserve.core.errors import (
    ProgramFailed,
    TurnTimeout,
    UnknownBlob,
    UnknownProgram,
    WorkerLost,
    WorkerRefused,
)
from agentserve.core.item_urls import After, kept_tokens, parse_item_url
from agentserve.core.plans import Box, Plan, TextPiece, VisualItem, next_position
from agentserve.core.sessions import Outcome
from agentserve.lang.turns import feedback

THINK_AND_ACT = "s += sgl.user(screen(view)) + sgl.assistant(sgl.gen('thought') + action(view))"
ACT = "s += sgl.user(screen(view)) + sgl.assistant(action(view))"


@pytest.fixture
def run(runner, make_turn, scripted):
    """``run(**fields)``: one turn of the program ``probe`` on the scripted worker."""

    def call(**fields):
        turn = make_turn("probe", scripted.url, **fields)
        return runner().run(turn, Deadline(turn.timeout_s))

    return call


def test_a_turn_that_acts(write_program, run, scripted, tokenizer) -> None:
    write_program(ACT)
    answer = run()
    assert (answer.text, answer.action_text) == ("click 1 2", "click 1 2")
    assert answer.variables == {"action": "click 1 2"}
    assert [piece.kind for piece in answer.pieces] == ["text", "image", "text", "text"]
    assert answer.pieces[-1] == TextPiece(ids=tokenizer.encode("click 1 2"), text="click 1 2")
    (call,) = answer.calls
    assert call.prompt_tokens == len(scripted.requests[0]["input_ids"])


def test_a_mosaic_goes_on_where_it_ended_and_tells_the_engine(
    write_program, run, scripted, picture
) -> None:
    write_program(THINK_AND_ACT)
    whole = picture(0)
    box = Box(x=0, y=0, width=whole.size.width, height=whole.size.height)
    part = whole.model_copy(update={"screen": whole.size, "box": box})
    first = run(plan=Plan(prior=[], screen=[part]))
    newer = part.model_copy(update={"turn": 1})
    plan = Plan(prior=first.pieces, screen=[newer], superseded=[1])
    second = run(prior=first.pieces, plan=plan)
    ends = [next_position([piece], 28) for piece in [*first.pieces, *second.pieces]]
    starts = [piece.position for piece in [*first.pieces, *second.pieces]]
    assert starts == [0, *ends[:-1]]
    request = scripted.requests[2]
    metas = [parse_item_url(url) for url in request["image_data"]]
    bases = [piece.base for piece in (first.pieces[1], second.pieces[1])]
    assert [meta.base for meta in metas] == bases
    # the covered screen leaves with its markers once the first call is answered …
    after = metas[0].after
    gone = sorted(set(range(len(request["input_ids"]))) - set(_kept(after, request)))
    start = len(first.pieces[0].ids)
    assert gone == [start, start + 1, start + 2] and after.owner == "s_test"
    # … so that the second call goes on without it, under the seals that were told before
    later = [parse_item_url(url) for url in scripted.requests[-1]["image_data"]]
    assert [meta.base for meta in later] == bases[1:]
    assert later[0].texts[: len(after.texts)] == after.texts
    ids = len(scripted.requests[-1]["input_ids"])
    assert _kept(later[0].after, scripted.requests[-1]) == list(range(ids))
    assert any(anchor.seal for anchor in after.texts)


def _kept(after: After, request: dict) -> list[int]:
    return list(kept_tokens(after.kept, len(request["input_ids"])))


def test_what_a_call_sends(write_program, run, scripted, tokenizer, blobs) -> None:
    write_program("s += sgl.user(screen(view)) + sgl.gen('x', max_tokens=99999, stop='END')")
    run(max_turn_tokens=77)
    (request,) = scripted.requests
    item = tokenizer.special_id("<|image_pad|>")
    assert request["input_ids"].count(item) == 1
    (image,) = request["image_data"]
    assert base64.b64decode(image).startswith(b"\x89PNG")
    sampling = request["sampling_params"]
    assert sampling["max_new_tokens"] == 77 + 1
    assert sampling["stop"] == "END"
    assert set(sampling["stop_token_ids"]) == tokenizer.special_ids


def test_an_answer_at_its_limit_is_cut_where_the_cache_ends(
    write_program, run, scripted, tokenizer
) -> None:
    write_program("s += sgl.gen('x', max_tokens=3)")
    ids = tokenizer.encode("click 1 2 3 4")[:4]
    text = tokenizer.decode(ids)
    length = {"type": "length", "length": 4}
    scripted.script = [{**scripted.answer(text, finish=length), "output_ids": ids}]
    answer = run()
    assert answer.pieces == [TextPiece(ids=ids[:3], text=tokenizer.decode(ids[:3]))]
    assert answer.variables == {"x": tokenizer.decode(ids[:3])}


def test_begin_runs_on_the_first_turn_only(write_program, run, scripted, tokenizer) -> None:
    write_program(ACT, begin_body="s += sgl.system('Rules for ' + task)")
    first = run(task="Buy milk")
    second = run(prior=first.pieces, task="Buy milk")
    assert "Rules for Buy milk" in first.pieces[0].text
    assert not any("Rules" in p.text for p in second.pieces if isinstance(p, TextPiece))
    sent = [request["input_ids"] for request in scripted.requests]
    cached = sent[0] + tokenizer.encode("click 1 2")
    assert sent[1][: len(cached)] == cached
    assert len(scripted.requests[1]["image_data"]) == 2


def test_the_state_can_be_read_as_in_stock_programs(write_program, run, scripted) -> None:
    write_program(
        "s += sgl.user('Say')\n"
        "s += sgl.assistant_begin() + sgl.gen('x') + sgl.assistant_end()\n"
        "s['copy'] = s['x'] + '!'\n"
        "s['tokens'] = s.get_meta_info('x')['completion_tokens']\n"
        "s['roles'] = ' '.join(m['role'] + ':' + m['content'] for m in s.messages())\n"
        "s['whole'] = s.text()\n"
        "with s.var_scope('scope'):\n"
        "    s += 'tail'\n"
    )
    scripted.script = [scripted.answer("hello")]
    assert run().variables == {
        "x": "hello",
        "copy": "hello!",
        "tokens": str(len(scripted.tokenizer.encode("hello")) + 1),
        "roles": "user:Say assistant:hello",
        "whole": "<|im_start|>user\nSay<|im_end|>\n<|im_start|>assistant\nhello<|im_end|>\n",
        "scope": "tail",
    }


def test_all_that_the_model_wrote_and_the_last_action(write_program, run, scripted) -> None:
    write_program(
        "s += sgl.gen('thought', stop='\\n')\n"
        "s += action(view, kinds=('back',)) + action(view, name='second')"
    )
    newline = {"type": "stop", "matched": "\n"}
    thought = {**scripted.answer("go on\n", finish=newline), "text": "go on"}
    scripted.script = [thought, scripted.answer("back"), scripted.answer("wait 1")]
    answer = run()
    assert answer.text == "go on\nback\nwait 1"
    assert answer.action_text == "wait 1"
    assert "".join(piece.text for piece in answer.pieces) == "go onbackwait 1"
    assert scripted.requests[1]["sampling_params"]["regex"] == "(?:back)"


def test_a_stock_program_of_types_and_schemas(write_program, run, scripted) -> None:
    write_program("s += sgl.gen('n', dtype=int) + sgl.gen('j', json_schema='{}')")
    run()
    assert scripted.requests[0]["sampling_params"]["regex"] == r"[-+]?[0-9]+[ \n]*"
    assert scripted.requests[1]["sampling_params"]["json_schema"] == "{}"


def test_a_program_that_does_not_act(write_program, run) -> None:
    write_program("s += screen(view) + sgl.gen('x')")
    assert run().action_text is None


def test_a_program_sees_its_view_and_the_feedback(write_program, run) -> None:
    write_program(
        "s['seen'] = f'{view.turn} {view.space.model} {len(view.items)} {instruction} {feedback}'"
    )
    answer = run(instruction="Go", outcome=Outcome(status="failed", message="no such field"))
    assert answer.variables["seen"] == ("0 224x280 1 Go Your last action failed: no such field")
    assert answer.pieces == []


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (None, ""),
        (Outcome(status="ok"), ""),
        (Outcome(status="ok", message="You did this before."), "You did this before."),
        (Outcome(status="invalid", message="m"), "Your last answer was no valid action: m"),
        (Outcome(status="failed"), "Your last action failed: no reason was given"),
    ],
)
def test_feedback(outcome: Outcome | None, sentence: str) -> None:
    assert feedback(outcome) == sentence


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("x = 1\nraise ValueError('boom')", "probe.py line 11: ValueError: boom"),
        ("raise SystemExit('bye')", "SystemExit: bye"),
        ("s['missing']", "KeyError: 'missing'"),
        ("s += None", "ValueError"),
        ("forks = s.fork(2)", "fork is not possible inside a turn"),
        ("s += sgl.image(b'')", "write screen(view)"),
        ("s += sgl.gen('x', n=2)", "n must be 1"),
        ("s += sgl.select('x', ['a', ''])", "empty choice"),
        ("s += sgl.select('x', ['a'], temperature=1.0)", "temperature 0"),
        ("s += action(view, kinds=('fly',))", "BadAction: no such action kinds"),
        ("s += sgl.user_begin() + sgl.assistant_begin()", "cannot begin inside a user"),
        ("s += sgl.separate_reasoning(sgl.gen('x'), 'qwen3')", "separate_reasoning"),
    ],
)
def test_a_failing_program(write_program, run, body: str, words: str) -> None:
    write_program(body)
    with pytest.raises(ProgramFailed) as caught:
        run()
    assert words in caught.value.message
    assert "Traceback" not in caught.value.message


def test_the_workers_failures_keep_their_names(write_program, run, scripted) -> None:
    write_program(ACT)
    for entry, error in [(503, WorkerLost), ("drop", WorkerLost), (400, WorkerRefused)]:
        scripted.script = [entry]
        with pytest.raises(error):
            run()
    scripted.script = [5.0]
    with pytest.raises(TurnTimeout):
        run(timeout_s=0.2)


def test_a_program_may_not_hide_behind_a_clients_error(write_program, run) -> None:
    write_program(
        "from agentserve.core.errors import UnknownSession\nraise UnknownSession('not mine')"
    )
    with pytest.raises(ProgramFailed, match="UnknownSession: not mine"):
        run()


def test_an_unknown_program(run) -> None:
    with pytest.raises(UnknownProgram, match="probe"):
        run()


def test_a_lost_blob(write_program, runner, make_turn, scripted, blobs) -> None:
    write_program(ACT)
    turn = make_turn("probe", scripted.url)
    (item,) = turn.plan.screen
    assert isinstance(item, VisualItem)
    blob_path(blobs, "", item.blob).unlink()
    with pytest.raises(UnknownBlob, match=item.blob):
        runner().run(turn, Deadline(10))
    assert scripted.requests == []


def test_a_turn_that_waited_too_long_for_its_thread_does_not_start(
    write_program, runner, make_turn, scripted
) -> None:
    write_program(ACT)
    with pytest.raises(TurnTimeout):
        runner().run(make_turn("probe", scripted.url), Deadline(0))
    assert scripted.requests == []
