// What the replay page draws of one replay or one step, whatever is chosen.
const SIDES = ["recorded", "replayed"];

function verdict(replay) {
  if (replay.error) return make("span", "badge bad", `✗ error ${replay.error.code}`);
  if (replay.same) return make("span", "badge good", "✓ the same");
  return make("span", "badge bad", "✗ different");
}

// Empty when something differs.
function stepVerdict(step) {
  if (!step.same) return "";
  return step.compared ? "✓ the same" : "– not compared";
}

function foundBadges(replay) {
  return Object.entries(replay.found).map(([name, number]) =>
    make("span", "badge bad", number > 1 ? `${name} ${number}` : name),
  );
}

function both(was, now) {
  return was === now ? count(was) : `${count(was)} → ${count(now)}`;
}

const texts = (differences) =>
  differences.flatMap((each) => [each.line, ...texts(each.parts)]);

// ---- differences

function tree(differences) {
  const list = make("ul", "tree");
  for (const each of differences) {
    const said = `${each.comparer}: `; // by the badge
    const text = each.line.startsWith(said) ? each.line.slice(said.length) : each.line;
    const line = make("li", "", make("span", "badge bad", each.comparer), text);
    if (each.parts.length > 0) line.append(parts(each.parts));
    list.append(line);
  }
  return list;
}

function parts(differences) {
  const list = make("ul", "");
  for (const each of differences) {
    const line = make("li", "", each.line);
    if (each.parts.length > 0) line.append(parts(each.parts));
    list.append(line);
  }
  return list;
}

// ---- a step's panels

function differencesPanel(step) {
  const box = panel(`Step ${step.index}`);
  if (step.differences.length > 0) box.append(tree(step.differences));
  else box.append(make("p", step.same ? "" : "error", stepVerdict(step) || "✗ different"));
  return box;
}

const decided = (side) =>
  side.invalid ? `no valid action: ${side.invalid.text}` : side.action_text || "no action";

function actionsPanel(step) {
  const pair = make("div", "pair");
  for (const side of SIDES) {
    const tag = side === "recorded" ? "was" : "now";
    pair.append(make("b", tag, side), make("span", "mono", decided(step[side])));
  }
  return panel("Action", pair);
}

function usagePanels(step) {
  return SIDES.filter((side) => step[side].usage).map((side) => {
    const { usage, ms, rebuilt } = step[side];
    const box = panel(`Prompt, ${side}`);
    box.firstChild.append(make("span", "", `${count(usage.prompt_tokens)} tokens`));
    box.append(...explained(cacheParts(usage), count), ...explained(promptParts(usage), count));
    const notes = [
      `${count(usage.sent_tokens)} of the screen's ${count(usage.screen_tokens)} sent`,
      usage.pruned_tokens > 0 ? `${count(usage.pruned_tokens)} pruned` : null,
      usage.freed_tokens > 0 ? `${count(usage.freed_tokens)} freed` : null,
      rebuilt ? "rebuilt from the live tokens" : null,
      ms === null ? null : duration(ms),
    ];
    const said = notes.filter((note) => note !== null).map((note) => make("span", "", note));
    box.append(make("div", "quiet notes", ...said));
    return box;
  });
}

function answerPanels(step) {
  return SIDES.filter((side) => step[side].text).map((side) => {
    const box = panel(`The model wrote, ${side}`);
    box.append(make("pre", "long", step[side].text));
    return box;
  });
}

// ---- on its screens

// Anyone may have written a recording: bits that are none are those of no token.
function bytes(base64) {
  try {
    return atob(base64);
  } catch {
    return "";
  }
}

// What the model had of the screen: one pixel a token, stretched over it.
function heat(tokens) {
  const canvas = make("canvas", "heat");
  [canvas.width, canvas.height] = [tokens.columns, tokens.rows];
  const [sent, live] = [tokens.sent, tokens.live].map(bytes);
  const context = canvas.getContext("2d");
  for (let at = 0; at < tokens.rows * tokens.columns; at++) {
    const bit = (bits) => (bits.charCodeAt(at >> 3) >> (7 - (at & 7))) & 1;
    const [colour, share] = data.tints[2 * bit(sent) + bit(live)];
    context.fillStyle = `rgb(${colour.join(" ")} / ${share})`;
    context.fillRect(at % tokens.columns, Math.floor(at / tokens.columns), 1, 1);
  }
  return canvas;
}

function regions(differences, boxOf, css, width, height) {
  return differences.flatMap((each) => {
    const inside = regions(each.parts, boxOf, css, width, height);
    if (!boxOf(each)) return inside;
    const [x, y, wide, high] = boxOf(each);
    const box = {
      x: (x * width) / css[0] - 2,
      y: (y * height) / css[1] - 2,
      width: (wide * width) / css[0] + 4,
      height: (high * height) / css[1] + 4,
      rx: 3,
    };
    return [shape("rect", "region-back", box), shape("rect", "region", box), ...inside];
  });
}
