"""Questions about one screen, from what the page's DOM says is on it.

The oracle's own question comes first; the others are made up from the visible elements and words,
so that every picture teaches finding and reading at several places.
"""

from __future__ import annotations

import random
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentserve.nano import recipe, tokenizer
from agentserve.nano.train.prompts import Answer
from agentserve.nano.train.targets import colour_name

MAX_LABEL = 20
_CLICKED = {
    "button": ('Click on the "{}" button.', 'Click the "{}" button.', 'Press "{}".'),
    "link": ('Click on the link "{}".', 'Open the link "{}".'),
    "tab": ('Click on the tab "{}".', "Click on {}."),
    "checkbox": ('Select the checkbox "{}".', "Select {} and click Submit."),
    "radio": ('Select the option "{}".', "Select {} and click Submit."),
}
_ANY = ('Click on "{}".', 'Click on the {role} "{}".')


def questions_of(
    record: dict[str, Any], limit: int, chance: random.Random
) -> list[tuple[str, Answer]]:
    """Up to ``limit`` (task, answer) pairs of a first-turn record; perhaps none."""
    found: list[tuple[str, Answer]] = []
    if record["action"] and record["turn"] == 0:
        found.append((record["goal"], oracle_answer(record)))
    made = [*_elements(record, chance), *_words(record, chance)]
    chance.shuffle(made)
    made.sort(key=lambda pair: pair[1].thought.startswith("word"))  # elements before plain words
    if made and limit > 1 and chance.random() < 0.5:
        found.append(_copy(chance))
    spare = limit - len(found)
    cut = made[: spare - 1] if len(made) > spare else made
    # always some plain words: reading is what takes longest to learn
    found += cut + (chance.sample(made[len(cut) :], 1) if len(made) > len(cut) else [])
    return found[:limit]


def oracle_answer(record: dict[str, Any]) -> Answer:
    box = record["target"]
    return Answer(record["thought"] or "", record["action"], tuple(box) if box else None)


def retyped(
    goal: str, answers: Sequence[Answer], chance: random.Random
) -> tuple[str, list[Answer]]:
    """The same episode about other texts: what is typed out of the goal is replaced in both.

    A task draws its names from few, and a model would learn those by heart instead of copying.
    """
    new: dict[str, str] = {}
    for answer in answers:
        text = answer.action[len('type "') : -1]
        if answer.action.startswith('type "') and f'"{text}"' in goal and text not in new:
            new[text] = some_text(chance)
    for old, text in new.items():
        goal = goal.replace(f'"{old}"', f'"{text}"')
    texts = {f'type "{old}"': f'type "{text}"' for old, text in new.items()}
    return goal, [replace(a, action=texts.get(a.action, a.action)) for a in answers]


def some_text(chance: random.Random) -> str:
    """A word or two, or some random letters and digits."""
    words = tokenizer.words()
    kind = chance.random()
    if kind < 0.7:
        return chance.choice(words)
    if kind < 0.8:
        return f"{chance.choice(words)} {chance.choice(words)}"
    letters = string.ascii_letters + string.digits
    return "".join(chance.choices(letters, k=chance.randint(1, 7)))


def _copy(chance: random.Random) -> tuple[str, Answer]:
    text = some_text(chance)
    return f'Type "{text}".', Answer("type the text", f'type "{text}"')


def _elements(record: dict[str, Any], chance: random.Random) -> list[tuple[str, Answer]]:
    named = [e for e in record["elements"] if 0 < len(e["text"]) <= 40]
    times = Counter(e["text"] for e in named)
    made = []
    for element in named:
        role, text = element["role"], element["text"]
        if times[text] > 1 or '"' in text or "\n" in text:
            continue
        if role == "colour square":
            name = colour_name(text)
            made.append((f"Click on the {name} colored box.", click(f"{name} box", element["box"])))
            continue
        wording = chance.choice(_CLICKED.get(role, _ANY)).format(text, role=role)
        made.append((wording, click(f'{role} "{text[:MAX_LABEL]}"', element["box"])))
    return made


def _words(record: dict[str, Any], chance: random.Random) -> list[tuple[str, Answer]]:
    boxes: dict[str, list[tuple[float, ...]]] = {}
    for text, top, bottom, *edges in record["words"]:
        if len(edges) > 2:
            boxes.setdefault(text.strip('.,:;!?"()'), []).append((edges[0], top, edges[-1], bottom))
    single = [(text, places[0]) for text, places in boxes.items() if len(places) == 1 and text]
    chance.shuffle(single)
    made = []
    for text, box in single[:6]:
        if len(text) > MAX_LABEL or '"' in text or "\\" in text:
            continue
        if chance.random() < 0.5:
            made.append((f'Click on the word "{text}".', click(f'word "{text}"', box)))
        else:
            x, y = middle(box)
            made.append((f"Read the word at {x} {y}.", Answer("word", f'done success "{text}"')))
    return made


def click(thought: str, box: Any) -> Answer:
    x, y = middle(box)
    return Answer(thought, f"click {x} {y}", tuple(box))


def middle(box: Any) -> tuple[int, int]:
    """The middle of a box, in the middle of a bin; model px."""
    left, top, right, bottom = box
    return _snap((left + right) / 2), _snap((top + bottom) / 2)


def _snap(value: float) -> int:
    return max(0, int(value // recipe.BIN)) * recipe.BIN + recipe.BIN // 2
