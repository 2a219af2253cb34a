// window.agentserveScreen(): what a person sees on this page, as elements and words in CSS px.
// Only what is really visible counts: inside the viewport and its clipping boxes, drawn, uncovered.
(() => {
  const FIELD_TYPES = new Set(['text', 'search', 'email', 'number', 'tel', 'url', 'date', 'time']);
  const BUTTON_TYPES = new Set(['button', 'submit', 'reset']);
  const SHAPES = new Set(['circle', 'ellipse', 'rect', 'polygon', 'path', 'line', 'text']);
  const MIN_SIDE = 3; // CSS px: less cannot be pointed at
  const MOST_CHARS = 40; // of what is clickable without being a control: more is a text
  const pen = document.createElement('canvas').getContext('2d');

  const tidy = text => (text || '').replace(/\s+/g, ' ').trim();

  const meet = (a, b) => [
    Math.max(a[0], b[0]), Math.max(a[1], b[1]), Math.min(a[2], b[2]), Math.min(a[3], b[3]),
  ];
  const boxOf = rect => [rect.left, rect.top, rect.right, rect.bottom];
  const isEmpty = (box, side) => box[2] - box[0] < side || box[3] - box[1] < side;

  // What the ancestors of an element leave of the viewport.
  class Clips {
    constructor() {
      this.known = new Map();
      this.viewport = [0, 0, innerWidth, innerHeight];
    }

    inside(element) { // the clip for children of element
      if (!element || element === document.body || element === document.documentElement) {
        return this.viewport;
      }
      let clip = this.known.get(element);
      if (clip === undefined) {
        clip = this.inside(element.parentElement);
        const style = getComputedStyle(element);
        if (style.overflowX !== 'visible' || style.overflowY !== 'visible') {
          clip = meet(clip, boxOf(element.getBoundingClientRect()));
        }
        this.known.set(element, clip);
      }
      return clip;
    }
  }

  const drawn = element => element.checkVisibility({
    opacityProperty: true, visibilityProperty: true,
  });

  const uncovered = (element, box) => {
    const hit = document.elementFromPoint((box[0] + box[2]) / 2, (box[1] + box[3]) / 2);
    return hit !== null && (element.contains(hit) || hit.contains(element) && hit.tagName !== 'HTML'
      && hit.tagName !== 'BODY' || element.tagName === 'LABEL' && element.control === hit);
  };

  // The visible part of an element; of one that wraps over lines, its largest line.
  const visibleBox = (element, clips) => {
    if (!drawn(element)) return null;
    let best = null;
    const inline = getComputedStyle(element).display === 'inline';
    const rects = inline ? element.getClientRects() : [element.getBoundingClientRect()];
    for (const rect of rects) {
      const box = meet(boxOf(rect), clips.inside(element.parentElement));
      if (isEmpty(box, MIN_SIDE)) continue;
      if (!best || (box[2] - box[0]) * (box[3] - box[1]) > (best[2] - best[0]) * (best[3] - best[1])) {
        best = box;
      }
    }
    return best && uncovered(element, best) ? best : null;
  };

  const COLOURS = {
    black: [0, 0, 0], white: [255, 255, 255], aqua: [0, 255, 255], cyan: [0, 255, 255],
    blue: [0, 0, 255], gray: [128, 128, 128], grey: [190, 190, 190], green: [0, 128, 0],
    lime: [0, 255, 0], maroon: [128, 0, 0], navy: [0, 0, 128], olive: [128, 128, 0],
    purple: [128, 0, 128], red: [255, 0, 0], silver: [192, 192, 192], teal: [0, 128, 128],
    yellow: [255, 255, 0], fuchsia: [255, 0, 255], magenta: [255, 0, 255], orange: [255, 165, 0],
    pink: [255, 192, 203], brown: [165, 42, 42],
  };
  const NAMES = new Map(Object.entries(COLOURS).map(([name, rgb]) => [rgb.join(), name]));
  // The name of a computed colour; empty for one without a name, or a transparent one.
  const colourName = value => {
    const parts = (value.match(/[\d.]+/g) || []).map(Number);
    if (parts.length < 3 || parts[3] === 0) return '';
    return NAMES.get(parts.slice(0, 3).join()) || '';
  };

  const fieldLabel = input => {
    const named = input.getAttribute('aria-label') || input.placeholder;
    if (named) return tidy(named);
    if (input.labels && input.labels.length) return tidy(input.labels[0].textContent);
    // a label or a text that stands right before it
    for (let node = input.previousSibling; node; node = node.previousSibling) {
      if (node.nodeType === Node.TEXT_NODE && !tidy(node.data)) continue;
      if (node.nodeType === Node.COMMENT_NODE) continue;
      const plain = node.nodeType === Node.TEXT_NODE || /^(LABEL|SPAN|B|P)$/.test(node.tagName);
      return plain ? tidy(node.textContent).replace(/:$/, '') : '';
    }
    return '';
  };

  const shapeName = element => {
    const colour = colourName(getComputedStyle(element).fill);
    let kind = element.tagName;
    if (kind === 'text') kind = tidy(element.textContent);
    if (kind === 'rect') kind = element.getAttribute('width') === element.getAttribute('height')
      ? 'square' : 'rectangle';
    if (kind === 'polygon') {
      const numbers = (element.getAttribute('points').match(/-?[\d.]+/g) || []).length;
      kind = numbers === 6 ? 'triangle' : 'polygon';
    }
    return tidy(`${colour} ${kind}`);
  };

  const INSIDE = 'a, button, input, select, textarea, .alink';
  // Something else to click on: no frame around other things.
  const isClickable = element => {
    if (element.querySelector(INSIDE) || element.ownerDocument.body === element) return false;
    if (element.onclick || element.__onclick) return true; // d3 keeps its handlers under __onclick
    const jq = window.jQuery && window.jQuery._data && window.jQuery._data(element, 'events');
    return Boolean(jq && jq.click);
  };

  const inputRole = element => {
    if (BUTTON_TYPES.has(element.type)) return ['button', tidy(element.value)];
    if (element.type === 'checkbox' || element.type === 'radio') {
      return [element.type, fieldLabel(element) || afterText(element)];
    }
    if (element.type === 'password') return ['password field', fieldLabel(element)];
    if (FIELD_TYPES.has(element.type)) return ['text field', fieldLabel(element)];
    return null;
  };
  const afterText = element => {
    const next = element.nextSibling;
    return next && next.nodeType === Node.TEXT_NODE ? tidy(next.data) : '';
  };

  const BY_TAG = {
    INPUT: inputRole,
    TEXTAREA: element => ['text area', fieldLabel(element)],
    SELECT: element => ['select', fieldLabel(element)],
    OPTION: element => ['option', tidy(element.text)],
    LABEL: element => ['label', tidy(element.textContent)],
    BUTTON: element => element.classList.contains('ui-dialog-titlebar-close')
      ? ['close x', ''] : ['button', tidy(element.textContent)],
  };

  // [role, text] of an element, or null when it is nothing to name.
  const describe = element => {
    const tag = element.tagName;
    const says = element.getAttribute('role');
    if (element.ownerSVGElement) {
      return SHAPES.has(tag) && getComputedStyle(element).fill !== 'none'
        ? ['shape', shapeName(element)] : null;
    }
    if (BY_TAG[tag]) return BY_TAG[tag](element);
    if (element.closest('.ui-tabs-nav') && tag === 'A') return ['tab', tidy(element.textContent)];
    if (says === 'tab' && !element.querySelector('a')) return ['tab', tidy(element.textContent)];
    if (tag === 'A' || element.classList.contains('alink')) {
      return ['link', tidy(element.textContent)];
    }
    if (element.classList.contains('ui-dialog-title')) {
      const title = tidy(element.textContent);
      return title ? ['dialog title', title] : null;
    }
    if (/^H[1-6]$/.test(tag)) return ['heading', tidy(element.textContent)];
    if (!element.firstElementChild && !tidy(element.textContent)) {
      const style = getComputedStyle(element);
      const colour = colourName(style.backgroundColor);
      const side = element.offsetWidth;
      if (colour && side >= 8 && side <= 60 && Math.abs(side - element.offsetHeight) <= 4) {
        return ['colour square', colour];
      }
    }
    const text = tidy(element.textContent);
    return isClickable(element) && text.length <= MOST_CHARS ? ['clickable', text] : null;
  };

  const stateOf = element => {
    const state = {};
    if (element === document.activeElement && element !== document.body) state.focused = true;
    if (element.type === 'checkbox' || element.type === 'radio') state.checked = element.checked;
    else if (element.tagName === 'SELECT') {
      state.value = element.selectedIndex < 0 ? '' : tidy(element.options[element.selectedIndex].text);
    } else if (/^(INPUT|TEXTAREA)$/.test(element.tagName) && !BUTTON_TYPES.has(element.type)) {
      state.value = element.value;
    }
    return state;
  };

  const shown = (text, style) => {
    if (style.textTransform === 'uppercase') return text.toUpperCase();
    if (style.textTransform === 'lowercase') return text.toLowerCase();
    return text;
  };

  const WORD = /\S+/g;
  const round = number => Math.round(number * 100) / 100;

  const addWord = (words, parent, text, top, bottom, edges, clip) => {
    const box = [edges[0], top, edges[edges.length - 1], bottom];
    const seen = meet(box, clip);
    // a word that is cut off cannot be read
    if (seen[2] - seen[0] < 0.8 * (box[2] - box[0]) || seen[3] - seen[1] < 0.7 * (bottom - top)) {
      return;
    }
    if (!(box[2] - box[0] > 0.5) || !uncovered(parent, seen)) return;
    words.push([text, round(top), round(bottom), ...edges.map(round)]);
  };

  // Words of a text node, measured character by character.
  const textWords = (node, words, clips) => {
    const parent = node.parentElement;
    const style = getComputedStyle(parent);
    const range = document.createRange();
    for (const match of node.data.matchAll(WORD)) {
      const edges = [];
      let top = 0;
      let bottom = 0;
      let broken = false;
      for (let i = 0; i < match[0].length; i++) {
        range.setStart(node, match.index + i);
        range.setEnd(node, match.index + i + 1);
        const rect = range.getBoundingClientRect();
        if (i === 0) {
          top = rect.top;
          bottom = rect.bottom;
          edges.push(rect.left);
        }
        broken = broken || Math.abs(rect.top - top) > 2; // it goes on in the next line
        edges.push(rect.right);
      }
      const text = shown(match[0], style);
      if (!broken && text.length === match[0].length) {
        addWord(words, parent, text, top, bottom, edges, clips.inside(parent));
      }
    }
  };

  // Words of a control's value, which is in no text node: laid out as the browser would.
  const valueWords = (element, words, clips) => {
    const style = getComputedStyle(element);
    const isButton = BUTTON_TYPES.has(element.type);
    let value = element.value;
    if (element.tagName === 'SELECT') value = stateOf(element).value;
    else if (!isButton && !value) value = element.placeholder || '';
    else if (element.type === 'password') return;
    if (!value || value.includes('\n') || /^(checkbox|radio)$/.test(element.type)) return;
    value = shown(value, style);
    const rect = element.getBoundingClientRect();
    const number = name => parseFloat(style[name]) || 0;
    pen.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    pen.letterSpacing = style.letterSpacing === 'normal' ? '0px' : style.letterSpacing;
    const inner = rect.left + number('borderLeftWidth') + number('paddingLeft');
    const room = rect.right - number('borderRightWidth') - number('paddingRight') - inner;
    const width = pen.measureText(value).width;
    let left = inner - element.scrollLeft;
    if (isButton) left = inner + (room - width) / 2;
    else if (element.tagName === 'SELECT') left = inner + 4;
    const size = number('fontSize');
    let middle = (rect.top + rect.bottom) / 2;
    if (element.tagName === 'TEXTAREA') {
      if (width > room) return; // it wraps
      middle = rect.top + number('borderTopWidth') + number('paddingTop') + 0.6 * size;
    }
    const clip = meet(clips.inside(element.parentElement), boxOf(rect));
    for (const match of value.matchAll(WORD)) {
      const edges = [];
      for (let i = 0; i <= match[0].length; i++) {
        edges.push(left + pen.measureText(value.slice(0, match.index + i)).width);
      }
      addWord(words, element, match[0], middle - 0.6 * size, middle + 0.6 * size, edges, clip);
    }
  };

  window.agentserveScreen = () => {
    const clips = new Clips();
    const elements = [];
    const words = [];
    const walk = node => {
      if (node.nodeType === Node.TEXT_NODE) {
        if (/\S/.test(node.data)) textWords(node, words, clips);
        return;
      }
      if (node.nodeType !== Node.ELEMENT_NODE || /^(SCRIPT|STYLE|HEAD)$/.test(node.tagName)) return;
      if (!node.checkVisibility({ visibilityProperty: false })) return; // nothing in it is drawn
      const named = describe(node);
      if (named) {
        const box = visibleBox(node, clips);
        if (box) elements.push({ role: named[0], text: named[1], box, ...stateOf(node) });
      }
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(node.tagName)) {
        if (drawn(node)) valueWords(node, words, clips);
        if (node.tagName !== 'SELECT' || node.size < 2) return;
      }
      if (node.tagName !== 'TEXTAREA' && (drawn(node) || node.children.length)) {
        for (const child of node.childNodes) walk(child);
      }
    };
    walk(document.body);
    return { elements, words };
  };
})();
