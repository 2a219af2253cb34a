// Math.random, crypto.getRandomValues and crypto.randomUUID from a seed, so that a page chooses the
// same each time it is loaded. Of no use for secrets.
//
// The generator adds a constant to a 32-bit state and mixes the sum by two multiplications and
// three shifts (a Weyl sequence with a hash behind it): every seed gives another sequence, and each
// has all 2^32 values once before it repeats. Each function draws from a sequence of its own: a
// page that draws one number more from one of them gets the same from the others.
seed => {
  const sequence = start => {
    let state = (seed ^ start) >>> 0;
    return () => {
      state = (state + 0x9e3779b9) >>> 0;
      let mixed = state;
      mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
      mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
      return (mixed ^ (mixed >>> 15)) >>> 0;
    };
  };
  const numbers = sequence(0x6d617468), values = sequence(0x76616c73), ids = sequence(0x75756964);
  const define = (object, name, value) =>
    Object.defineProperty(object, name, {value, writable: true, configurable: true});

  // 53 bits, as many as a number between 0 and 1 has
  define(Math, 'random', function random() {
    return ((numbers() >>> 5) * 0x4000000 + (numbers() >>> 6)) / 0x20000000000000;
  });

  const fill = (array, next) => {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    for (let i = 0; i < bytes.length; i++) bytes[i] = next() >>> 24;
    return array;
  };
  const native = Crypto.prototype.getRandomValues;
  define(Crypto.prototype, 'getRandomValues', function getRandomValues(array) {
    native.call(this, array);  // refuses what must be refused
    return fill(array, values);
  });
  if (Crypto.prototype.randomUUID) {
    define(Crypto.prototype, 'randomUUID', function randomUUID() {
      const bytes = fill(new Uint8Array(16), ids);
      bytes[6] = (bytes[6] & 0x0f) | 0x40;
      bytes[8] = (bytes[8] & 0x3f) | 0x80;
      const hex = Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('');
      return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
    });
  }
}
