// Tasks that play on a small page of their own: mail, search results, a phone book; and lists that
// open below a field.

// --- mail ----------------------------------------------------------------------------------------

function mail(goal) {
  const sender = /email by (.+?) and /.exec(goal)[1];
  const icon = /trash icon/.test(goal) ? 'trash' : /star icon/.test(goal) ? 'star' : null;
  if (one('#reply')) {
    return fill([
      {element: one('#reply-text'), text: quoted(goal)[0], name: 'text field', what: 'text'},
    ], () => click(one('#send-reply'), 'send icon'));
  }
  if (one('#forward')) {
    const text = / to ([^ ]+)\.$/.exec(goal)[1];
    return fill([
      {element: one('.forward-sender'), text, name: 'to field', what: 'name'},
    ], () => click(one('#send-forward'), 'send icon'));
  }
  if (one('#email')) {
    if (textOf(one('#email .email-sender')) !== sender) {
      return click(one('#close-email'), 'back icon');
    }
    if (icon) return click(one(`#email .${icon}`), `${icon} icon`);
    const action = /forward/.test(goal) ? 'forward' : 'reply';
    return click(one(`#email .email-${action}`), `${action} icon`);
  }
  const thread = all('#main .email-thread').find(
    candidate => textOf(one('.email-sender', candidate)) === sender
  );
  if (icon) return click(one(`.${icon}`, thread), `${icon} icon`);
  return click(one('.email-left', thread), named('email', sender));
}
for (const kind of ['noscroll', 'delete', 'important', 'reply', 'forward', 'star-reply']) {
  POLICIES[`email-inbox-${kind}`] = mail;
}
POLICIES['email-inbox'] = mail;

// --- pages of results ----------------------------------------------------------------------------

const RESULTS_PER_PAGE = 3;
POLICIES['search-engine'] = goal => {
  const place = parseInt(/the (\d)\w\w search result/.exec(goal)[1]) - 1;
  return fill([
    {element: one('#search-text'), text: quoted(goal)[0], name: 'text field', what: 'text'},
  ], () => {
    if (!one('#page-content a')) return button(one('#search'));
    const page = String(Math.floor(place / RESULTS_PER_PAGE) + 1);
    if (textOf(one('#pagination .active')) !== page) {
      return click(withText('#pagination a', page), named('link', page));
    }
    const result = all('#page-content a')[place % RESULTS_PER_PAGE];
    return click(result, named('link', textOf(result)));
  });
};

POLICIES['phone-book'] = goal => {
  const [, person, what] = /Find (.+) in the contact book and click on their (\w+)/.exec(goal);
  if (textOf(one('#contact .name')) !== person) {
    return click(one('#pagination .next a'), named('link', '>'));
  }
  const link = one(`#contact .${what}`);
  return click(link, named('link', textOf(link)));
};

// --- lists that open below a field ---------------------------------------------------------------

POLICIES['choose-date-easy'] = goal => {
  const [text, day] = /\d\d\/(\d\d)\/\d{4}/.exec(goal);
  const field = one('#datepicker');
  if (field.value === text) return submit();
  const days = one('#ui-datepicker-div');
  if (!days || !visible(days)) return click(field, 'date field');
  const label = String(Number(day));
  return click(withText('#ui-datepicker-div td a', label), named('day', label));
};

POLICIES['use-autocomplete-nodelay'] = goal => {
  const [start, end = ''] = quoted(goal);
  const field = one('#tags');
  if (field.value.startsWith(start) && field.value !== start && field.value.endsWith(end)) {
    return submit();
  }
  const items = all('.ui-autocomplete li').filter(visible);
  const item = items.find(candidate => textOf(candidate).endsWith(end));
  if (item) return click(item, named('item', textOf(item)));
  return fill([{element: field, text: start, name: 'text field', what: 'text'}], submit);
};
