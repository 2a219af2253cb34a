"""A step and a HAR file that are full of one secret."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote, quote_plus

from replay.replay_builders import make_result

from agentserve.core.actions import Type
from agentserve.core.actions.recorded import Fill
from agentserve.core.elements import ElementTarget, Selector
from agentserve.core.sessions import InvalidAction, Outcome
from agentserve.replay.bundle.format import StepLine

PASSWORD = "Grüße \"&/' \\ 100%+😀 <x>\n"


def step_of_secrets() -> StepLine:
    """A step with the value in every text field, as many forms as it has."""
    url = f"http://127.0.0.1/?q={quote(PASSWORD, safe='')}&r={quote_plus(PASSWORD)}"
    result = make_result(
        0,
        model_action=Type(text=f"x{PASSWORD}"),
        action=Type(text=f"x{PASSWORD}"),
        invalid=InvalidAction(text=json.dumps({"text": PASSWORD}), reason=f"no {PASSWORD}"),
        text=f"I type.\ntype {json.dumps(PASSWORD)}",
        variables={"action": f"type {json.dumps(PASSWORD, ensure_ascii=False)}", PASSWORD: "key"},
        move=PASSWORD,
    )
    target = ElementTarget(
        selectors=((Selector(engine="aria", value=PASSWORD, role=f"textbox {PASSWORD}"),),),
        tag="input",
        text=f"value {html.escape(PASSWORD)}",
    )
    return StepLine(
        index=0,
        url=url,
        instruction=f"the password is {PASSWORD}",
        outcome_sent=Outcome(status="ok", message=PASSWORD),
        result=result,
        performed=Fill(value=PASSWORD),
        target=target,
        to_target=target,
        outcome=Outcome(status="failed", message=f"{PASSWORD} was refused"),
        thought=f"typing {PASSWORD}",
        origin={"params": {"text": PASSWORD, PASSWORD: [PASSWORD]}},
    )


def har_of_secrets() -> bytes:
    """As browsers write it: addresses, headers, forms, bodies in base64."""
    body = base64.b64encode(b"\xff\xfe" + json.dumps({"echo": PASSWORD}).encode()).decode()
    login = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    request = {
        "method": "POST",
        "url": f"http://127.0.0.1/{quote(PASSWORD)}",
        "headers": [{"name": "Authorization", "value": f"Basic {login}"}],
        "queryString": [{"name": "q", "value": PASSWORD}],
        "postData": {"mimeType": "text/plain", "text": json.dumps({"password": PASSWORD})},
    }
    content = {"size": 9, "mimeType": "image/png", "text": body, "encoding": "base64"}
    response = {"status": 200, "headers": [], "content": content}
    entries = [{"request": request, "response": response}]
    return json.dumps({"log": {"version": "1.2", "entries": entries}}).encode()
