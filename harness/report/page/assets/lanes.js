"use strict";
// Draws the operations around a witness: a lane per process, a bar per operation, and separate windows of time.
const Lanes = (() => {
  const ROW = 24;
  const SIDE = 96;
  const GAP = 34;
  const TOP = 24;

  function widths(windows, room) {
    const least = Math.min(170, room / windows.length);
    const weights = windows.map(([begin, end]) => Math.sqrt(end - begin));
    const sum = weights.reduce((one, two) => one + two, 0);
    const rest = room - least * windows.length;
    return weights.map((weight) => least + (rest * weight) / sum);
  }

  function axis(made, [begin, end], x, width, bottom) {
    const { step, at } = ticks(begin, end, Math.max(1, Math.floor(width / 95)));
    for (const time of at) {
      const px = x(time);
      made.append(svg("path", { d: `M${px} ${TOP - 4}V${bottom}`, class: "grid" }));
      made.append(svg("text", { x: px, y: bottom + 15, "text-anchor": "middle", class: "f num", "font-size": "11" }, seconds(time, step * 10)));
    }
    made.append(svg("path", { d: `M${x(begin)} ${bottom}H${x(end)}`, class: "axis" }));
  }

  function faults(made, [begin, end], x, bottom) {
    for (const fault of Run.faults) {
      for (const span of fault.spans) {
        if (span.begin > end || span.end < begin) continue;
        const from = x(Math.max(span.begin, begin));
        const to = x(Math.min(span.end, end));
        const fill = onGround(fault.colour);
        made.append(titled(`${span.label}, ${seconds(span.begin)} to ${seconds(span.end)}`,
          svg("rect", { x: from, y: TOP - 18, width: Math.max(2, to - from), height: bottom - TOP + 18, fill, "fill-opacity": colour("fault") })));
        made.append(svg("text", { x: from + 4, y: TOP - 7, "font-size": "11.5" }, cut(span.label, Math.max(4, Math.floor((to - from) / 6)))));
      }
    }
  }

  function bar(data, bars, [begin, end], x, names) {
    const [lane, from, to, type, f, op, own, did] = bars;
    const left = x(Math.max(from, begin));
    const right = to === null ? x(end) : x(Math.min(to, end));
    const y = TOP + lane * ROW + 4;
    const outcome = to === null ? "open" : type;
    const shape = svg("rect", { x: left, y, width: Math.max(3, right - left), height: ROW - 8, rx: 2,
      class: `bar ${outcome}${own ? " own" : did ? " touch" : ""}` });
    const ended = to === null ? "never completed" : `${type} after ${duration(to - from)}`;
    const text = `op ${op}, process ${data.lanes[lane]}: ${f} at ${seconds(from, 0.001)}, ${ended}${did ? "; " + did : ""}`;
    const group = titled(text, svg("g", own ? { tabindex: "0", role: "img", "aria-label": text } : {}, shape));
    return { group, own, x: left, y: y + 12, name: names[op] || "op " + op };
  }

  function draw(into, witness) {
    const data = witness.lanes;
    if (!data || !data.lanes.length) return;
    const omitted = data.left.map((count, n) => (count ? `${number(count)} more ${n ? "operations" : "processes"}` : "")).filter(Boolean);
    into.append(el("h4", {}, "Operations at that time ", el("small", {},
      `labelled: of the witness; dark: at the same offsets; pale: others${data.events.length ? "; triangles: events of instances" : ""}${omitted.length ? "; omitted: " + omitted.join(" and ") : ""}`)));
    const outer = Math.max(640, roomIn(into) - 3);
    const size = widths(data.windows, outer - SIDE - 16 - GAP * (data.windows.length - 1));
    const bottom = TOP + data.lanes.length * ROW + 4;
    const made = svg("svg", { width: outer, height: bottom + 26, role: "img", "aria-label": "operations around the witness, a lane for each process" });
    let start = SIDE;
    const labels = [];
    data.windows.forEach((window_, n) => {
      const width = size[n];
      const left = start;
      const x = (time) => left + ((time - window_[0]) / (window_[1] - window_[0])) * width;
      faults(made, window_, x, bottom);
      axis(made, window_, x, width, bottom);
      for (const one of data.bars[n]) {
        const { group, own, ...place } = bar(data, one, window_, x, witness.names);
        made.append(group);
        if (own) labels.push(place);
      }
      for (const [lane, time, text] of data.events) {
        if (time < window_[0] || time > window_[1]) continue;
        const y = TOP + lane * ROW + ROW / 2;
        made.append(titled(text, svg("path", { d: markPath("event", x(time), y, 4.2), class: "event" })));
      }
      start += width + GAP;
      if (n + 1 < data.windows.length) {
        const gap = data.windows[n + 1][0] - window_[1];
        made.append(titled(`${duration(gap)} omitted`, svg("text", { x: start - GAP / 2, y: bottom + 15, "text-anchor": "middle", class: "f", "font-size": "11" }, "⋯")));
        made.append(svg("path", { d: `M${start - GAP / 2 - 3} ${TOP - 4}V${bottom}M${start - GAP / 2 + 3} ${TOP - 4}V${bottom}`, class: "axis", "stroke-dasharray": "3 3" }));
      }
    });
    const own = new Set([...data.bars.flat().filter((one) => one[6]), ...data.events].map((one) => one[0]));
    data.lanes.forEach((process, lane) => {
      made.append(svg("text", { x: 10, y: TOP + lane * ROW + 16, class: own.has(lane) ? "" : "f" }, "process " + process));
    });
    for (const one of labels) made.append(svg("text", { x: one.x + 4, y: one.y, class: "label", "font-size": "11" }, one.name));
    into.append(el("div", { class: "scroll" }, made));
  }

  return { draw };
})();
