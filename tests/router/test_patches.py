"""Screenshots that come as what has changed, through the whole router."""

from __future__ import annotations

import base64
import io
from collections.abc import AsyncIterator

import numpy as np
import pytest

from agentserve.client import RouterClient
from agentserve.core.errors import BadScreenshot, StaleEpoch, UnknownBlob
from agentserve.core.plans import Box
from agentserve.core.screenshots import ScreenRegion, ScreenshotRef
from agentserve.core.sessions import TurnRequest
from agentserve.vision.cells import as_pixels, as_png, identity, part
from agentserve.vision.patches import make_regions

from .rig import VIEWPORT, Rig, new_session, running_rig

BASE = np.random.default_rng(0).integers(0, 256, (VIEWPORT.height, VIEWPORT.width, 3), np.uint8)


def changed(seed: int, box: Box | None = None) -> np.ndarray:
    pixels = BASE.copy()
    where = part(pixels, box or Box(x=11, y=7, width=30, height=20))
    where[:] = np.random.default_rng(seed).integers(0, 256, where.shape, np.uint8)
    return pixels


def ref(base: str, after: np.ndarray, **changes) -> ScreenshotRef:
    regions = [
        ScreenRegion(box=region.box, base64=base64.b64encode(region.png).decode())
        for region in make_regions(BASE, after)
    ]
    fields = {"base": base, "regions": regions, "sha256": identity(after)}
    return ScreenshotRef(**fields | changes)


@pytest.fixture
async def patching(rig: Rig) -> AsyncIterator[RouterClient]:
    async with RouterClient(rig.server.url, patches=True) as client:
        yield client


def sizes(client: RouterClient) -> list[int]:
    """Filled with the bodies' sizes of the requests that the client sends from now on."""
    seen: list[int] = []

    async def look(request) -> None:
        seen.append(len(await request.aread()))

    client._http.event_hooks["request"].append(look)
    return seen


def sent_picture(rig: Rig, session) -> np.ndarray:
    """What the session's worker got last."""
    images = rig.worker_of(session).requests[-1]["image_data"]
    return as_pixels(base64.b64decode(images[-1]))


async def test_a_worker_gets_the_same_picture_either_way(rig: Rig):
    patched, whole = [await rig.client.create_session(new_session()) for _ in range(2)]
    after = changed(1)
    first = await rig.client.turn(patched.id, as_png(BASE))
    request = TurnRequest(screenshot=ref(first.screenshot, after))
    second = await rig.client.turn_json(patched.id, request)
    got = sent_picture(rig, patched)
    await rig.client.turn(whole.id, as_png(after))
    assert (sent_picture(rig, whole) == got).all()
    # what the router has made is a blob like a screenshot, and the next base
    assert (as_pixels(await rig.services.blobs.read("", second.screenshot)) == after).all()
    last = changed(2)
    sent = [
        ScreenRegion(box=region.box, base64=base64.b64encode(region.png).decode())
        for region in make_regions(after, last)
    ]
    third = ref(second.screenshot, last, regions=sent)
    await rig.client.turn_json(patched.id, TurnRequest(screenshot=third, epoch=2))


async def test_a_turn_is_the_same_however_its_screen_is_sent(rig: Rig):
    session = await rig.client.create_session(new_session())
    first = await rig.client.turn(session.id, as_png(BASE))
    after = changed(3)
    request = TurnRequest(screenshot=ref(first.screenshot, after), epoch=1)
    answer = await rig.client.turn_json(session.id, request)
    patched = rig.worker_of(session).requests[-1]["image_data"][-1]
    again = await rig.client.turn_json(session.id, request)
    assert again == answer.model_copy(update={"replayed": True})
    with pytest.raises(StaleEpoch):
        await rig.client.turn(session.id, as_png(changed(4)), epoch=1)
    other = await rig.client.create_session(new_session())
    await rig.client.turn(other.id, as_png(BASE))
    whole = await rig.client.turn(other.id, as_png(after), epoch=1)
    assert (whole.screenshot, whole.text) == (answer.screenshot, answer.text)
    assert rig.worker_of(other).requests[-1]["image_data"][-1] == patched


async def test_regions_may_be_blobs(rig: Rig):
    session = await rig.client.create_session(new_session())
    first = await rig.client.turn(session.id, as_png(BASE))
    after = changed(5)
    regions = [
        ScreenRegion(box=region.box, blob=await rig.client.put_blob(region.png))
        for region in make_regions(BASE, after)
    ]
    request = TurnRequest(screenshot=ref(first.screenshot, after, regions=regions))
    await rig.client.turn_json(session.id, request)
    lost = [regions[0].model_copy(update={"blob": "0" * 64})]
    with pytest.raises(UnknownBlob):
        await rig.client.turn_json(
            session.id, TurnRequest(screenshot=ref(first.screenshot, after, regions=lost))
        )


