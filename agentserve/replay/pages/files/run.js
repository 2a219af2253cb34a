"use strict";
// Draws the runs in the data block. Every text is hostile: it is only ever set as textContent.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const MAX_ZOOM = 3;
  const state = { run: 0, step: 0 };

  // An element with a class and children; strings become text nodes.
  function make(name, classes, ...children) {
    const element = document.createElement(name);
    if (classes) element.className = classes;
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  const count = (value) => value.toLocaleString("en-US");
  const percent = (part, whole) => (whole > 0 ? `${Math.round((100 * part) / whole)} %` : "");

  function duration(ms) {
    if (ms === null) return "–";
    return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  }

  function badge(row) {
    if (row.success === true) return make("span", "badge good", "✓ success");
    if (row.success === false) return make("span", "badge bad", "✗ failure");
    return make("span", "badge", row.end === null ? "cut off" : "no check");
  }

  // ---- the page's head and the table of runs

  function drawHead() {
    byId("title").textContent = data.title;
    for (const [name, value] of data.facts) {
      byId("facts").append(make("div", "", make("dt", "", name), make("dd", "", value)));
    }
    byId("facts").hidden = data.facts.length === 0;
    data.runs.forEach((run, index) => byId("rows").append(tableRow(run.row, index)));
    byId("empty").hidden = data.runs.length > 0;
    byId("run").hidden = data.runs.length === 0;
  }

  function tableRow(row, index) {
    const name = make("button", "", row.name);
    name.type = "button";
    const cached = make("td", "number", count(row.cached_tokens));
    cached.append(make("div", "share", percent(row.cached_tokens, row.prompt_tokens)));
    const line = make(
      "tr",
      "",
      make("td", "", name, make("div", "task", row.task)),
      make("td", "", badge(row)),
      make("td", "number", count(row.turns)),
      make("td", "number", count(row.prompt_tokens)),
      cached,
      make("td", "number", duration(row.median_turn_ms)),
    );
    line.addEventListener("click", () => show(index, 0));
    return line;
  }

  // ---- the selected run

  function drawRun() {
    const run = data.runs[state.run];
    [...byId("rows").children].forEach((line, index) => {
      line.classList.toggle("chosen", index === state.run);
      line.querySelector("button").setAttribute("aria-pressed", String(index === state.run));
    });
    byId("run-name").replaceChildren(make("span", "", run.row.name), badge(run.row));
    byId("run-task").textContent = run.row.task;
    const facts = [
      `program ${run.program}`,
      `policy ${run.policy}`,
      run.model ? `model ${run.model}` : null,
      run.scenario && run.scenario.seed !== null ? `seed ${run.scenario.seed}` : null,
      `screen ${run.css.join("×")} px`,
      run.model_size.join() === run.css.join() ? null : `seen as ${run.model_size.join("×")} px`,
      run.row.end === null ? "cut off before its end" : `end: ${run.row.end}`,
      run.message || null,
      run.row.recording,
    ];
    byId("run-facts").textContent = facts.filter((fact) => fact !== null).join("  ·  ");
    byId("strip").replaceChildren(...run.steps.map(thumb));
  }

  function thumb(step, index) {
    const source = data.pictures[step.picture];
    const image = make(source ? "img" : "div", source ? "" : "missing");
    if (source) {
      image.src = source;
      image.alt = "";
      image.loading = "lazy";
    }
    const usage = step.usage;
    const bar = shares([
      ["cached", usage.cached_tokens],
      ["computed", usage.prompt_tokens - usage.cached_tokens],
    ]);
    const kind = step.invalid ? "invalid" : step.action ? step.action.kind : "answer";
    const caption = make("div", "caption", make("b", "", String(step.index)), make("span", "", kind));
    const button = make("button", "thumb", image, caption, bar);
    button.classList.toggle("trouble", step.invalid !== null || step.outcome.status !== "ok");
    button.type = "button";
    button.title = step.action_text || kind;
    button.addEventListener("click", () => show(state.run, index));
    return button;
  }

  // ---- the selected step

  function drawStep() {
    const run = data.runs[state.run];
    const step = run.steps[state.step];
    byId("previous").disabled = state.step === 0;
    byId("next").disabled = state.step >= run.steps.length - 1;
    const source = step && data.pictures[step.picture];
    byId("screen").classList.toggle("missing", Boolean(step) && !source);
    byId("screen").parentElement.hidden = !step;
    if (!step) {
      byId("details").replaceChildren(panel("Steps", make("p", "", "This run has no step.")));
      return;
    }
    byId("address").textContent = step.url;
    if (source) {
      byId("picture").alt = `Screen at step ${step.index}`;
      byId("picture").src = source;
    }
    byId("details").replaceChildren(
      actionPanel(step),
      answerPanel(step),
      usagePanel(step, run),
      timePanel(step),
    );
    [...byId("strip").children].forEach((button, index) => markCurrent(button, index));
    const current = byId("strip").children[state.step];
    const strip = byId("strip");
    const [left, width] = [current.offsetLeft - strip.offsetLeft, current.offsetWidth];
    if (left < strip.scrollLeft || left + width > strip.scrollLeft + strip.clientWidth) {
      strip.scrollLeft = left - (strip.clientWidth - width) / 2;
    }
  }

  function markCurrent(button, index) {
    if (index === state.step) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  }

  function panel(title, ...children) {
    return make("section", "panel", make("h3", "", title), ...children);
  }

  function actionPanel(step) {
    const box = panel(`Step ${step.index}`);
    if (step.invalid) {
      box.append(make("p", "action error", "no valid action"));
      box.append(make("p", "", step.invalid.reason), make("pre", "long", step.invalid.text));
    } else {
      box.append(make("p", "action mono", step.action_text || "no action"));
    }
    const alreadySaid = step.invalid !== null && step.outcome.status === "invalid";
    if (step.outcome.status !== "ok" && !alreadySaid) {
      const text = [step.outcome.status, step.outcome.message].filter(Boolean).join(": ");
      box.append(make("p", "error", text));
    } else if (step.outcome.message && !alreadySaid) {
      box.append(make("p", "quiet", step.outcome.message));
    }
    if (step.instruction) box.append(labelled("instruction", step.instruction));
    if (step.told && (step.told.message || step.told.status !== "ok")) {
      box.append(labelled("told of the last action", `${step.told.status} ${step.told.message}`));
    }
    return box;
  }

  function labelled(name, value) {
    return make("dl", "", make("dt", "", name), make("dd", "", value));
  }

  function answerPanel(step) {
    const box = panel("The model wrote");
    const variables = Object.entries(step.variables);
    if (variables.length === 0) {
      box.append(make("pre", "long", step.text));
      return box;
    }
    const list = make("dl", "long");
    for (const [name, value] of variables) list.append(make("dt", "", name), make("dd", "", value));
    const whole = make("details", "", make("summary", "", "whole text"), make("pre", "", step.text));
    box.append(list, whole);
    return box;
  }

  // A bar of parts, each as wide as its share; parts are [class, value].
  function shares(parts) {
    const bar = make("div", "bar");
    for (const [name, value] of parts) {
      if (value <= 0) continue;
      const part = make("i", name);
      part.style.flex = `${value} 1 0`;
      bar.append(part);
    }
    return bar;
  }

  // The same with its legend; parts are [class, value, label].
  function explained(parts, format) {
    const legend = make("ul", "legend");
    for (const [name, value, label] of parts) {
      legend.append(make("li", "", make("i", name), `${label} ${format(value)}`));
    }
    return [shares(parts), legend];
  }

  function usagePanel(step, run) {
    const usage = step.usage;
    const box = panel("Prompt");
    box.firstChild.append(make("span", "", `${count(usage.prompt_tokens)} tokens`));
    box.append(
      ...explained(
        [
          ["cached", usage.cached_tokens, "cached"],
          ["computed", usage.prompt_tokens - usage.cached_tokens, "prefilled"],
        ],
        count,
      ),
      ...explained(
        [
          ["visual", usage.visual_tokens, "visual"],
          ["words", usage.prompt_tokens - usage.visual_tokens, "text"],
        ],
        count,
      ),
    );
    if (run.steps.length > 1) box.append(columns(run));
    const notes = [
      `${count(usage.completion_tokens)} generated`,
      `${count(usage.prefilled_tokens)} prefilled over all calls`,
      step.move ? `prompt moved: ${step.move}` : null,
      step.attempts > 1 ? `${step.attempts} attempts` : null,
      `worker ${step.worker}`,
    ];
    const said = notes.filter((note) => note !== null).map((note) => make("span", "", note));
    box.append(make("div", "quiet notes", ...said));
    return box;
  }

  // Prompt tokens of every turn of the run, cached below, prefilled above.
  function columns(run) {
    const most = Math.max(1, ...run.steps.map((step) => step.usage.prompt_tokens));
    const chart = make("div", "columns");
    run.steps.forEach((step, index) => {
      const { prompt_tokens: prompt, cached_tokens: cached } = step.usage;
      const column = make("button", "", make("i", "computed"), make("i", "cached"));
      column.children[0].style.height = `${(100 * (prompt - cached)) / most}%`;
      column.children[1].style.height = `${(100 * cached) / most}%`;
      column.type = "button";
      column.title = `step ${step.index}: ${count(prompt)} tokens, ${count(cached)} cached`;
      column.setAttribute("aria-label", column.title);
      markCurrent(column, index);
      column.addEventListener("click", () => show(state.run, index));
      chart.append(column);
    });
    return chart;
  }

  function timePanel(step) {
    const { queue_ms: queue, plan_ms: plan, program_ms: program, total_ms: total } = step.timings;
    const box = panel("Time");
    box.firstChild.append(make("span", "", `${duration(step.step_ms)} a step`));
    const parts = [
      ["queue", queue, "queue"],
      ["plan", plan, "plan"],
      ["program", program, "program and model"],
      ["browser", Math.max(0, step.step_ms - total), "browser"],
    ];
    box.append(...explained(parts, duration));
    return box;
  }

  // ---- the action, drawn on the screen

  function fitScreen() {
    const image = byId("picture");
    const run = data.runs[state.run];
    if (!run || !image.naturalWidth) return;
    const ratio = image.naturalHeight / image.naturalWidth;
    const room = byId("screen").parentElement.clientWidth - 2;
    const tall = Math.max(320, window.innerHeight * 0.72);
    const width = Math.min(room, run.css[0] * MAX_ZOOM, tall / ratio);
    image.style.width = `${Math.floor(width)}px`;
    image.style.height = `${Math.floor(width * ratio)}px`;
    drawAction(run.steps[state.step], run.css, Math.floor(width), Math.floor(width * ratio));
  }

  function shape(name, classes, attributes) {
    const element = document.createElementNS(SVG, name);
    element.setAttribute("class", classes);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  }

  // A mark with a light halo, so that it is seen on any screen.
  function outlined(name, attributes, classes = "mark") {
    return [shape(name, "halo", attributes), shape(name, classes, attributes)];
  }

  function arrow(from, to) {
    const angle = Math.atan2(to[1] - from[1], to[0] - from[0]);
    const wing = (turn) => [to[0] - 13 * Math.cos(angle + turn), to[1] - 13 * Math.sin(angle + turn)];
    const path = `M${from} L${to} M${wing(0.5)} L${to} L${wing(-0.5)}`;
    return outlined("path", { d: path });
  }

  function drawAction(step, css, width, height) {
    const overlay = byId("overlay");
    overlay.setAttribute("viewBox", `0 0 ${width} ${height}`);
    overlay.replaceChildren();
    const action = step && step.action;
    if (!action || action.x === undefined) return;
    const scale = [width / css[0], height / css[1]];
    const place = (x, y) => [(x + 0.5) * scale[0], (y + 0.5) * scale[1]];
    const at = place(action.x, action.y);
    const ring = (radius, classes) =>
      outlined("circle", { cx: at[0], cy: at[1], r: radius }, classes);
    const dot = shape("circle", "dot", { cx: at[0], cy: at[1], r: 4 });
    if (action.kind === "drag") {
      overlay.append(...arrow(at, place(action.to_x, action.to_y)), dot);
    } else if (action.kind === "scroll") {
      overlay.append(...arrow(at, scrollEnd(action, at, width, height)), dot);
    } else {
      overlay.append(...ring(13, action.kind === "hover" ? "mark dashed" : "mark"));
      if (action.kind === "double_click") overlay.append(...ring(20));
      overlay.append(dot);
    }
  }

  // Where the arrow of a scroll ends: its direction, at a length that is seen and stays inside.
  function scrollEnd(action, at, width, height) {
    const length = Math.hypot(action.dx, action.dy);
    if (length === 0) return at;
    const shown = Math.min(Math.max(length, 40), 0.3 * Math.min(width, height));
    const clamp = (value, most) => Math.min(Math.max(value, 6), most - 6);
    return [
      clamp(at[0] + (action.dx / length) * shown, width),
      clamp(at[1] + (action.dy / length) * shown, height),
    ];
  }

  // ---- moving about

  function show(run, step) {
    if (data.runs.length === 0) return;
    const within = (value, length) => Math.min(Math.max(value, 0), Math.max(0, length - 1));
    const before = state.run;
    state.run = within(run, data.runs.length);
    state.step = within(step, data.runs[state.run].steps.length);
    if (before !== state.run || byId("strip").children.length === 0) drawRun();
    drawStep();
    fitScreen();
    history.replaceState(null, "", `#${state.run}.${state.step}`);
  }

  function fromAddress() {
    const place = /^#(\d{1,6})\.(\d{1,6})$/.exec(location.hash);
    show(place ? Number(place[1]) : 0, place ? Number(place[2]) : 0);
  }

  const KEYS = {
    ArrowLeft: () => show(state.run, state.step - 1),
    ArrowRight: () => show(state.run, state.step + 1),
    Home: () => show(state.run, 0),
    End: () => show(state.run, Infinity),
    p: () => state.run > 0 && show(state.run - 1, 0),
    n: () => state.run < data.runs.length - 1 && show(state.run + 1, 0),
  };

  document.addEventListener("keydown", (event) => {
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    event.preventDefault();
    act();
  });
  byId("previous").addEventListener("click", KEYS.ArrowLeft);
  byId("next").addEventListener("click", KEYS.ArrowRight);
  byId("picture").addEventListener("load", fitScreen);
  window.addEventListener("resize", fitScreen);
  window.addEventListener("hashchange", fromAddress);

  drawHead();
  fromAddress();
})();
