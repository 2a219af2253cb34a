// Draws the runs in the data block.
(() => {
  const state = { run: 0, step: 0 };

  function badge(row) {
    if (row.success === true) return make("span", "badge good", "✓ success");
    if (row.success === false) return make("span", "badge bad", "✗ failure");
    return make("span", "badge", row.end === null ? "cut off" : "no check");
  }

  // ---- the page's head and the table of runs

  function drawHead() {
    drawFacts(data.facts);
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
    const size = run.model_size;
    const facts = [
      run.program ? `program ${run.program}` : `recorded by ${run.source}`,
      run.policy ? `policy ${run.policy}` : null,
      run.model ? `model ${run.model}` : null,
      run.scenario && run.scenario.seed !== null ? `seed ${run.scenario.seed}` : null,
      `screen ${run.css.join("×")} px`,
      size && size.join() !== run.css.join() ? `seen as ${size.join("×")} px` : null,
      run.row.end === null ? "cut off before its end" : `end: ${run.row.end}`,
      run.message || null,
      run.row.recording,
    ];
    byId("run-facts").textContent = facts.filter((fact) => fact !== null).join("  ·  ");
    byId("strip").replaceChildren(...run.steps.map(thumb));
  }

  function kindOf(step) {
    if (step.invalid) return "invalid";
    if (step.action) return step.action.kind;
    return step.usage ? "answer" : "nothing";
  }

  function thumb(step, index) {
    const kind = kindOf(step);
    const caption = make("div", "caption", make("b", "", String(step.index)), make("span", "", kind));
    const bar = step.usage ? shares(cacheParts(step.usage)) : null;
    const button = make("button", "thumb", picture(step.picture), caption, bar);
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
    byId("screen").classList.toggle("untaken", Boolean(step) && step.picture === null);
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
    const panels = [actionPanel(step)];
    if (step.text || step.usage) panels.push(answerPanel(step));
    if (step.usage) panels.push(usagePanel(step, run));
    if (step.timings) panels.push(timePanel(step));
    byId("details").replaceChildren(...panels);
    const strip = byId("strip");
    [...strip.children].forEach((button, index) => markCurrent(button, index === state.step));
    showIn(strip, strip.children[state.step]);
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
    if (step.usage === null && step.step_ms !== null) {
      box.append(make("p", "quiet", `took ${duration(step.step_ms)}`));
    }
    return box;
  }

  function answerPanel(step) {
    const box = panel(step.usage ? "The model wrote" : "Beside it was written");
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

  function usagePanel(step, run) {
    const usage = step.usage;
    const box = panel("Prompt");
    box.firstChild.append(make("span", "", `${count(usage.prompt_tokens)} tokens`));
    box.append(...explained(cacheParts(usage), count), ...explained(promptParts(usage), count));
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
    const most = Math.max(1, ...run.steps.map((step) => (step.usage ? step.usage.prompt_tokens : 0)));
    const chart = make("div", "columns");
    run.steps.forEach((step, index) => {
      const { prompt_tokens: prompt, cached_tokens: cached } = step.usage || {
        prompt_tokens: 0,
        cached_tokens: 0,
      };
      const column = make("button", "", make("i", "computed"), make("i", "cached"));
      column.children[0].style.height = `${(100 * (prompt - cached)) / most}%`;
      column.children[1].style.height = `${(100 * cached) / most}%`;
      column.type = "button";
      column.title = `step ${step.index}: ${count(prompt)} tokens, ${count(cached)} cached`;
      column.setAttribute("aria-label", column.title);
      markCurrent(column, index === state.step);
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
      ["browser", Math.max(0, (step.step_ms ?? total) - total), "browser"],
    ];
    box.append(...explained(parts, duration));
    return box;
  }

  function fitScreen() {
    const image = byId("picture");
    const run = data.runs[state.run];
    if (!run || !image.naturalWidth) return;
    const room = byId("screen").parentElement.clientWidth - 2;
    const [width, height] = fitted(room, run.css, image.naturalHeight / image.naturalWidth);
    image.style.width = `${width}px`;
    image.style.height = `${height}px`;
    const overlay = byId("overlay");
    overlay.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const step = run.steps[state.step];
    overlay.replaceChildren(...actionMarks(step && step.action, run.css, width, height));
  }

  // ---- moving about

  function show(run, step) {
    if (data.runs.length === 0) return;
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

  onKeys(KEYS);
  byId("previous").addEventListener("click", KEYS.ArrowLeft);
  byId("next").addEventListener("click", KEYS.ArrowRight);
  byId("picture").addEventListener("load", fitScreen);
  window.addEventListener("resize", fitScreen);
  window.addEventListener("hashchange", fromAddress);

  drawHead();
  fromAddress();
})();
