// The element at a point of the viewport, and ways to find it again. Runs in an isolated world: the
// page cannot change what is called here, only the elements that are looked at. All work is bounded.
// `given` is looked at instead of the element at the point.
(x, y, document = globalThis.document, given = null) => {
  const MOST_LEVELS = 8;       // frames and shadow roots in one another
  const MOST_ANCESTORS = 60;   // of a path
  const MOST_CANDIDATES = 2000;
  const MOST_NODES = 20000;
  const MOST_CHARACTERS = 200; // of a text, a name

  const INTERACTIVE = 'button, a[href], summary, select, option, [role=button], [role=link], '
    + '[role=menuitem], [role=tab], [role=checkbox], [role=radio], [role=switch], [role=option]';
  const ROLES = {
    button: 'button, input[type=button], input[type=submit], input[type=reset], input[type=image]',
    link: 'a[href], area[href]',
    checkbox: 'input[type=checkbox]',
    radio: 'input[type=radio]',
    slider: 'input[type=range]',
    spinbutton: 'input[type=number]',
    searchbox: 'input[type=search]:not([list])',
    textbox: 'input:not([type]):not([list]), input[type=text]:not([list]), '
      + 'input[type=email]:not([list]), input[type=tel]:not([list]), '
      + 'input[type=url]:not([list]), textarea',
    combobox: 'select:not([multiple]):not([size]), input[list]',
    img: 'img[alt]',
    heading: 'h1, h2, h3, h4, h5, h6',
    option: 'option',
  };
  const NAMED_BY_CONTENT = new Set(['button', 'link', 'heading', 'option', 'tab', 'menuitem',
    'checkbox', 'radio', 'switch', 'cell', 'columnheader', 'rowheader', 'treeitem', 'tooltip']);

  // Ends a text that was cut. A way to an element is never made of one; what people read ends with
  // an ellipsis, before which a recording looks for the first part of a secret.
  const CUT = '\uffff';
  const cut = (text, most) => text.length > most ? text.slice(0, most) + CUT : text;
  const squeeze = text => cut(text, 20 * MOST_CHARACTERS).replace(/\s+/g, ' ').trim();
  const shortened = text => cut(text, MOST_CHARACTERS - 1).split(CUT)[0]
    + (text.length >= MOST_CHARACTERS || text.includes(CUT) ? '…' : '');
  const quoted = text => `"${CSS.escape(text)}"`;
  const document_of = root => root.ownerDocument ?? root;

  function pseudo(element, which) {
    const content = getComputedStyle(element, which).content;
    return /^".*"$/s.test(content) ? content.slice(1, -1) : '';
  }

  // What the element's content adds to an accessible name, bounded by `left` nodes.
  function content(element, left) {
    let text = pseudo(element, '::before');
    for (const node of element.childNodes) {
      if (left.nodes-- <= 0) break;
      if (node.nodeType === Node.TEXT_NODE) text += cut(node.data, MOST_CHARACTERS * 2);
      if (node.nodeType !== Node.ELEMENT_NODE) continue;
      const style = getComputedStyle(node);
      if (style.display === 'none' || style.visibility !== 'visible') continue;
      if (node.getAttribute('aria-hidden') === 'true') continue;
      const inner = node.getAttribute('aria-label') || node.getAttribute('alt')
        || content(node, left);
      text += style.display === 'inline' ? inner : ` ${inner} `;
    }
    return text + pseudo(element, '::after');
  }
  const content_of = element => squeeze(content(element, {nodes: 200}));

  function role_of(element) {
    const role = element.getAttribute('role')?.trim().split(/\s+/)[0];
    if (role) return role;
    return Object.keys(ROLES).find(key => element.matches(ROLES[key])) ?? '';
  }

  function name_of(element, role, root) {
    const by = element.getAttribute('aria-labelledby');
    if (by) {
      const parts = by.split(/\s+/).slice(0, 8).map(id => root.getElementById(id));
      return squeeze(parts.filter(Boolean).map(content_of).join(' '));
    }
    const label = squeeze(element.getAttribute('aria-label') ?? '');
    if (label) return label;
    if (element.labels?.length) return squeeze([...element.labels].map(content_of).join(' '));
    if (element.matches('input[type=button], input[type=submit], input[type=reset]')) {
      const given = {submit: 'Submit', reset: 'Reset'}[element.type] ?? '';
      return squeeze(element.getAttribute('value') ?? given);
    }
    const alternative = squeeze(element.getAttribute('alt') ?? '');
    if (alternative && element.matches('img, area, input')) return alternative;
    if (NAMED_BY_CONTENT.has(role)) {
      const inner = content_of(element);
      if (inner) return inner;
    }
    const title = squeeze(element.getAttribute('title') ?? '');
    return title || squeeze(element.getAttribute('placeholder') ?? '');
  }

  function is_only(root, selector) {
    const found = root.querySelectorAll(selector);
    return found.length === 1;
  }

  function by_test_id(element, root) {
    const id = element.getAttribute('data-testid');
    return id && is_only(root, `[data-testid=${quoted(id)}]`) ? {engine: 'test_id', value: id} : null;
  }

  function by_role(element, root) {
    const role = role_of(element);
    const name = role && name_of(element, role, root);
    if (!name || name.length > MOST_CHARACTERS || name.includes(CUT)) return null;
    const like = [`[role=${quoted(role)}]`, ROLES[role]].filter(Boolean).join(', ');
    const candidates = root.querySelectorAll(like);
    if (candidates.length > MOST_CANDIDATES) return null;
    for (const other of candidates) {
      if (other !== element && role_of(other) === role && name_of(other, role, root) === name) {
        return null;
      }
    }
    return {engine: 'aria', value: name, role};
  }

  // Ids with long numbers or hashes in them are made anew each time the page is.
  const is_stable = id => /^[A-Za-z][\w-]{0,63}$/.test(id) && !/\d{3}|[0-9a-f]{8}/.test(id);

  function by_id(element, root) {
    const selector = `#${CSS.escape(element.id)}`;
    return is_stable(element.id) && is_only(root, selector)
      ? {engine: 'css', value: selector} : null;
  }

  function by_name(element, root) {
    const name = element.getAttribute('name');
    if (!name || name.length > MOST_CHARACTERS) return null;
    let selector = `${CSS.escape(element.localName)}[name=${quoted(name)}]`;
    if (element.type === 'radio') selector += `[value=${quoted(element.value)}]`;
    return is_only(root, selector) ? {engine: 'css', value: selector} : null;
  }

  // Only text that stands in one piece in the element itself: the smallest element that shows it.
  function by_text(element, root) {
    if (element.childElementCount || element.matches('input, textarea, select, option')) return null;
    const text = squeeze(element.textContent);
    if (!text || text.length > 80 || text.includes(CUT)) return null;
    const walker = document_of(root).createTreeWalker(root, NodeFilter.SHOW_TEXT);
    let count = 0, left = MOST_NODES;
    while (walker.nextNode()) {
      if (left-- <= 0) return null;
      if (squeeze(walker.currentNode.data) === text) count++;
    }
    return count === 1 ? {engine: 'text', value: text} : null;
  }

  // A name, with its place among its like where a parent may have several.
  function step(name, element, place) {
    return !element.parentElement || element.matches('body, head') ? name : name + place(element);
  }

  function nth(element) {
    let index = 1;
    for (let other = element.previousElementSibling; other; other = other.previousElementSibling) {
      if (other.localName === element.localName) index++;
    }
    return index;
  }

  function by_path(element, root) {
    const parts = [];
    let at = element;
    for (let depth = 0; at && depth < MOST_ANCESTORS; depth++, at = at.parentElement) {
      if (at !== element && is_stable(at.id) && is_only(root, `#${CSS.escape(at.id)}`)) {
        parts.unshift(`#${CSS.escape(at.id)}`);
        break;
      }
      parts.unshift(step(CSS.escape(at.localName), at, e => `:nth-of-type(${nth(e)})`));
    }
    const selector = parts.join(' > ');
    return selector.length <= 2000 && is_only(root, selector)
      ? {engine: 'css', value: selector} : null;
  }

  function by_xpath(element, root) {
    if (!root.documentElement) return null;  // XPath does not reach into shadow roots
    const parts = [];
    let at = element;
    for (let depth = 0; at && depth < MOST_ANCESTORS; depth++, at = at.parentElement) {
      if (!/^[a-z][a-z0-9]*$/.test(at.localName) || at.namespaceURI !== document.documentElement
        .namespaceURI) return null;  // custom and foreign elements need more than a name
      parts.unshift(step(at.localName, at, e => `[${nth(e)}]`));
    }
    return at ? null : {engine: 'xpath', value: `/${parts.join('/')}`};
  }

  const WAYS = [by_test_id, by_role, by_id, by_name, by_text, by_path, by_xpath];

  function ways_to(element, root) {
    const fit = WAYS.map(way => way(element, root))
      .filter(selector => selector && selector.value && selector.value.length <= 2000);
    return fit.filter((selector, index) =>
      fit.findIndex(other => other.engine === selector.engine && other.value === selector.value)
        === index);
  }

  // Of a frame's content from the left upper corner of the viewport; null: of another origin.
  function corner(inner) {
    let x = 0, y = 0, at = inner;
    for (let level = 0; at !== document && level < MOST_LEVELS; level++) {
      const frame = at.defaultView?.frameElement;
      if (!frame) return null;
      const box = frame.getBoundingClientRect(), style = getComputedStyle(frame);
      x += box.left + frame.clientLeft + parseFloat(style.paddingLeft);
      y += box.top + frame.clientTop + parseFloat(style.paddingTop);
      at = frame.ownerDocument;
    }
    return {x, y};
  }

  function inside(element) {
    if (element.shadowRoot) return element.shadowRoot;
    if (!element.matches('iframe, frame')) return null;
    try { return element.contentDocument; } catch { return null; }
  }

  // Down through open shadow roots and frames, as far as there is an element at the point.
  function deepest() {
    let root = document, element = null;
    for (let level = 0; root && level < MOST_LEVELS; level++) {
      const from = corner(document_of(root));
      const at = from && root.elementFromPoint(x - from.x, y - from.y);
      if (!at || at === element) break;
      element = at;
      if (at.getRootNode() !== root) break;  // content that a shadow host was given
      root = inside(at);
    }
    const whole = element?.closest(INTERACTIVE);
    return whole ?? element;
  }

  // The surest way to each frame and shadow host around an element; null where there is none.
  function hosts_of(element) {
    const hosts = [];
    let root = element.getRootNode();
    while (root !== document) {
      const host = root.host ?? root.defaultView?.frameElement;
      if (!host || hosts.length >= MOST_LEVELS) return null;
      root = host.getRootNode();
      const [way] = ways_to(host, root);
      if (!way) return null;
      hosts.unshift(way);
    }
    return hosts;
  }

  const element = given ?? deepest();
  const from = element && corner(element.ownerDocument);
  if (!from) return null;
  const box = element.getBoundingClientRect();
  const left = box.left + from.x, top = box.top + from.y;
  const hosts = hosts_of(element);
  const shown = element.matches('input, textarea, select')
    ? element.getAttribute('placeholder') ?? '' : element.textContent;
  return {
    selectors: hosts ? ways_to(element, element.getRootNode()).map(way => [...hosts, way]) : [],
    box: {x: left, y: top, width: box.width, height: box.height},
    offset: given ? null : [x - left, y - top],
    tag: element.localName.slice(0, MOST_CHARACTERS),
    text: shortened(squeeze(shown)),
  };
}
