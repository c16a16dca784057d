"use strict";
// The selected range of time. Its ends are multiples of the rates' cells, so that counts are exact.
const Range = (() => {
  const listeners = [];
  const cell = Run.end / Run.windows;
  let now = [0, Run.end];

  function snapped(from, to) {
    let first = Math.round(Math.max(0, Math.min(from, Run.end)) / cell);
    let last = Math.round(Math.max(0, Math.min(to, Run.end)) / cell);
    if (last <= first) {
      first = Math.min(Math.floor(from / cell + 1e-9), Run.windows - 1);
      last = first + 1;
    }
    first = Math.max(0, first);
    return [first * cell, last >= Run.windows ? Run.end : last * cell];
  }

  function set(from, to, quietly) {
    if (!(Run.end > 0) || !Number.isFinite(from) || !Number.isFinite(to)) return;
    const next = snapped(Math.min(from, to), Math.max(from, to));
    if (next[0] === now[0] && next[1] === now[1]) return;
    now = next;
    for (const listener of listeners) listener(now[0], now[1], !quietly);
  }

  return {
    set,
    all: () => set(0, Run.end),
    get: () => now,
    whole: () => now[0] <= 0 && now[1] >= Run.end,
    listen: (listener) => listeners.push(listener),
    cells: () => [Math.round(now[0] / cell), Math.round(now[1] / cell)],
    touches: (begin, end) => begin <= now[1] && end >= now[0],
    move(share) {
      const width = now[1] - now[0];
      const by = Math.max(-now[0], Math.min(Run.end - now[1], Math.sign(share) * Math.max(cell, Math.abs(share) * width)));
      set(now[0] + by, now[1] + by);
    },
    widen(factor) {
      const middle = (now[0] + now[1]) / 2;
      const half = ((now[1] - now[0]) / 2) * factor;
      set(middle - half, middle + half);
    },
  };
})();
