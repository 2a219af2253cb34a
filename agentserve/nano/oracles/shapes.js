// Tasks about figures: one click on a figure, or on the button that says something about figures.

const FIGURES = {rect: 'rectangle', circle: 'circle', polygon: 'triangle'};

// The figures of a grid in reading order.
function figures() {
  const found = all('#area_svg > *').map(element => {
    const box = element.getBoundingClientRect();
    const name = FIGURES[element.tagName] || textOf(element);
    const extent = parseFloat(element.getAttribute('font-size')) || box.width;
    return {
      element,
      name,
      type: FIGURES[element.tagName] ? 'shape' : /\d/.test(name) ? 'digit' : 'letter',
      color: element.getAttribute('fill'),
      size: extent > 15 ? 'large' : 'small',
      x: (box.left + box.right) / 2,
      row: Math.round((box.top + box.bottom) / 2 / shapes.MAX_SIZE),
    };
  });
  return found.sort((a, b) => a.row - b.row || a.x - b.x);
}

// A description such as "large red circle" or "small item" as a test of a figure.
function described(text) {
  const words = text.split(' ');
  const what = words.pop();
  return figure => words.every(word => word === figure.size || word === figure.color)
    && (what === 'item' || what === figure.name || what === figure.type);
}

POLICIES['click-shape'] = goal => {
  const figure = figures().find(described(/Click on a (.+)/.exec(goal)[1]));
  return click(figure.element, `${figure.size} ${figure.color} ${figure.name}`);
};

POLICIES['count-shape'] = goal => {
  const count = figures().filter(described(/How many (.+)s are/.exec(goal)[1])).length;
  return button(withText('#count-buttons button', String(count)));
};

POLICIES['identify-shape'] = () => {
  const {name, type} = figures()[0];
  return button(one(`#area-buttons [data-type="${type === 'shape' ? name : type}"]`));
};

POLICIES['grid-coordinate'] = goal => {
  const point = /\(-?\d,-?\d\)/.exec(goal)[0];
  return click(document.getElementById(point), `point ${point}`);
};

POLICIES['count-sides'] = () => {
  const sides = countSides(one('#c'));
  return button(one(`#form [data-sides="${sides}"]`));
};

// The outline of a regular polygon around the middle of the canvas: its distance from the middle,
// by angle, swings once per side.
function countSides(canvas) {
  const {width, height} = canvas;
  const pixels = canvas.getContext('2d').getImageData(0, 0, width, height).data;
  const dark = (x, y) => pixels[4 * (Math.round(y) * width + Math.round(x)) + 3] > 100;
  const radii = Array.from({length: 360}, (_, degree) => {
    const angle = degree * Math.PI / 180;
    let radius = height / 2 - 1;
    while (radius > 0 && !dark(width / 2 + radius * Math.cos(angle),
      height / 2 + radius * Math.sin(angle))) radius -= 0.25;
    return radius;
  });
  const swing = sides => Math.hypot(
    ...[Math.cos, Math.sin].map(wave => radii.reduce(
      (sum, radius, degree) => sum + radius * wave(sides * degree * Math.PI / 180), 0)),
  );
  return [3, 4, 5, 6, 7].reduce((best, sides) => (swing(sides) > swing(best) ? sides : best));
}
