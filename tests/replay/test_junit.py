from pathlib import Path
from xml.etree import ElementTree

import pytest
from replay.report_builders import FAILURE, POINT, SCREEN, make_report, make_step_report

from agentserve.core.errors import RecordingError
from agentserve.replay.compare.difference import Difference
from agentserve.replay.junit import MAX_TEXT, junit_xml, write_junit

# Of Jenkins' junit-10.xsd: what an element may hold, in this order, and the attributes it needs.
CHILDREN = {
    "testsuites": ("testsuite",),
    "testsuite": ("properties", "testcase", "system-out", "system-err"),
    "testcase": ("properties", "skipped", "error", "failure", "system-out", "system-err"),
    "properties": ("property",),
}
NEEDED = {
    "testsuite": {"name", "tests", "failures", "errors"},
    "testcase": {"name", "classname", "time"},
    "property": {"name", "value"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
}


def check(element: ElementTree.Element) -> None:
    assert NEEDED.get(element.tag, set()) <= set(element.attrib)
    order = CHILDREN.get(element.tag, ())
    places = [order.index(child.tag) for child in element]
    assert places == sorted(places), f"children of {element.tag} in the order of the schema"
    for child in element:
        check(child)


def parsed(*reports) -> ElementTree.Element:
    root = ElementTree.fromstring(junit_xml(reports))
    check(root)
    return root


def test_a_recording_is_a_test_case_of_its_mode():
    root = parsed(
        make_report(make_step_report(0)),
        make_report(make_step_report(0), make_step_report(1, POINT, SCREEN), name="bad"),
        make_report(make_step_report(0), error=FAILURE, name="broken"),
        make_report(make_step_report(0), mode="browser", name="live", notes=["slow today"]),
    )
    assert root.attrib == {
        "name": "agentserve replay",
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "0",
        "time": "5.000",
    }
    suites = [(suite.get("name"), suite.get("tests")) for suite in root]
    assert suites == [("replay.model", "3"), ("replay.browser", "1")]
    assert (root[0].get("failures"), root[1].get("failures")) == ("1", "0")
    clean, bad, broken, live = root.iter("testcase")
    assert (clean.get("classname"), clean.get("name")) == ("replay.model", "clean")
    assert clean.get("time") == "1.250" and [child.tag for child in clean] == ["properties"]
    failure = bad.find("failure")
    assert failure.get("type") == "action,screen"
    assert failure.get("message") == "1 of 2 steps differ: 1 action, 1 screen"
    assert failure.text.splitlines() == [
        "step 1: click 40 60",
        "  action.point: [40, 60] → [90, 60]",
        "  screen: 2.00% of the screen differs (752 px in 1 region)",
        "    screen.region 100x32 at (12, 8.5): 80% of it differs",
    ]
    error = broken.find("error")
    assert (error.get("type"), error.get("message")) == ("worker_lost", "step 1: the worker died")
    assert error.text.splitlines() == ["step 1: the worker died", "ask again"]
    assert broken.find("failure") is None
    assert live.find("system-out").text == "note: slow today"


def test_what_it_cost_is_in_the_properties():
    root = parsed(make_report(make_step_report(0), make_step_report(1), settings={"worker": "b"}))
    values = {each.get("name"): each.get("value") for each in root.iter("property")}
    assert values["recorded.prompt_tokens"] == values["replayed.prompt_tokens"] == "400"
    assert values["replayed.cached_tokens"] == "200" and values["settings.worker"] == "b"
    assert (values["recording"], values["steps"], values["steps.same"]) == ("clean", "2", "2")


def test_what_xml_cannot_hold_is_taken_out():
    evil = "\x00\x08\x1b[31m]]></failure><failure>&amp;\ufffe\ud800\U0001f600\u2028" + "x" * 99_999
    hostile = Difference(
        comparer="action", field=evil, recorded=evil, replayed=[evil, None], message=evil
    )
    error = FAILURE.model_copy(update={"message": evil, "hint": evil, "code": evil})
    root = parsed(
        make_report(
            make_step_report(0, *[hostile] * 500),
            name=evil,
            task=evil,
            notes=[evil] * 100,
            settings={evil: evil},
        ),
        make_report(make_step_report(0), error=error),
        make_report(differences=[hostile]),
    )
    assert len(list(root.iter("failure"))) == 2 and len(list(root.iter("error"))) == 1
    assert all(len(element.text or "") <= MAX_TEXT for element in root.iter())
    assert "\U0001f600" in root.find(".//testcase").get("name")
    assert b"\x1b" not in junit_xml([make_report(name=evil)])


def test_a_replay_that_found_nothing_to_compare_fails():
    report = make_report().model_copy(update={"same": False})
    (failure,) = parsed(report).iter("failure")
    assert (failure.get("type"), failure.get("message")) == ("incomplete", "0 of 0 steps differ")


def test_no_replays_are_a_document_as_well():
    assert parsed().get("tests") == "0"


def test_the_file_is_written_or_an_error(tmp_path: Path):
    path = tmp_path / "replay.xml"
    write_junit(path, [make_report(make_step_report(0))])
    assert path.read_bytes() == junit_xml([make_report(make_step_report(0))])
    with pytest.raises(RecordingError, match="cannot write"):
        write_junit(tmp_path / "no" / "replay.xml", [])
