"use strict";
// Draws the tracks above the charts: a lane for each fault with its targets, and a lane with ticks for each anomaly.
const Tracks = (() => {
  let host = null;

  function x(time, width) {
    const [from, to] = Range.get();
    return LEFT + ((time - from) / (to - from)) * width;
  }

  function label(text, y, href) {
    const made = svg("text", { x: 8, y, class: "f", "font-size": "11.5" }, cut(text, 200));
    return href ? svg("a", { href }, made) : made;
  }

  function fault(one, top, width) {
    const group = svg("g", { class: "track" });
    const fill = onGround(one.colour);
    let free = 0;
    let last = -1;
    one.spans.forEach((span, n) => {
      const begin = Math.max(LEFT, x(span.begin, width));
      const end = Math.min(LEFT + width, x(span.end, width));
      if (end < LEFT || begin > LEFT + width) return;
      const effect = span.effect === false ? " (no effect)" : "";
      const title = `${span.label}${effect}, ${seconds(span.begin)} to ${span.open ? "the end" : seconds(span.end)}${span.detail ? ": " + span.detail : ""}`;
      if (end - begin < 2 && begin - last < 1) return;  // a screen cannot show both
      last = begin;
      group.append(titled(title, svg("rect", { x: begin, y: top + 15, width: Math.max(2, end - begin), height: 5, rx: 1.5,
        fill, "fill-opacity": span.effect === false ? "0.35" : "1" })));
      const next = one.spans[n + 1] ? Math.min(LEFT + width, x(one.spans[n + 1].begin, width)) : LEFT + width;
      const room = Math.floor((next - begin) / 6.3);
      const text = [span.label + effect, span.label, span.hit].find((one) => one && one.length <= room);
      if (begin >= free && (text || free === 0)) {
        const shown = text || cut(span.label, Math.max(8, room));
        group.append(svg("text", { x: begin, y: top + 11, "font-size": "11.5" }, shown));
        free = begin + shown.length * 6.3;
      }
    });
    return group;
  }

  function ticksOf(one, y, width) {
    const high = new Map();
    one.cells.forEach((cell, n) => {
      const time = ((cell + 0.5) / Run.cells) * Run.end;
      if (!Range.touches(time, time)) return;
      const at = Math.round(x(time, width));
      high.set(at, (high.get(at) || 0) + one.counts[n]);
    });
    let path = "";
    for (const [at, count] of high) {
      const tall = Math.min(13, 6 + 2 * Math.log10(count));
      path += `M${at + 0.5} ${y - tall}v${tall}`;
    }
    const name = svg("text", { x: LEFT + width - 4, y: y - 12, "text-anchor": "end", class: "halo", "font-size": "11.5" }, one.name);
    return svg("a", { href: "#" + one.slug, class: "track", "aria-label": `${one.name}: times of its witnesses` },
      svg("path", { d: `M${LEFT} ${y + 0.5}h${width}`, class: "axis" }),
      svg("path", { d: path, class: one.bad ? "tick" : "tick fine" }), name);
  }

  function picture() {
    const width = Math.max(280, roomIn(host) - 6) - LEFT - RIGHT;
    const timed = Run.anomalies.filter((one) => one.cells.length).slice(0, 12);
    const height = 4 + Run.faults.length * 24 + timed.length * 27;
    const made = svg("svg", { width: LEFT + width + RIGHT, height, role: "img", "aria-label": "faults and anomalies over time" });
    let y = 2;
    Run.faults.forEach((one) => {
      made.append(fault(one, y, width));
      y += 24;
    });
    if (Run.faults.length) made.append(label("faults", 13));
    timed.forEach((one, n) => {
      y += 27;
      if (n === 0) made.append(label("anomalies", y - 1));
      made.append(ticksOf(one, y - 2, width));
    });
    return made;
  }

  function redraw() {
    if (!host || !(Run.end > 0)) return;
    const old = host.querySelector("svg");
    if (old) old.replaceWith(picture());
  }

  Range.listen(redraw);

  return {
    draw(into) {
      host = el("div", { class: "panel", id: "tracks" });
      into.append(host);
      if (!(Run.end > 0)) return;
      const made = picture();
      if (made.childNodes.length) host.append(made);
      else host.remove();
    },
  };
})();
