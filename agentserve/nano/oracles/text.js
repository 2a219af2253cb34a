// Tasks that fill in text fields and press a button.

const submit = () => button(one('#subbtn'));

// Fills in fields in their order, then goes on with `after`. A field is
// {element, text, name, what}, with {value} where what is typed is not the value it gives, and with
// {firstPx}, the width of its first part, where it has parts.
function fill(fields, after = submit) {
  for (const {element, text, value = text, name, what, firstPx = Infinity} of fields) {
    if (element.value === value) continue;
    if (document.activeElement !== element) {
      const [left, top, right, bottom] = fullBox(element);
      return click(element, name, [left, top, Math.min(right, left + firstPx), bottom]);
    }
    const chosen = element.selectionEnd - element.selectionStart === element.value.length;
    if (element.selectionEnd !== null && !chosen) return press('Control+a', 'select all');
    return type(text, `type the ${what}`);
  }
  return after();
}

const fillOne = (text, what = 'text') => fill([
  {element: one('#area input'), text, name: 'text field', what},
]);

POLICIES['enter-text'] = goal => fillOne(quoted(goal)[0]);
POLICIES['enter-text-dynamic'] = POLICIES['enter-text'];
POLICIES['enter-text-2'] = goal => {
  const text = quoted(goal)[0];
  return fillOne(/upper case/.test(goal) ? text.toUpperCase() : text.toLowerCase());
};
POLICIES['text-transform'] = () => fillOne(textOf(one('#captcha')));

POLICIES['enter-password'] = goal => {
  const [text] = quoted(goal);
  return fill([
    {element: one('#password'), text, name: 'password field', what: 'password'},
    {element: one('#verify'), text, name: 'verify field', what: 'password'},
  ]);
};

POLICIES['login-user'] = goal => {
  const [user, password] = quoted(goal);
  return fill([
    {element: one('#username'), text: user, name: 'username field', what: 'username'},
    {element: one('#password'), text: password, name: 'password field', what: 'password'},
  ]);
};
POLICIES['login-user-popup'] = goal => (
  one('#popup') ? button(one('#popup-cancel')) : POLICIES['login-user'](goal)
);

// A date field and a time field go on to their next part by themselves while one types.
POLICIES['enter-date'] = goal => {
  const [, month, day, year] = /(\d\d)\/(\d\d)\/(\d{4})/.exec(goal);
  const value = `${year}-${month}-${day}`;
  const text = month + day + year;
  return fill([{element: one('#tt'), text, value, name: 'date field', what: 'date', firstPx: 24}]);
};
POLICIES['enter-time'] = goal => {
  const [, hour, minute, half] = /(\d+):(\d\d) ([AP]M)/.exec(goal);
  const hours = Number(hour) % 12 + (half === 'PM' ? 12 : 0);
  const value = `${String(hours).padStart(2, '0')}:${minute}`;
  const text = hour.padStart(2, '0') + minute + half;
  return fill([{element: one('#tt'), text, value, name: 'time field', what: 'time', firstPx: 24}]);
};

// --- what has to be read or worked out -----------------------------------------------------------

POLICIES['find-word'] = goal => {
  const place = /the (\d+\w\w) word/.exec(goal)[1];
  const word = textOf(one('#area p')).split(' ')[parseInt(place) - 1];
  return fillOne(word.replace(/[^a-zA-Z]/g, ''), `${place} word`);
};

const cellBeside = key => textOf(withText('#tab td', key).nextElementSibling);
POLICIES['read-table'] = goal => {
  const key = /the value of (.+) into/.exec(goal)[1];
  return fillOne(cellBeside(key), key);
};
POLICIES['read-table-2'] = () => fill(all('#form input').map(element => {
  const key = textOf(element.previousElementSibling).replace(':', '');
  return {element, text: cellBeside(key), name: named('field', key), what: key};
}));

function answer(result, sum) {
  const next = fillOne(String(result));
  return next && next.kind === 'type' ? {...next, thought: sum} : next;
}

POLICIES['simple-arithmetic'] = () => {
  const [, a, sign, b] = /(\d) ([-+x]) (\d)/.exec(textOf(one('#math-problem')));
  const result = {'+': +a + +b, '-': a - b, 'x': a * b}[sign];
  return answer(result, `${a} ${sign} ${b} = ${result}`);
};

POLICIES['simple-algebra'] = () => {
  const [, a, sign, b, c] = /(\w) ([-+]) (\w) = (\d+)/.exec(textOf(one('#math-problem')));
  const known = a === 'x' ? b : a;
  const [left, operator, right] = sign === '+' ? [c, '-', known]
    : a === 'x' ? [c, '+', known] : [known, '-', c];
  const result = operator === '+' ? +left + +right : left - right;
  return answer(result, `x = ${left} ${operator} ${right} = ${result}`);
};

POLICIES['visual-addition'] = () => {
  const [a, b] = ['#visual-1', '#visual-2'].map(part => all('.addition-block', one(part)).length);
  return answer(a + b, `${a} + ${b} = ${a + b}`);
};

// --- forms whose fields stand in any order -------------------------------------------------------

const FILMS = {genre: /genre/i, director: /director/i, year: /year|date/i};
POLICIES['multi-orderings'] = goal => {
  const [, genre, director, year] = /for (.+) movies directed by (.+) from year (\d+)/.exec(goal);
  const texts = {genre, director, year};
  const fields = all('#area input').map(element => {
    let row = element;
    while (!textOf(row)) row = row.parentElement;
    const what = Object.keys(FILMS).find(key => FILMS[key].test(textOf(row)));
    return {element, text: texts[what], name: `${what} field`, what};
  });
  return fill(fields, () => button(one('#area button, #area .final, #area .ui-submit')));
};
POLICIES['multi-layouts'] = POLICIES['multi-orderings'];

POLICIES['form-sequence-2'] = goal => {
  const [, radio, field] = /the (\d\w\w) radio .* the (\d\w\w) textbox/.exec(goal);
  const choice = all('#area input[type=radio]')[parseInt(radio) - 1];
  if (!choice.checked) return click(choice, `${radio} radio`);
  const element = all('#area input[type=text]')[parseInt(field) - 1];
  return fill([{element, text: quoted(goal)[0], name: `${field} text field`, what: 'number'}]);
};
