// Draws the replays in the data block.
(() => {
  const state = { replay: 0, step: 0, view: "slider", at: 50 };
  const visible = data.replays.map(() => true);

  // ---- the page's head, the filters and the table

  function drawHead() {
    const same = data.replays.filter((replay) => replay.same).length;
    const seconds = data.replays.reduce((sum, replay) => sum + replay.seconds, 0);
    drawFacts([
      ["the same", `${same} of ${data.replays.length}`],
      ["time", duration(1000 * seconds)],
    ]);
    data.replays.forEach((replay, index) => byId("rows").append(tableRow(replay, index)));
    const found = {};
    for (const replay of data.replays) {
      for (const name of Object.keys(replay.found)) found[name] = (found[name] || 0) + 1;
    }
    const errors = data.replays.filter((replay) => replay.error).length;
    const different = data.replays.length - same;
    const kinds = [
      ["all", `all ${data.replays.length}`],
      ["different", `only different (${different})`],
      ["same", `only the same (${same})`],
      ...(errors ? [["error", `errors (${errors})`]] : []),
      ...Object.entries(found).map(([name, number]) => [`of ${name}`, `${name} differs (${number})`]),
    ];
    for (const [value, text] of kinds) {
      const option = make("option", "", text);
      option.value = value;
      byId("kind").append(option);
    }
    byId("legend").textContent = data.legend;
    byId("empty").hidden = data.replays.length > 0;
    byId("replay").hidden = data.replays.length === 0;
  }

  function tableRow(replay, index) {
    const { totals } = replay;
    const name = make("button", "", replay.name);
    name.type = "button";
    const tokens = (field) => both(totals.recorded_usage[field], totals.replayed_usage[field]);
    const line = make(
      "tr",
      "",
      make("td", "", name, make("div", "task", replay.task)),
      make("td", "", verdict(replay)),
      make("td", "", ...foundBadges(replay)),
      make("td", "number", `${count(totals.same)} of ${count(totals.recorded_steps)}`),
      make("td", "number", tokens("prompt_tokens")),
      make("td", "number", tokens("cached_tokens")),
      make("td", "number", duration(1000 * replay.seconds)),
    );
    line.addEventListener("click", () => open(index));
    return line;
  }

  function filter() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const kind = byId("kind").value;
    data.replays.forEach((replay, index) => {
      visible[index] = fits(replay, kind) && words.every((word) => searched(replay).includes(word));
      byId("rows").children[index].hidden = !visible[index];
    });
    const number = visible.filter(Boolean).length;
    byId("shown").textContent = `${number} of ${data.replays.length} shown`;
    byId("none").hidden = number > 0 || data.replays.length === 0;
  }

  function fits(replay, kind) {
    if (kind === "different") return !replay.same;
    if (kind === "same") return replay.same;
    if (kind === "error") return replay.error !== null;
    return kind === "all" || kind.slice(3) in replay.found;
  }

  const searchTexts = new Map();
  function searched(replay) {
    if (!searchTexts.has(replay)) {
      const all = [...replay.differences, ...replay.steps.flatMap((step) => step.differences)];
      const parts = [replay.name, replay.recording, replay.task, replay.mode, ...texts(all)];
      searchTexts.set(replay, parts.join("\n").toLowerCase());
    }
    return searchTexts.get(replay);
  }

  // ---- the selected recording

  function drawReplay() {
    const replay = data.replays[state.replay];
    [...byId("rows").children].forEach((line, index) => {
      line.classList.toggle("chosen", index === state.replay);
      line.querySelector("button").setAttribute("aria-pressed", String(index === state.replay));
    });
    byId("replay-name").replaceChildren(make("span", "", replay.name), verdict(replay));
    byId("replay-task").textContent = replay.task;
    const left = replay.totals.recorded_steps - replay.totals.replayed_steps;
    const facts = [
      `mode ${replay.mode}`,
      replay.program ? `program ${replay.program}` : null,
      ...replay.settings.map(([name, value]) => `${name} ${value}`),
      `screen ${replay.css.join("×")} px`,
      left > 0 ? `${left} not replayed` : null,
      replay.complete ? null : "recording cut off before its end",
      replay.recording,
    ];
    byId("replay-facts").textContent = facts.filter((fact) => fact !== null).join("  ·  ");
    const whole = [tree(replay.differences)];
    if (replay.error) {
      const { index, message, hint } = replay.error;
      const before = replay.steps.length ? "at its end" : "before the first step";
      const where = index === null ? before : `step ${index}`;
      whole.push(make("p", "error", `error, ${where}: ${message}`), make("p", "quiet", hint));
    }
    whole.push(...replay.notes.map((note) => make("p", "quiet", `note: ${note}`)));
    byId("replay-whole").replaceChildren(...whole);
    byId("strip").replaceChildren(...replay.steps.map(thumb));
  }

  function thumb(step, index) {
    const { recorded, replayed } = step;
    const kinds = [...new Set(step.differences.map((each) => each.comparer))];
    const caption = make(
      "div",
      "caption",
      make("b", "", String(step.index)),
      make("span", "", stepVerdict(step).replace("the same", "same") || `✗ ${kinds.join(", ") || "different"}`),
    );
    const bar = replayed.usage ? shares(cacheParts(replayed.usage)) : null;
    const image = picture(replayed.picture || recorded.picture);
    const button = make("button", "thumb", image, caption, bar);
    button.classList.toggle("trouble", !step.same);
    button.type = "button";
    button.title = recorded.action_text || "step";
    button.addEventListener("click", () => show(state.replay, index));
    return button;
  }

  // ---- the selected step

  function drawStep() {
    const { steps } = data.replays[state.replay];
    const step = steps[state.step];
    byId("previous").disabled = state.step === 0;
    byId("next").disabled = state.step >= steps.length - 1;
    byId("screens").parentElement.hidden = !step;
    if (!step) {
      byId("details").replaceChildren(panel("Steps", make("p", "", "Nothing was replayed.")));
      return;
    }
    for (const side of SIDES) drawSide(side, step);
    byId("over").replaceChildren();
    if (step.marks && data.pictures[step.marks]) byId("over").append(picture(step.marks, "marks"));
    byId("over").append(shape("svg", "", {}));
    byId("see-tokens-label").hidden = !step.recorded.tokens && !step.replayed.tokens;
    byId("details").replaceChildren(
      differencesPanel(step),
      actionsPanel(step),
      ...usagePanels(step),
      ...answerPanels(step),
    );
    drawStrip();
  }

  function drawStrip() {
    const strip = byId("strip");
    const only = byId("only").checked;
    const { steps } = data.replays[state.replay];
    [...strip.children].forEach((button, index) => {
      button.hidden = only && steps[index].same && index !== state.step;
      markCurrent(button, index === state.step);
    });
    if (strip.children.length > 0) showIn(strip, strip.children[state.step]);
  }

  function drawSide(side, step) {
    const own = step[side];
    const image = picture(own.picture, "shot");
    if (image.tagName === "IMG") image.alt = `${side} screen at step ${step.index}`;
    else image.textContent = own.picture ? "Left out: the page's limit of pictures." : "No screen.";
    image.addEventListener("load", fit);
    const box = byId(side);
    box.replaceChildren(image);
    if (own.tokens) box.append(heat(own.tokens));
    if (step.marks && data.pictures[step.marks]) box.append(picture(step.marks, "marks"));
    box.append(shape("svg", side, {}));
  }

  // ---- sizes, overlays and the slider

  function fit() {
    const replay = data.replays[state.replay];
    const step = replay && replay.steps[state.step];
    if (!step) return;
    const images = SIDES.map((side) => byId(side).firstChild);
    const loaded = images.find((image) => image.naturalWidth > 0);
    const ratio = loaded
      ? loaded.naturalHeight / loaded.naturalWidth
      : replay.css[1] / replay.css[0];
    const whole = byId("screens").parentElement.clientWidth - 2;
    const room = state.view === "slider" ? whole : Math.floor((whole - 10) / 2);
    const [width, height] = fitted(room, replay.css, ratio);
    for (const image of images) {
      image.style.width = `${width}px`;
      image.style.height = `${height}px`;
    }
    drawOverlays(replay, step, width, height);
    place(state.at);
  }

  function drawOverlays(replay, step, width, height) {
    const size = [replay.css, width, height];
    const marked = (side, boxOf) => {
      const group = shape("g", side, {});
      if (byId("see-regions").checked) group.append(...regions(step.differences, boxOf, ...size));
      if (byId("see-actions").checked) group.append(...actionMarks(step[side].action, ...size));
      return group;
    };
    const fill = (svg, ...groups) => {
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.replaceChildren(...groups);
    };
    const [was, now] = [(each) => each.recorded_box, (each) => each.replayed_box];
    // side by side, what did not move is outlined on both
    fill(byId("recorded").lastChild, marked("recorded", (each) => was(each) || now(each)));
    fill(byId("replayed").lastChild, marked("replayed", now));
    fill(byId("over").lastChild, marked("recorded", was), marked("replayed", now));
    const shown = (selector, box) => {
      const hide = !byId(box).checked;
      for (const each of document.querySelectorAll(selector)) each.hidden = hide;
    };
    shown("#screens .marks", "see-marks");
    shown("#screens .heat", "see-tokens");
    const tokens = byId("see-tokens").checked && !byId("see-tokens-label").hidden;
    byId("legend").hidden = !tokens;
  }

  // The slider's place: percent of the screen, from the left, that show the recorded one.
  function place(at) {
    state.at = Math.min(Math.max(at, 0), 100);
    byId("slider").value = String(state.at);
    byId("divider").style.left = `${state.at}%`;
    byId("replayed").style.clipPath = state.view === "slider" ? `inset(0 0 0 ${state.at}%)` : "";
  }

  function drag(event) {
    const box = byId("screens").getBoundingClientRect();
    place((100 * (event.clientX - box.left)) / box.width);
  }

  function look(view) {
    state.view = view;
    byId("screens").className = view === "slider" ? "screens slider" : "screens together";
    byId("slider").hidden = view !== "slider";
    for (const name of ["slider", "side"]) {
      byId(`view-${name}`).setAttribute("aria-pressed", String(name === view));
    }
    fit();
  }

  // ---- moving about

  function show(replay, step) {
    if (data.replays.length === 0) return;
    const before = state.replay;
    state.replay = within(replay, data.replays.length);
    state.step = within(step, data.replays[state.replay].steps.length);
    if (before !== state.replay || byId("replay-name").children.length === 0) drawReplay();
    drawStep();
    fit();
    history.replaceState(null, "", `#${state.replay}.${state.step}`);
  }

  // A recording is opened where it first differs.
  function open(replay) {
    const first = data.replays[replay].steps.findIndex((step) => !step.same);
    show(replay, Math.max(0, first));
  }

  function neighbour(by) {
    let index = state.replay + by;
    while (index >= 0 && index < data.replays.length && !visible[index]) index += by;
    if (index >= 0 && index < data.replays.length) open(index);
  }

  function nextDifferent() {
    const places = data.replays.flatMap((replay, at) =>
      replay.steps.flatMap((step, index) => (visible[at] && !step.same ? [[at, index]] : [])),
    );
    const after = ([at, index]) =>
      at > state.replay || (at === state.replay && index > state.step);
    const next = places.find(after) || places[0];
    if (next) show(...next);
  }

  function toggle(id) {
    byId(id).checked = !byId(id).checked;
    fit();
  }

  function fromAddress() {
    const found = /^#(\d{1,6})\.(\d{1,6})$/.exec(location.hash);
    if (found) return show(Number(found[1]), Number(found[2]));
    const first = data.replays.findIndex((replay) => !replay.same);
    if (data.replays.length > 0) open(Math.max(0, first));
  }

  const KEYS = {
    ArrowLeft: () => show(state.replay, state.step - 1),
    ArrowRight: () => show(state.replay, state.step + 1),
    Home: () => show(state.replay, 0),
    End: () => show(state.replay, Infinity),
    p: () => neighbour(-1),
    n: () => neighbour(1),
    d: nextDifferent,
    v: () => look(state.view === "slider" ? "side" : "slider"),
    ",": () => place(state.at - 5),
    ".": () => place(state.at + 5),
    r: () => toggle("see-regions"),
    x: () => toggle("see-marks"),
    a: () => toggle("see-actions"),
    k: () => toggle("see-tokens"),
    "/": () => byId("search").focus(),
  };

  onKeys(KEYS);
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Escape") byId("search").blur();
  });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("search").addEventListener("input", filter);
  byId("kind").addEventListener("input", filter);
  byId("previous").addEventListener("click", KEYS.ArrowLeft);
  byId("next").addEventListener("click", KEYS.ArrowRight);
  byId("view-slider").addEventListener("click", () => look("slider"));
  byId("view-side").addEventListener("click", () => look("side"));
  byId("only").addEventListener("input", drawStrip);
  byId("slider").addEventListener("input", () => place(Number(byId("slider").value)));
  for (const id of ["see-regions", "see-marks", "see-actions", "see-tokens"]) {
    byId(id).addEventListener("input", fit);
  }
  byId("screens").addEventListener("pointerdown", (event) => {
    if (state.view !== "slider" || event.button !== 0) return;
    event.preventDefault();
    byId("screens").setPointerCapture(event.pointerId);
    drag(event);
  });
  byId("screens").addEventListener("pointermove", (event) => {
    if (byId("screens").hasPointerCapture(event.pointerId)) drag(event);
  });
  window.addEventListener("resize", fit);
  window.addEventListener("hashchange", fromAddress);

  drawHead();
  filter();
  fromAddress();
  look("slider");
})();
