"""No value of a secret reaches the disk, in whatever form it comes; and a replay gets it back."""

from __future__ import annotations

import base64
import html
import json
import random
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from replay.redaction.secret_builders import PASSWORD, har_of_secrets, step_of_secrets
from replay.replay_builders import DONE, make_png, make_result, make_session, make_step

from agentserve.core.actions import Click, Navigate, Type
from agentserve.core.actions.recorded import Fill
from agentserve.core.errors import InvalidRequest, RecordingError
from agentserve.core.secret_names import placeholder
from agentserve.core.sessions import Outcome, TokenMap
from agentserve.replay import Recorder, RecordingWriter, read_recording
from agentserve.replay.bundle.packing import pack
from agentserve.replay.redaction.redaction import Redaction
from agentserve.replay.redaction.secrets import Secrets, revealed

MARK = placeholder("PASSWORD")

FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "percent-encoded": lambda text: quote(text, safe=""),
    "percent-encoded path": quote,
    "percent-encoded in small letters": lambda text: (
        quote(text, safe="").lower()
        if text.isascii() and text == text.lower()
        else "".join(f"%{byte:02x}" for byte in text.encode())
    ),
    "encodeURIComponent": lambda text: quote(text, safe="!~*'()"),
    "of a form": quote_plus,
    "percent-encoded twice": lambda text: quote(quote(text, safe=""), safe=""),
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON with all characters": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON of PHP": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)[1:-1])[1:-1],
    "HTML": html.escape,
    "HTML by numbers": lambda text: "".join(f"&#{ord(c)};" for c in text),
    "HTML by hexadecimal numbers": lambda text: "".join(f"&#X{ord(c):X};" for c in text),
    "HTML in HTML": lambda text: html.escape(html.escape(text)),
    "JSON in HTML": lambda text: html.escape(json.dumps(text)[1:-1]),
    "a URL in JSON": lambda text: json.dumps(quote(text, safe="/"))[1:-1],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", [PASSWORD, "hunter2!", "a/b+c=d&e", "ÄÖÜß", "\\\\share\\x"])
def test_every_form_of_a_secret_is_replaced(secret: str, form: str):
    secrets = Secrets({"PASSWORD": secret})
    written = FORMS[form](secret)
    assert secrets.hidden(f"before{written}after") == f"before{MARK}after"


def test_random_secrets_in_random_forms():
    chance = random.Random(1)
    letters = "aZ09 %&+/=?#\"'\\<>{}[]()|^$.*\n\tüß中😀\xa0"
    for _ in range(1000):
        secret = "".join(chance.choices(letters, k=chance.randrange(4, 12)))
        form = FORMS[chance.choice(list(FORMS))]
        assert Secrets({"S": secret}).hidden(f"<{form(secret)}>") == f"<{placeholder('S')}>", secret


@pytest.mark.parametrize("before", ["", "u:", "me:", "user:"])
def test_base64_of_more_than_the_secret(before: str):
    """What a header of Basic authentication holds: the name and the password together."""
    secrets = Secrets({"PASSWORD": PASSWORD})
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        header = encode(f"{before}{PASSWORD}:tail".encode()).decode()
        first, mark, last = secrets.hidden(header).partition(MARK)
        assert mark and header.startswith(first) and header.endswith(last)
        assert len(first) <= len(before) * 4 / 3 + 2, "at most a part of one byte is left"
        assert len(last) <= len("tail:==") * 4 / 3 + 2


@pytest.mark.parametrize(
    ("secret", "written"),
    [
        ("pa'ss99word", "'button \"key: pa''ss99word\"'"),
        ("it''s", "it''''s"),
        ('pa"ss\\w', '- textbox: "pa\\"ss\\\\w"'),
        ("multi space  two", "multi space two"),
        ("multi space  two", "multi%20space+two"),
        ("two  spaces", "two&nbsp;&#160;spaces"),
        ("key\nof two\nlines", "key of two lines"),
        ("key\nof two\nlines", "key%0D%0Aof+two%0D%0Alines"),
        ("key\nof two\nlines", "key\\r\\nof two\\nlines"),
        ("key\nof two\nlines", "key\r\nof two\r\nlines"),
        ("hard\xa0space", "hard space"),
        ("hard\xa0space", "hard%C2%A0space"),
        ("  in the middle \n", "in the middle"),
        ("bell\x07bell", '"bell\\x07bell"'),
    ],
)
def test_what_a_browser_makes_of_a_secret_is_replaced(secret: str, written: str):
    hidden = Secrets({"PASSWORD": secret}).hidden(f"<{written}>")
    left = hidden.replace(MARK, "")
    assert left != hidden and hidden.startswith("<") and hidden.endswith(">")
    assert not [word for word in re.findall(r"\w+", secret) if len(word) > 1 and word in left]


def test_a_secret_of_little_but_white_space_is_found_as_it_is_only():
    secrets = Secrets({"S": "a   ", "T": "    "})
    assert secrets.hidden("a b   c\n\n\nd") == "a b   c\n\n\nd"
    assert secrets.hidden("xa   y") == "x{{secret:S}}y"


