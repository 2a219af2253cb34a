// A page full of labelled things at random places: material for learning to find and to read.
// agentserveWords(seed) draws it anew; the words are MiniWoB++'s own, made-up ones and numbers.
(() => {
  const WIDTH = 160;
  const HEIGHT = 210;
  const GAP = 2;
  const BUTTONS = ['submit', 'okay', 'ok', 'yes', 'no', 'cancel', 'next', 'previous', 'login',
    'search', 'close', 'send', 'reply', 'delete', 'book', 'back', 'save', 'clear'];
  const CONSONANTS = 'bcdfghjklmnprstvwxz';
  const VOWELS = 'aeiou';

  class Random {
    constructor(seed) {
      this.state = (seed * 2654435761 + 12345) >>> 0;
    }

    next() { // mulberry32
      this.state = (this.state + 0x6D2B79F5) >>> 0;
      let t = this.state;
      t = Math.imul(t ^ (t >>> 15), t | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    }

    below(n) {
      return Math.floor(this.next() * n);
    }

    of(list) {
      return list[this.below(list.length)];
    }
  }

  const capital = word => word[0].toUpperCase() + word.slice(1);

  const madeUp = random => {
    let word = '';
    for (let i = 1 + random.below(3); i > 0; i--) word += random.of(CONSONANTS) + random.of(VOWELS);
    return random.below(2) ? word + random.of(CONSONANTS) : word;
  };

  const KINDS_OF_WORD = [
    random => random.of(ui_utils.lorem_words),
    random => random.of(ui_utils.lorem_words),
    random => random.of(ui_utils.PEOPLE_NAMES),
    random => random.of(ui_utils.LAST_NAMES),
    random => random.of(ui_utils.COUNTRIES).split(' ')[0],
    random => random.of(BUTTONS),
    madeUp,
    random => String(random.below(random.of([10, 100, 1000, 100000]))),
    random => random.of(ui_utils.alphanumericList) + random.of(ui_utils.alphanumericList) + random.of(ui_utils.alphanumericList),
  ];

  const word = random => {
    const plain = random.of(KINDS_OF_WORD)(random).replace(/[,.]/g, '');
    const roll = random.next();
    return roll < 0.7 ? plain : roll < 0.95 ? capital(plain) : plain.toUpperCase();
  };
  const words = (random, most) => Array.from({ length: 1 + random.below(most) }, () => word(random))
    .join(' ');

  const make = (tag, text = '', name = '') => {
    const element = document.createElement(tag);
    element.textContent = text;
    element.className = name;
    return element;
  };

  const field = (random, type) => {
    const input = make('input');
    input.type = type;
    input.style.width = `${40 + random.below(70)}px`;
    if (random.below(3) === 0) input.value = words(random, 2);
    return input;
  };

  const labelled = (random, type) => {
    const label = make('label');
    const input = make('input');
    input.type = type;
    input.checked = random.below(3) === 0;
    label.append(input, words(random, 2));
    return label;
  };

  const titled = (random, type) => {
    const row = make('div');
    const label = make('label', words(random, 1));
    const input = field(random, type);
    input.id = `field-${random.below(1e9)}`;
    label.htmlFor = input.id;
    row.append(label, random.below(2) ? make('br') : ' ', input);
    return row;
  };

  const tabs = random => {
    const list = make('ul', '', 'ui-tabs-nav');
    for (let i = 2 + random.below(2); i > 0; i--) {
      const item = make('li');
      item.append(make('a', random.below(2) ? `Tab #${i}` : word(random)));
      list.append(item);
    }
    return list;
  };

  const square = random => {
    const side = 12 + random.below(24);
    const element = make('div');
    element.style.cssText = `width: ${side}px; height: ${side}px;`
      + `background-color: ${random.of(ui_utils.COLORS.filter(name => name !== 'white'))};`;
    return element;
  };

  const select = random => {
    const element = make('select');
    for (let i = 0; i < 3; i++) element.append(make('option', word(random)));
    return element;
  };

  const THINGS = [
    [6, random => make('button', words(random, 2))],
    [5, random => make('span', words(random, 2), 'alink')],
    [5, random => make('div', words(random, 4))],
    [1, random => make(random.of(['h2', 'h3', 'h4']), word(random))],
    [3, random => labelled(random, 'checkbox')],
    [2, random => labelled(random, 'radio')],
    [2, random => titled(random, 'text')],
    [1, random => titled(random, 'password')],
    [1, random => field(random, 'text')],
    [1, tabs],
    [1, square],
    [1, select],
  ];
  const BAG = THINGS.flatMap(([weight, thing]) => Array(weight).fill(thing));

  const free = (box, taken) => taken.every(other => box[2] + GAP <= other[0]
    || other[2] + GAP <= box[0] || box[3] + GAP <= other[1] || other[3] + GAP <= box[1]);

  window.agentserveWords = seed => {
    const random = new Random(seed);
    const wrap = document.getElementById('wrap');
    // MiniWoB++ writes at 10 px, and leaves its controls at the browser's 13.3 px
    wrap.style.fontSize = `${random.below(2) ? 10 : 9 + random.next() * 5}px`;
    const wanted = 5 + random.below(20);
    const things = Array.from({ length: wanted }, () => random.of(BAG)(random));
    wrap.replaceChildren(...things);
    const sizes = things.map(thing => thing.getBoundingClientRect());
    const taken = [];
    things.forEach((thing, index) => {
      const { width, height } = sizes[index];
      for (let tries = 0; tries < 12; tries++) {
        if (width > WIDTH - 4 || height > HEIGHT - 4) break;
        const left = Math.floor(2 + random.next() * (WIDTH - 4 - width));
        const top = Math.floor(2 + random.next() * (HEIGHT - 4 - height));
        const box = [left, top, left + width, top + height];
        if (free(box, taken)) {
          taken.push(box);
          thing.style.left = `${left}px`;
          thing.style.top = `${top}px`;
          return;
        }
      }
      thing.remove();
    });
  };
})();
