// What the policies share. A policy looks at the page as it is and names the next step; it changes
// nothing. Boxes are [left, top, right, bottom] in CSS px of the viewport.

const POLICIES = {};
const LABEL_CHARS = 20;
const ENOUGH_PX = 8; // so much of an element's height in view is enough to click it
const PAGE = 0.7; // the part of a frame by which one scrolls through it

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);
const textOf = element => element.textContent.replace(/\s+/g, ' ').trim();
const quoted = goal => [...goal.matchAll(/"([^"]*)"/g)].map(match => match[1]);
const named = (role, label) => `${role} "${label.slice(0, LABEL_CHARS)}"`;
const withText = (selector, text) => all(selector).find(element => textOf(element) === text);

// --- boxes ---------------------------------------------------------------------------------------

const intersect = (a, b) => [
  Math.max(a[0], b[0]), Math.max(a[1], b[1]), Math.min(a[2], b[2]), Math.min(a[3], b[3]),
];
const boxOf = rect => [rect.left, rect.top, rect.right, rect.bottom];

// The first line of what wraps.
const fullBox = element => boxOf(element.getClientRects()[0] || element.getBoundingClientRect());

// The first line of its text: what stands in a block may be much narrower.
function textBox(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  return boxOf(range.getClientRects()[0]);
}

// Without what the viewport and scrolling ancestors cut off.
function clip(box, element) {
  box = intersect(box, [0, 0, innerWidth, innerHeight]);
  for (let parent = element.parentElement; parent; parent = parent.parentElement) {
    if (parent === document.body || parent === document.documentElement) break;
    if (getComputedStyle(parent).overflow !== 'visible') {
      box = intersect(box, boxOf(parent.getBoundingClientRect()));
    }
  }
  return box;
}

// Positions between two edges, `step` px apart or a little less.
function positions(low, high, inset, step) {
  const from = low + Math.min(inset, (high - low) / 4);
  const length = high - low - 2 * (from - low);
  const count = Math.max(1, Math.ceil(length / step));
  return Array.from({length: count + 1}, (_, i) => from + i * length / count);
}

// The part of a box that a click on the element reaches: all of it (rounded corners apart), or
// where something covers it or it is no rectangle, the largest rectangle inside. Null for none.
function reachable(element, box) {
  const grid = (inset, step) => [
    positions(box[0], box[2], inset, step), positions(box[1], box[3], inset, step),
  ];
  const hits = ([xs, ys]) => ys.map(
    y => xs.map(x => element.contains(document.elementFromPoint(x, y)))
  );
  if (hits(grid(3, 2)).every(row => row.every(Boolean))) return box;
  const fine = grid(0.5, 1);
  return largest(hits(fine), ...fine);
}

// The largest rectangle of hits; of equally large ones, the one nearest to the middle.
function largest(hits, xs, ys) {
  const middle = [(xs[0] + xs[xs.length - 1]) / 2, (ys[0] + ys[ys.length - 1]) / 2];
  let best = null;
  const consider = box => {
    const area = (box[2] - box[0]) * (box[3] - box[1]);
    const off = Math.hypot((box[0] + box[2]) / 2 - middle[0], (box[1] + box[3]) / 2 - middle[1]);
    const better = !best || area > best.area + 0.01 || (area > best.area - 0.01 && off < best.off);
    if (area > 0 && better) best = {box, area, off};
  };
  for (let top = 0; top < ys.length; top++) {
    const open = xs.map(() => true);
    for (let bottom = top; bottom < ys.length; bottom++) {
      for (let i = 0; i < xs.length; i++) open[i] = open[i] && hits[bottom][i];
      for (let left = 0, i = 0; i <= xs.length; i++) {
        if (i < xs.length && open[i]) continue;
        if (i > left) consider([xs[left], ys[top], xs[i - 1], ys[bottom]]);
        left = i + 1;
      }
    }
  }
  return best && best.box;
}

// --- steps ---------------------------------------------------------------------------------------

const step = (kind, fields) => (
  {kind, box: null, text: '', keys: '', dx: 0, dy: 0, thought: '', ...fields}
);
const press = (keys, thought) => step('key', {keys, thought});
const type = (text, thought) => step('type', {text, thought});

function scroller(element) {
  for (let parent = element.parentElement; parent; parent = parent.parentElement) {
    const scrolls = ['auto', 'scroll'].includes(getComputedStyle(parent).overflowY);
    if (scrolls && parent.scrollHeight > parent.clientHeight) return parent;
  }
  return null;
}

// A click on the element, or on the part of it that `full` is; where its frame does not show it, a
// turn of the wheel towards it (how far away it is, the screen does not tell). Null when there is
// no such element, or no way to reach it.
function click(element, thought, full = element && fullBox(element)) {
  if (!element) return null;
  const inView = clip(full, element);
  if (inView[3] - inView[1] > Math.min(ENOUGH_PX, full[3] - full[1]) - 0.5) {
    const box = reachable(element, inView);
    return box && step('click', {box, thought});
  }
  const frame = scroller(element);
  if (!frame) return null;
  const view = clip(boxOf(frame.getBoundingClientRect()), frame);
  const down = full[1] + full[3] > view[1] + view[3];
  const dy = Math.round(PAGE * (view[3] - view[1])) * (down ? 1 : -1);
  return step('scroll', {box: view, dy, thought: down ? 'scroll down' : 'scroll up'});
}

window.agentserveOracle = (task, goal) => (WOB_DONE_GLOBAL ? null : POLICIES[task](goal));
