"""Questions made from a page's DOM are unambiguous and aim at the right place."""

import random

from agentserve.nano.train.questions import middle, questions_of

RECORD = {
    "task": "click-button",
    "turn": 0,
    "goal": 'Click on the "Ok" button.',
    "thought": 'button "Ok"',
    "action": "click 42 14",
    "target": [30.0, 6.0, 54.0, 22.0],
    "elements": [
        {"role": "button", "text": "Ok", "box": [30.0, 6.0, 54.0, 22.0]},
        {"role": "link", "text": "sed", "box": [10.0, 60.0, 40.0, 74.0]},
        {"role": "button", "text": "twice", "box": [0.0, 100.0, 40.0, 120.0]},
        {"role": "button", "text": "twice", "box": [0.0, 130.0, 40.0, 150.0]},
    ],
    "words": [["magna", 200.0, 212.0, 10.0, 18.0, 26.0, 34.0, 42.0, 50.0]],
}


def all_questions():
    found = {}
    for seed in range(40):
        for task, answer in questions_of(RECORD, 6, random.Random(seed)):
            found[task] = answer
    return found


def test_the_oracles_question_comes_first():
    task, answer = questions_of(RECORD, 3, random.Random(1))[0]
    assert (task, answer.thought, answer.action) == (RECORD["goal"], 'button "Ok"', "click 42 14")


def test_a_label_that_stands_twice_is_never_asked_for():
    assert not [task for task in all_questions() if "twice" in task]


def test_clicks_aim_at_the_middle_of_the_box():
    answer = all_questions()['Click on the link "sed".']
    assert (answer.thought, answer.action) == ('link "sed"', "click 26 66")
    assert answer.box == (10.0, 60.0, 40.0, 74.0)


def test_words_are_found_and_read():
    found = all_questions()
    assert found['Click on the word "magna".'].action == "click 30 206"
    assert found["Read the word at 30 206."].action == 'done success "magna"'
    assert found["Read the word at 30 206."].box is None


def test_later_turns_keep_the_oracles_answer_to_themselves():
    later = {**RECORD, "turn": 1}
    tasks = [task for task, _ in questions_of(later, 6, random.Random(0))]
    assert RECORD["goal"] not in tasks or tasks.count(RECORD["goal"]) == 1


def test_the_middle_lies_in_the_middle_of_a_bin():
    assert middle((0, 0, 3, 3)) == (2, 2)
    assert middle((4, 8, 12, 8)) == (10, 10)
