"""The policies solve real episodes, judged by the pages' own rewards, with real clicks and keys."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import pytest
from playwright.async_api import Browser

from agentserve.browser.miniwob import page_names
from agentserve.browser.scenarios import Stage, load_scenario, open_scenario
from agentserve.core.actions import action_to_css
from agentserve.core.errors import InvalidRequest
from agentserve.core.screens import screen_space
from agentserve.nano.oracles import TASKS, OracleStep, next_step, to_action

SEEDS = (3, 4, 5)
SAMPLE = (
    "click-link", "click-dialog", "click-widget", "click-shape", "count-sides",
    "click-tab-2", "click-checkboxes", "click-option", "login-user", "login-user-popup",
    "enter-date", "enter-time", "simple-algebra", "scroll-text", "search-engine",
)  # fmt: skip
"""Tasks that between them need every part of the policies."""


def opened(browser: Browser, task: str, seed: int = 3) -> AbstractAsyncContextManager[Stage]:
    return open_scenario(browser, load_scenario(f"miniwob/{task}", seed))


async def follow(stage: Stage, step: OracleStep) -> None:
    space = screen_space(stage.scenario.viewport, stage.scenario.scale, grid=28)
    await stage.computer.screenshot()
    outcome = await stage.computer.perform(action_to_css(to_action(step, space), space))
    assert outcome.status == "ok"


async def solve(stage: Stage, task: str) -> list[OracleStep]:
    """The steps until there are none, at most as many as the scenario allows."""
    steps: list[OracleStep] = []
    while len(steps) < stage.scenario.max_turns:
        step = await next_step(stage.computer.page, task, stage.goal)
        if step is None:
            break
        steps.append(step)
        await follow(stage, step)
    return steps


async def check_solved(browser: Browser, task: str, seed: int) -> None:
    async with opened(browser, task, seed) as stage:
        steps = await solve(stage, task)
        state = await stage.check()
        told = [stage.goal, *(f"{step.thought}: {step.kind} {step.box}" for step in steps)]
        assert (state.done, state.success) == (True, True), (state.reward, told)
        assert await next_step(stage.computer.page, task, stage.goal) is None
    for step in steps:
        assert 0 < len(step.thought.split()) <= 8
        assert "\n" not in step.thought


@pytest.mark.parametrize("task", SAMPLE)
async def test_an_episode_is_solved(browser: Browser, task: str) -> None:
    await check_solved(browser, task, seed=3)


@pytest.mark.soak
@pytest.mark.parametrize("task", TASKS)
async def test_every_task_is_solved(browser: Browser, task: str) -> None:
    for seed in SEEDS:
        await check_solved(browser, task, seed)


async def test_a_field_is_clicked_before_it_is_typed_into(browser: Browser) -> None:
    async with opened(browser, "login-user") as stage:
        steps = await solve(stage, "login-user")
    assert [(step.kind, step.thought) for step in steps] == [
        ("click", "username field"),
        ("type", "type the username"),
        ("click", "password field"),
        ("type", "type the password"),
        ("click", 'button "Login"'),
    ]
    assert f'"{steps[1].text}"' in stage.goal
    assert f'"{steps[3].text}"' in stage.goal


async def test_a_wrong_text_is_replaced(browser: Browser) -> None:
    async with opened(browser, "enter-text") as stage:
        await stage.computer.page.fill("#tt", "wrong")
        await stage.computer.page.evaluate("document.activeElement.blur()")
        steps = await solve(stage, "enter-text")
        assert (await stage.check()).success
    assert [step.kind for step in steps] == ["click", "key", "type", "click"]
    assert steps[1].keys == "Control+a"


async def test_a_wrong_tick_is_taken_back(browser: Browser) -> None:
    async with opened(browser, "click-checkboxes") as stage:
        for tick in await stage.computer.page.locator("#boxes input").all():
            await tick.check()
        await solve(stage, "click-checkboxes")
        assert (await stage.check()).success


@pytest.mark.parametrize(
    ("cover", "box"),
    [
        ("left: 60px; top: 100px", (60, 80, 100, 100)),  # over the lower half
        ("left: 80px; top: 80px", (60, 80, 80, 120)),  # over the right half
    ],
)
async def test_a_box_is_the_part_that_is_not_covered(
    browser: Browser, cover: str, box: tuple[int, ...]
) -> None:
    async with opened(browser, "click-test-2") as stage:
        page = stage.computer.page
        await page.evaluate(
            """cover => {
              subbtn.style = 'position: absolute; left: 60px; top: 80px';
              subbtn2.style = 'position: absolute; ' + cover;
            }""",
            cover,
        )
        step = await next_step(page, "click-test-2", stage.goal)
        assert step is not None and step.box is not None
        assert step.box == pytest.approx(box, abs=5)
        await follow(stage, step)
        assert (await stage.check()).success


async def test_what_cannot_be_reached_gives_no_step(browser: Browser) -> None:
    async with opened(browser, "click-test-2") as stage:
        page = stage.computer.page
        await page.evaluate("subbtn.style = subbtn2.style = 'position: absolute; left: 9px'")
        assert await next_step(page, "click-test-2", stage.goal) is None
        assert (await stage.check()).done is False


async def test_a_task_without_a_policy_is_refused(browser: Browser) -> None:
    async with opened(browser, "click-test") as stage:
        with pytest.raises(InvalidRequest, match="no policy for the task 'bisect-angle'"):
            await next_step(stage.computer.page, "bisect-angle", stage.goal)


def test_the_tasks_are_pages_of_the_package() -> None:
    assert set(TASKS) <= set(page_names())
    assert set(SAMPLE) <= set(TASKS)
    assert len(TASKS) == len(set(TASKS))