@pytest.mark.parametrize("secret", ["abcd", "hunter2", "x+y/?", "Ää-1"])
def test_base64_of_a_short_secret_is_replaced(secret: str):
    secrets = Secrets({"PASSWORD": secret})
    for before in ("", "a:", "ab", "user: "):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            token = encode(f"{before}{secret} and more".encode()).decode()
            first, mark, last = secrets.hidden(f"x={token};").partition(MARK)
            assert mark and len(first) <= 3 + len(before) * 4 / 3
            assert len(last) <= 4 + len(" and more") * 4 / 3
    assert secrets.hidden("YTpodW50ZXI5") == "YTpodW50ZXI5"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("key: correct hor…", "key: {{secret:S}}…"),
        ('The page said: "my corre…" Yes.', 'The page said: "my {{secret:S}}…" Yes.'),
        ("cor…", "cor…"),
        ("corre and more…", "corre and more…"),
    ],
)
def test_the_beginning_of_a_secret_before_a_cut_is_replaced(text: str, hidden: str):
    assert Secrets({"S": "correct  horse"}).hidden(text) == hidden


def test_a_number_of_another_tools_data_is_replaced_when_it_is_the_secret():
    data = {"pin": 87654321, "same": [87654321.0, True], "more": 876543219, "x": 0.5}
    line = step_of_secrets().model_copy(update={"origin": data})
    hidden = Secrets({"PIN": "87654321"}).hidden_in(line)
    pin = placeholder("PIN")
    assert hidden.origin == {"pin": pin, "same": [pin, True], "more": 876543219, "x": 0.5}
    assert hidden.result == line.result


def test_a_name_may_stand_for_several_values_and_for_passing_ones():
    secrets = Secrets({"P": ("hunter2!", "hunter3!"), "Q": ()}, {"P": ("hunt", "hunter2!x")})
    assert secrets.names == ("P", "Q")
    told = 'hunter2! hunter3! hunter2!x hunting p=hunt&q %22hunt%22 {"p": "hunt"}'
    assert secrets.hidden(told).replace(placeholder("P"), "*") == (
        '* * * hunting p=*&q %22*%22 {"p": "*"}'
    )


def test_other_text_is_left_alone():
    secrets = Secrets({"PASSWORD": "hunter2", "LONGER": "hunter22", "PIN": "1234"})
    for text in ("hunter", "Hunter2", "hunter 2", "12 34", "", "{{secret:PASSWORD}}"):
        assert secrets.hidden(text) == text
    assert secrets.hidden("hunter22 hunter2") == "{{secret:LONGER}} {{secret:PASSWORD}}"


@pytest.mark.parametrize(
    "values",
    [
        {"": "long enough"},
        {"a b": "long enough"},
        {"../x": "long enough"},
        {"N" * 65: "long enough"},
        {"SHORT": "abc"},
        {"EMPTY": ""},
        {"LONG": "x" * 10_001},
        {f"N{n}": "long enough" for n in range(51)},
    ],
    ids=lambda values: next(iter(values))[:9],
)
def test_what_is_no_secret_is_refused(values: dict[str, str]):
    with pytest.raises(InvalidRequest, match="secret"):
        Secrets(values)


def traces() -> list[bytes]:
    """What must be in no file, in the forms that whoever greps would try."""
    forms = {form(PASSWORD) for form in FORMS.values()} | {"Grüße", quote("Grüße"), "Gr\\u00fc"}
    shifted = [base64.b64encode(bytes(n) + PASSWORD.encode())[4:-4] for n in range(3)]
    return [*(form.encode() for form in forms), *shifted]


def test_the_value_is_in_no_file_of_the_bundle(tmp_path: Path, recording):
    session = make_session(
        task=f"Sign in with {PASSWORD}", metadata={"login": f"me:{PASSWORD}", "suite": "tests"}
    )
    meta = recording.meta.model_copy(
        update={
            "id": "secret",
            "task": session.task,
            "url": f"http://127.0.0.1/#{quote(PASSWORD)}",
            "session": recording.meta.session.model_copy(
                update={"task": session.task, "metadata": session.metadata}
            ),
        }
    )
    writer = RecordingWriter(tmp_path, meta, Redaction(secrets=Secrets({"PASSWORD": PASSWORD})))
    sha = writer.add_aria(f"- textbox: {json.dumps(PASSWORD)}\n- text: {PASSWORD}")
    line = step_of_secrets()
    writer.append(line.model_copy(update={"aria": sha}))
    writer.set_network(har_of_secrets())
    writer.set_expectations(json.dumps({"text": PASSWORD}).encode())
    archive = tmp_path / "secret.zip"
    pack(writer.folder, archive)

    with zipfile.ZipFile(archive) as packed:
        inflated = {info.filename: packed.read(info) for info in packed.infolist()}
    files = [path for path in writer.folder.rglob("*") if path.is_file()]
    assert len(files) == len(inflated) == 5
    for data in [*(path.read_bytes() for path in files), *inflated.values(), archive.read_bytes()]:
        assert [trace for trace in traces() if trace in data] == []

    again = read_recording(archive)
    assert again.meta.secrets == ["PASSWORD"]
    assert again.meta.task == f"Sign in with {MARK}"
    assert again.meta.session.metadata == {"login": f"me:{MARK}", "suite": "tests"}
    (step,) = again.steps
    assert step.performed == Fill(value=MARK)
    assert step.result.variables == {"action": f'type "{MARK}"', MARK: "key"}
    assert step.target.selectors[0][0].value == MARK
    assert MARK in again.aria(step.aria)
    body = json.loads(again.network())["log"]["entries"][0]["response"]["content"]["text"]
    assert base64.b64decode(body) == b"\xff\xfe" + json.dumps({"echo": MARK}).encode()
    assert json.loads(inflated["secret/expect.json"]) == {"text": MARK}
    given = {"PASSWORD": PASSWORD}
    assert revealed(step.performed, given) == line.performed
    assert revealed(step, given).thought == line.thought
    assert revealed(again.meta.session, given).task == session.task


