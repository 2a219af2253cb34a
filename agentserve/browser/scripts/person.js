// Tells what a person does on a page. Runs in an isolated world of every frame, before the page's
// own scripts: the page cannot see it, call `tell`, or make up an event that counts.
//
// `begin` is told when something begins that a page may answer at once (a button goes down, a first
// key, a first turn of the wheel), the rest when it is complete. Points are CSS px of the viewport.
(element_at, tell) => {
  if (globalThis.agentservePerson) return;  // this document has been told about already
  globalThis.agentservePerson = true;

  const DRAG_PX = 6;
  const WHEEL_MS = 300;    // without a turn of the wheel: the scrolling is over
  const TYPING_MS = 700;   // without a key: the text is told as far as it is
  const POINTER_MS = 60;   // between two tellings of where the pointer is, while it moves
  const LINE_PX = 40;      // of wheels that count lines
  const EDITING = new Set(['Backspace', 'Delete', 'ArrowLeft', 'ArrowRight', 'Home', 'End']);
  const TEXT_SHORTCUTS = new Set(['a', 'c', 'v', 'x', 'y', 'z']);
  // What the browser itself does with them is told by its history and its tabs.
  const BROWSER_KEYS = new Set(['Alt+ArrowLeft', 'Alt+ArrowRight', 'Control+l', 'Control+r',
    'Control+t', 'Control+w', 'Control+n', 'Control+Shift+r', 'F5', 'Control+F5', 'Meta+r',
    'Meta+l', 'Meta+t', 'Meta+w', 'Control+q', 'Meta+q']);
  const SET = 'select, input[type=range], input[type=color], input[type=date], input[type=time], '
    + 'input[type=month], input[type=week], input[type=datetime-local]';
  const NO_TEXT = 'input[type=checkbox], input[type=radio], input[type=button], '
    + 'input[type=submit], input[type=reset], input[type=image], input[type=file], ' + SET;

  const PASSWORD = 'input[type=password], [autocomplete~="current-password"], '
    + '[autocomplete~="new-password"]';
  const MOST_PASSING = 100;  // values of a password field that are told with what it came to
  const LONGEST_PASSING = 64;

  // Fields that were one once: a page may show what is in them, or put another one in their place.
  const passwords = new WeakSet(), password_names = new Set(), told_of = new WeakMap();
  let pressed = null, wheel = null, wheel_timer = 0, typing = null, typing_timer = 0;

  // Of this frame's left upper corner in the viewport; null where another origin is in between.
  function corner() {
    let x = 0, y = 0;
    for (let window = globalThis; window !== window.top; window = window.parent) {
      let frame = null;
      try { frame = window.frameElement; } catch { /* another origin */ }
      if (!frame) return null;
      const box = frame.getBoundingClientRect();
      const style = frame.ownerDocument.defaultView.getComputedStyle(frame);
      x += box.left + frame.clientLeft + parseFloat(style.paddingLeft);
      y += box.top + frame.clientTop + parseFloat(style.paddingTop);
    }
    return {x, y};
  }

  function place(event) {
    const from = corner();
    return from && {
      x: Math.max(0, Math.round(event.clientX + from.x)),
      y: Math.max(0, Math.round(event.clientY + from.y)),
    };
  }

  // Where the pointer is: [x, y], or 'outside'; null in a frame of another origin.
  function pointer_of(event) {
    const from = corner();
    if (!from) return null;
    const x = Math.floor(event.clientX + from.x), y = Math.floor(event.clientY + from.y);
    const {innerWidth, innerHeight} = globalThis.top;
    return x < 0 || y < 0 || x >= innerWidth || y >= innerHeight ? 'outside' : [x, y];
  }

  let pointer_timer = 0, untold_pointer;
  function pointed(at) {
    untold_pointer = at;
    if (!pointer_timer) tell_pointer();
  }
  function tell_pointer() {
    pointer_timer = 0;
    if (untold_pointer === undefined) return;
    tell({kind: 'pointer', at: untold_pointer});
    untold_pointer = undefined;
    pointer_timer = setTimeout(tell_pointer, POINTER_MS);
  }

  const look = point => element_at(point.x, point.y, globalThis.top.document);
  const deepest = event => event.composedPath()[0];
  const is_element = node => node instanceof Element;

  const target_of = element => element_at(0, 0, globalThis.top.document, element);

  function takes_text(element) {
    return is_element(element) && ((element.matches('input, textarea') && !element.matches(NO_TEXT))
      || element.isContentEditable);
  }
  const value_of = element => element.isContentEditable ? element.innerText : element.value;

  function is_password(element) {
    const named = [element.id, element.getAttribute('name')].filter(Boolean);
    if (element.matches(PASSWORD)
      || !['none', '', undefined].includes(getComputedStyle(element).webkitTextSecurity)) {
      passwords.add(element);
      named.forEach(name => password_names.add(name));
    }
    return passwords.has(element) || named.some(name => password_names.has(name));
  }

  function flush_typing() {
    clearTimeout(typing_timer);
    if (!typing) return;
    const {element, before, typed, target, secret, passing} = typing;
    const value = value_of(element);
    typing = null;
    if (secret) told_of.set(element, value);
    if (value !== before) {
      tell({kind: 'typed', text: value === before + typed ? typed : null, value, secret, passing,
        target});
    } else if (passing.length) {
      tell({kind: 'held', value: null, passing, target});
    }
  }

  // What stands in password fields that nobody has typed into: a browser fills them, too.
  function tell_held() {
    for (const element of [...document.querySelectorAll('input[type=password]')].slice(0, 50)) {
      const value = element.value;
      if (!value || value === element.defaultValue || typing?.element === element
        || told_of.get(element) === value) continue;
      told_of.set(element, value);
      is_password(element);
      tell({kind: 'held', value, passing: [], target: target_of(element)});
    }
  }

  function flush_wheel() {
    clearTimeout(wheel_timer);
    if (wheel) tell({kind: 'scroll', ...wheel});
    wheel = null;
  }

  function flush() {
    flush_typing();
    tell_held();
    flush_wheel();
  }

  const on = (type, listener) => addEventListener(type, event => {
    if (event.isTrusted) listener(event);
  }, {capture: true, passive: true});

  on('mousemove', event => pointed(pointer_of(event)));
  on('mouseover', event => pointed(pointer_of(event)));
  on('mouseout', event => {
    if (globalThis === globalThis.top && !event.relatedTarget) pointed('outside');
  });

  on('mousedown', event => {
    flush();
    tell({kind: 'begin'});
    const point = place(event);
    const element = deepest(event);
    pressed = {point, button: event.button, element, target: point && look(point)};
  });

  on('mouseup', event => {
    const from = pressed, to = place(event);
    pressed = null;
    if (!from || from.button !== event.button) return;
    if (!from.point || !to) {
      tell({kind: 'unsupported', what: 'a click in a frame of another origin'});
      return;
    }
    if (is_element(from.element) && from.element.closest(SET)) return;  // told when it is set
    if (event.button > 2) {
      tell({kind: 'unsupported', what: `a click with button ${event.button}`});
    } else if (Math.hypot(to.x - from.point.x, to.y - from.point.y) >= DRAG_PX) {
      if (event.button === 0) {
        tell({kind: 'drag', ...from.point, to_x: to.x, to_y: to.y, target: from.target,
          to_target: look(to)});
      } else {
        tell({kind: 'unsupported', what: 'a drag with another button than the left one'});
      }
    } else {
      tell({kind: 'click', ...from.point, button: ['left', 'middle', 'right'][event.button],
        count: Math.max(1, Math.min(3, event.detail)), target: from.target});
    }
  });

  on('wheel', event => {
    const point = place(event);
    if (!point) return;
    if (!wheel) {
      flush_typing();
      tell({kind: 'begin'});
      // no target: the page may have been scrolled already when its scripts hear of the wheel
      wheel = {...point, dx: 0, dy: 0};
    }
    const unit = event.deltaMode === 0 ? 1 : LINE_PX;
    wheel.dx += Math.round(event.deltaX * unit);
    wheel.dy += Math.round(event.deltaY * unit);
    clearTimeout(wheel_timer);
    wheel_timer = setTimeout(flush_wheel, WHEEL_MS);
  });

  on('focusin', event => {
    const element = deepest(event);
    if (is_element(element)) is_password(element);
  });

  on('beforeinput', event => {
    const element = deepest(event);
    if (!takes_text(element)) return;
    if (typing && typing.element !== element) flush_typing();
    if (!typing) {
      flush_wheel();
      tell({kind: 'begin'});
      typing = {element, before: value_of(element), typed: '', target: target_of(element),
        secret: is_password(element), passing: []};
    }
  });

  on('input', event => {
    if (!typing || deepest(event) !== typing.element) return;
    typing.typed += event.data
      ?? (['insertLineBreak', 'insertParagraph'].includes(event.inputType) ? '\n' : '');
    // a page may send what is in the field at each key
    const value = typing.secret ? value_of(typing.element) : '';
    if (value && value.length <= LONGEST_PASSING && typing.passing.length < MOST_PASSING) {
      typing.passing.push(value);
    }
    clearTimeout(typing_timer);
    typing_timer = setTimeout(flush_typing, TYPING_MS);
  });

  on('change', event => {
    const element = deepest(event);
    if (!is_element(element)) return;
    if (element.matches('input[type=file]')) {
      tell({kind: 'unsupported', what: 'a file was chosen'});
    } else if (element.matches(SET)) {
      flush();
      tell({kind: 'set', value: element.value, target: target_of(element)});
    } else {
      flush_typing();
    }
  });
  on('focusout', flush_typing);
  on('submit', flush);

  on('keydown', event => {
    if (event.isComposing || ['Control', 'Shift', 'Alt', 'Meta', 'AltGraph'].includes(event.key)) {
      return;
    }
    const writing = takes_text(deepest(event)), command = event.ctrlKey || event.metaKey;
    const printable = event.key.length === 1 && !command && !event.altKey;
    if (writing) {
      if (printable || EDITING.has(event.key)) return;  // told by what is in the field
      if (command && TEXT_SHORTCUTS.has(event.key.toLowerCase())) return;
      const lines = deepest(event).matches('textarea') || deepest(event).isContentEditable;
      if (event.key === 'Enter' && lines && !command) return;
    }
    if (is_element(deepest(event)) && deepest(event).matches(SET)
      && !['Enter', 'Tab', 'Escape'].includes(event.key)) return;  // told when it is set
    const held = [['Control', event.ctrlKey], ['Shift', event.shiftKey && !printable],
      ['Alt', event.altKey], ['Meta', event.metaKey]].filter(pair => pair[1]).map(pair => pair[0]);
    const key = event.key === ' ' ? 'Space'
      : event.key.length === 1 && !printable ? event.key.toLowerCase() : event.key;
    const keys = [...held, key].join('+');
    if (BROWSER_KEYS.has(keys)) return;
    flush();
    tell({kind: 'begin'});
    tell({kind: 'key', keys});
  });

  addEventListener('pagehide', flush, {capture: true});
}
