// Tasks that one click on something with a label solves.

const button = element => click(element, named('button', textOf(element)));

POLICIES['click-test'] = () => button(one('#subbtn'));
POLICIES['click-test-2'] = () => button(one('#subbtn'));
POLICIES['click-test-transfer'] = goal => button(
  withText('#area button', /button (\w+)\./.exec(goal)[1])
);
POLICIES['click-button'] = goal => button(withText('#area button', quoted(goal)[0]));

POLICIES['click-link'] = goal => link(quoted(goal)[0]);
const link = text => click(withText('.alink', text), named('link', text));

POLICIES['click-dialog'] = () => closeDialog();
POLICIES['click-dialog-2'] = goal => {
  const label = quoted(goal)[0];
  return label === 'x' ? closeDialog() : button(withText('.ui-dialog-buttonset button', label));
};
const closeDialog = () => click(one('.ui-dialog-titlebar-close'), 'close x');

POLICIES['click-tab'] = goal => tab(/Tab #\d/.exec(goal)[0]);
const tab = label => click(withText('#area li a', label), named('tab', label));

POLICIES['click-color'] = goal => {
  const color = /on the (\w+) colored/.exec(goal)[1];
  return click(one(`#area [data-color="${color}"]`), `${color} box`);
};

const WIDGETS = {
  radio: element => named('radio', textOf(element)),
  checkbox: element => named('checkbox', textOf(element)),
  button: element => named('button', textOf(element)),
  text: () => 'text field',
  textarea: () => 'text area',
};
POLICIES['click-widget'] = goal => {
  const kind = quoted(goal)[0];
  const widget = one(`#area [data-type="${kind}"]`);
  const target = widget.closest('label') || widget;
  return click(target, WIDGETS[kind](target));
};

POLICIES['focus-text'] = () => click(one('#area input'), 'text field');
POLICIES['focus-text-2'] = goal => {
  const place = /\d(?:st|nd|rd)/.exec(goal)[0];
  return click(all('#area input')[parseInt(place) - 1], `${place} text field`);
};

POLICIES['unicode-test'] = goal => button(withText('#area button', quoted(goal)[0]));