async def test_what_cannot_be_patched_changes_nothing(rig: Rig):
    session = await rig.client.create_session(new_session())
    first = await rig.client.turn(session.id, as_png(BASE))
    after, good = changed(6), ref(first.screenshot, changed(6))
    junk = await rig.client.put_blob(b"no picture")
    used = await rig.services.store.ledger.used("")
    region = good.regions[0]
    outside = region.model_copy(update={"box": Box(x=999, y=0, width=30, height=20)})
    not_base64 = region.model_copy(update={"base64": "%%%"})
    for error, wrong in (
        (UnknownBlob, ref("0" * 64, after)),
        (BadScreenshot, ref(junk, after)),
        (BadScreenshot, ref(first.screenshot, after, regions=[outside])),
        (BadScreenshot, ref(first.screenshot, after, regions=[not_base64])),
        (BadScreenshot, ref(first.screenshot, after, sha256="0" * 64)),
        (BadScreenshot, ref(first.screenshot, after, regions=[])),
    ):
        with pytest.raises(error):
            await rig.client.turn_json(session.id, TurnRequest(screenshot=wrong))
    assert (await rig.client.session(session.id)).turns == 1
    assert await rig.services.store.ledger.used("") == used
    await rig.client.turn_json(session.id, TurnRequest(screenshot=good))


@pytest.mark.parametrize(
    "body",
    [
        {"base": "0" * 64},
        {"sha256": "0" * 64},
        {"base": "0" * 64, "sha256": "0" * 64, "base64": "AA=="},
        {"base": "../../etc/passwd", "sha256": "0" * 64},
        {"blob": "0" * 64, "regions": [{"box": {"x": 0, "y": 0, "width": 1, "height": 1}}]},
        {"base": "0" * 64, "sha256": "0" * 64, "regions": [{"box": {}}] * 300},
        {
            "base": "0" * 64,
            "sha256": "0" * 64,
            "regions": [
                {"box": {"x": -1, "y": 0, "width": 1, "height": 1}, "base64": "", "blob": None}
            ],
        },
    ],
)
async def test_bodies_that_are_no_patch_are_refused(rig: Rig, body):
    session = await rig.client.create_session(new_session())
    answer = await rig.http.post(f"/v1/sessions/{session.id}/turns", json={"screenshot": body})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


async def test_regions_by_name_are_counted_before_they_are_read(tmp_path):
    async with running_rig(tmp_path, max_screenshot_bytes=200_000) as rig:
        session = await rig.client.create_session(new_session())
        first = await rig.client.turn(session.id, as_png(BASE))
        large = await rig.client.put_blob(bytes(150_000))
        region = ScreenRegion(box=Box(x=0, y=0, width=1, height=1), blob=large)
        wrong = ref(first.screenshot, BASE, regions=[region] * 2)
        with pytest.raises(BadScreenshot, match="more than 200000 bytes"):
            await rig.client.turn_json(session.id, TurnRequest(screenshot=wrong))


# the client


async def test_the_client_sends_what_has_changed(rig: Rig, patching: RouterClient):
    session = await patching.create_session(new_session())
    seen = sizes(patching)
    whole = as_png(BASE)
    await patching.turn(session.id, whole)
    for seed in (1, 2, 3):
        result = await patching.turn(
            session.id, as_png(changed(seed)), epoch=seed, instruction="go on"
        )
        assert result.turn == seed
        picture = await rig.services.blobs.read("", result.screenshot)
        assert (as_pixels(picture) == changed(seed)).all()
    assert seen[0] > len(whole) and max(seen[1:]) < len(whole) / 10
    await patching.turn(session.id, as_png(changed(3)))  # the same again: next to nothing
    assert seen[-1] < 300


async def test_the_client_sends_the_whole_when_the_router_has_forgotten(
    rig: Rig, patching: RouterClient
):
    session = await patching.create_session(new_session())
    first = await patching.turn(session.id, as_png(BASE))
    seen = sizes(patching)
    blobs = rig.services.blobs
    blobs._fresh.clear()
    await blobs._backend.remove("", first.screenshot)
    answer = await patching.turn(session.id, as_png(changed(7)), epoch=1)
    assert answer.turn == 1 and not answer.replayed
    assert len(seen) == 2 and seen[1] > seen[0]


async def test_the_client_leaves_pictures_that_it_cannot_read_to_the_router(
    patching: RouterClient,
):
    session = await patching.create_session(new_session())
    with pytest.raises(BadScreenshot, match="not a PNG"):
        await patching.turn(session.id, b"no picture")
    out = io.BytesIO(as_png(BASE))
    assert (await patching.turn(session.id, out.getvalue())).turn == 0
