// Tasks of several clicks: choices and a button, tabs, sections, trees, text that scrolls.

// Ticks what is wanted and not ticked (and the other way round), from the top, then submits.
function choose(wanted) {
  for (const label of all('#boxes label')) {
    const input = one('input', label);
    const name = textOf(label);
    if (input.checked === wanted.includes(name)) continue;
    if (input.type === 'radio' && input.checked) continue; // the right one will replace it
    return click(label, named(input.type, name));
  }
  return submit();
}
const wantedNames = goal => /^Select (.*) and click Submit/.exec(goal)[1].split(', ');

POLICIES['click-option'] = goal => choose(wantedNames(goal));
POLICIES['click-checkboxes'] = goal => choose(wantedNames(goal));
POLICIES['click-checkboxes-transfer'] = POLICIES['click-checkboxes'];

POLICIES['click-button-sequence'] = () => button(
  one(buttonsPushed.length === 0 ? '#subbtn' : '#subbtn2')
);

POLICIES['odd-or-even'] = () => {
  for (const row of all('#numbers .row')) {
    const even = Number(textOf(one('.display-number', row))) % 2 === 0;
    const choice = one(even ? '.even' : '.odd', row);
    if (!choice.classList.contains('selected')) return button(choice);
  }
  return button(one('#submit'));
};

POLICIES['click-shades'] = goal => {
  const color = /shades of (\w+)/.exec(goal)[1];
  const shade = all('#area [data-color]').find(element => (
    element.classList.contains('selected') !== (element.dataset.color === color)
  ));
  return shade ? click(shade, `${color} shade`) : button(one('#submit'));
};

// --- what hides a part of the page ---------------------------------------------------------------

const visible = element => element.getClientRects().length > 0;
const visibleLink = text => all('.alink').find(
  element => textOf(element) === text && visible(element)
);

POLICIES['click-collapsible-nodelay'] = () => (
  visible(one('.ui-accordion-content')) ? submit() : section(one('#area h3'))
);
POLICIES['click-collapsible'] = POLICIES['click-collapsible-nodelay'];
const section = header => click(header, named('section', textOf(header)));

// Looks through tabs or sections in their order, on from the one that is open.
function lookThrough(parts, open, goal, choosePart) {
  const [text] = quoted(goal);
  if (visibleLink(text)) return click(visibleLink(text), named('link', text));
  return choosePart(parts[(parts.findIndex(open) + 1) % parts.length]);
}
const throughTabs = goal => lookThrough(
  all('#area li'), item => item.classList.contains('ui-tabs-active'), goal,
  item => click(one('a', item), named('tab', textOf(item))),
);
POLICIES['click-tab-2-easy'] = throughTabs;
POLICIES['click-tab-2-medium'] = throughTabs;
POLICIES['click-tab-2'] = throughTabs;
POLICIES['click-tab-2-hard'] = throughTabs;

POLICIES['click-collapsible-2-nodelay'] = goal => lookThrough(
  all('#area h3'), header => header.classList.contains('ui-accordion-header-active'), goal, section,
);
POLICIES['click-collapsible-2'] = POLICIES['click-collapsible-2-nodelay'];

// Opens the folders that are closed from the top until the name shows.
POLICIES['navigate-tree'] = goal => {
  const [name] = quoted(goal);
  const entries = all('#tree span').filter(visible);
  const found = entries.find(entry => textOf(entry) === name);
  if (found) return entry(found);
  return entry(entries.find(other => other.parentElement.classList.contains('expandable')));
};
const entry = element => click(
  element, named(element.className.split(' ')[0], textOf(element)), textBox(element)
);

// --- text that scrolls ---------------------------------------------------------------------------

// The turn of the wheel that takes an element to its end; null when it is there.
function scrollTo(element, end) {
  const most = element.scrollHeight - element.clientHeight;
  const left = (end === 'bottom' ? most : 0) - element.scrollTop;
  if (Math.abs(left) < 2) return null;
  const box = clip(fullBox(element), element);
  return step('scroll', {box, dy: SCROLL_PX * Math.sign(left), thought: `scroll to the ${end}`});
}
const SCROLL_PX = 3000; // more than any of these texts is long

POLICIES['scroll-text-2'] = goal => (
  scrollTo(one('#text-area'), /to the (\w+) of/.exec(goal)[1]) || submit()
);
POLICIES['scroll-text'] = () => {
  const words = one('#text-area').value.trim().split(/\s+/);
  const last = words[words.length - 1].replace(/[^a-zA-Z0-9]/g, '');
  return scrollTo(one('#text-area'), 'bottom') || fillOne(last, 'last word');
};
POLICIES['sign-agreement'] = goal => {
  const [name] = quoted(goal);
  const label = /cancel/i.test(goal) ? '#cancel' : '#agree';
  const finish = () => button(one(label));
  if (name === undefined) return finish();
  return (one('#name').disabled && scrollTo(one('#text-area'), 'bottom'))
    || fill([{element: one('#name'), text: name, name: 'name field', what: 'name'}], finish);
};