async def test_a_recorder_keeps_secrets_to_itself(tmp_path: Path):
    recorder = Recorder(tmp_path, secrets={"PASSWORD": "hunter2!"})
    await recorder.started(make_session(task="Type hunter2!"), "http://127.0.0.1/?p=hunter2%21")
    await recorder.screenshot(0, make_png())
    result = make_result(0, text="type hunter2!", action=Type(text="hunter2!"))
    await recorder.step(make_step(0, result=result))
    await recorder.ended(DONE.model_copy(update={"message": "typed hunter2!"}))
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and b"hunter2" in p.read_bytes()]
    recording = read_recording(recorder.folder)
    assert recording.end.message == f"typed {MARK}"
    assert recording.steps[0].performed == Type(text=MARK)
    assert recording.steps[0].result.screenshot == result.screenshot


def test_words_of_the_format_are_no_text():
    """A secret that is also a fixed word, an id or a hash leaves the recording readable."""
    line = step_of_secrets()
    sha = "ab12" * 16
    tokens = TokenMap(rows=1, columns=8, sent="gA==", live="gA==")
    result = line.result.model_copy(update={"token_map": tokens})
    line = line.model_copy(update={"screenshot": sha, "result": result})
    values = ("step", "fill", "aria", "s_recorded", "ab12", "gA==")
    secrets = Secrets(dict(zip("ABCDEF", values, strict=True)))
    hidden = secrets.hidden_in(line)
    assert (hidden.type, hidden.performed.kind, hidden.screenshot) == ("step", "fill", sha)
    assert hidden.target.selectors[0][0].engine == "aria"
    assert hidden.result.session_id == "s_recorded"
    assert hidden.result.token_map == tokens


def test_a_message_that_grows_is_cut_but_no_action_is():
    secrets = Secrets({"PASSWORD": "hunter2"})
    line = step_of_secrets()
    long = "x" * 1993 + "hunter2"
    cut = secrets.hidden_in(line.model_copy(update={"outcome": Outcome(status="ok", message=long)}))
    assert len(cut.outcome.message) == 2000 and "hunter2" not in cut.outcome.message
    with pytest.raises(RecordingError, match="does not fit any more") as caught:
        secrets.hidden_in(line.model_copy(update={"performed": Type(text=long)}))
    assert "hunter2" not in caught.value.message


def test_a_secret_that_is_not_given_is_named():
    action = Type(text=f"{placeholder('USER')}\t{MARK}")
    with pytest.raises(InvalidRequest, match="needs the secret PASSWORD") as caught:
        revealed(action, {"USER": "me"})
    assert "--secret PASSWORD" in caught.value.hint
    assert revealed(action, {"USER": "me", "PASSWORD": "{{secret:USER}}"}).text == (
        "me\t{{secret:USER}}"
    ), "what is filled in is not looked at again"
    assert revealed(Click(x=1, y=2), {}) == Click(x=1, y=2)


def test_in_an_address_a_secret_is_encoded():
    action = Navigate(url=f"http://127.0.0.1/?p={MARK}")
    assert revealed(action, {"PASSWORD": "a&b c"}).url == "http://127.0.0.1/?p=a%26b%20c"


def test_hostile_text_makes_no_search_endless():
    """Runs of escapes that could be shared out in more ways than can be tried."""
    secrets = Secrets({"A": '\\"' * 7 + "x", "B": "'" * 9 + "x", "C": " ' + x", "D": " \n abcd \n"})
    backslashes = ('\\\\\\"' * 10_000, "\\" * 50_000, "&amp;" * 10_000, "%25" * 10_000)
    spaces = (" " * 50_000, "'" * 50_000, "+ " * 20_000, "\\n" * 20_000, " ' +" * 10_000)
    for text in (*backslashes, *spaces):
        assert secrets.hidden(text) == text
