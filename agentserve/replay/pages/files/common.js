"use strict";
// What all pages share. Every text is hostile: it is only ever set as textContent.
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const MAX_ZOOM = 3;

const byId = (id) => document.getElementById(id);
const count = (value) => value.toLocaleString("en-US");
const percent = (part, whole) => (whole > 0 ? `${Math.round((100 * part) / whole)} %` : "");

// An element with a class and children; strings become text nodes.
function make(name, classes, ...children) {
  const element = document.createElement(name);
  if (classes) element.className = classes;
  element.append(...children.filter((child) => child !== null));
  return element;
}

function duration(ms) {
  if (ms === null) return "–";
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

function panel(title, ...children) {
  return make("section", "panel", make("h3", "", title), ...children);
}

function labelled(name, value) {
  return make("dl", "", make("dt", "", name), make("dd", "", value));
}

function drawFacts(facts) {
  byId("title").textContent = data.title;
  for (const [name, value] of facts) {
    byId("facts").append(make("div", "", make("dt", "", name), make("dd", "", value)));
  }
  byId("facts").hidden = facts.length === 0;
}

// A picture of the page's, or the place where it would be.
function picture(name, classes = "") {
  const source = data.pictures[name];
  if (!source) return make("div", `missing ${classes}`.trim());
  const image = make("img", classes);
  image.src = source;
  image.alt = "";
  image.loading = "lazy";
  return image;
}

function markCurrent(button, current) {
  if (current) button.setAttribute("aria-current", "step");
  else button.removeAttribute("aria-current");
}

// Scrolls a strip sideways, if it must, so that a child of it is seen.
function showIn(strip, child) {
  const [left, width] = [child.offsetLeft - strip.offsetLeft, child.offsetWidth];
  if (left < strip.scrollLeft || left + width > strip.scrollLeft + strip.clientWidth) {
    strip.scrollLeft = left - (strip.clientWidth - width) / 2;
  }
}

const within = (value, length) => Math.min(Math.max(value, 0), Math.max(0, length - 1));

// ---- bars

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

const cacheParts = (usage) => [
  ["cached", usage.cached_tokens, "cached"],
  ["computed", usage.prompt_tokens - usage.cached_tokens, "prefilled"],
];

const promptParts = (usage) => [
  ["visual", usage.visual_tokens, "visual"],
  ["words", usage.prompt_tokens - usage.visual_tokens, "text"],
];

// ---- actions, drawn on a screen of width × height px

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
  return outlined("path", { d: `M${from} L${to} M${wing(0.5)} L${to} L${wing(-0.5)}` });
}

// The marks of an action; none when it has no point. css is the viewport's size.
function actionMarks(action, css, width, height) {
  if (!action || action.x === undefined) return [];
  const scale = [width / css[0], height / css[1]];
  const place = (x, y) => [(x + 0.5) * scale[0], (y + 0.5) * scale[1]];
  const at = place(action.x, action.y);
  const ring = (radius, classes) => outlined("circle", { cx: at[0], cy: at[1], r: radius }, classes);
  const dot = shape("circle", "dot", { cx: at[0], cy: at[1], r: 4 });
  if (action.kind === "drag") return [...arrow(at, place(action.to_x, action.to_y)), dot];
  if (action.kind === "scroll") return [...arrow(at, scrollEnd(action, at, width, height)), dot];
  const marks = ring(13, action.kind === "hover" ? "mark dashed" : "mark");
  if (action.kind === "double_click") marks.push(...ring(20));
  return [...marks, dot];
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

// The size of a picture of that ratio, height by width, in the room that there is.
function fitted(room, css, ratio) {
  const tall = Math.max(320, window.innerHeight * 0.72);
  const width = Math.floor(Math.min(room, css[0] * MAX_ZOOM, tall / ratio));
  return [width, Math.floor(width * ratio)];
}

// Keys act unless they are typed into something, or belong to the browser.
function onKeys(keys) {
  document.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.target.matches("select, textarea, input:not([type=checkbox], [type=range])")) return;
    if (event.target.matches("[type=range]") && /^(Arrow|Home|End)/.test(event.key)) return;
    event.preventDefault();
    act();
  });
}
