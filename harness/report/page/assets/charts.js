"use strict";
// Draws the charts over time: rate, latency as points and as quantiles, unseen records, realtime lag.
const Charts = (() => {
  const sync = uPlot.sync("time");
  const host = document.getElementById("charts");
  const TOUCH = 10;  // pixels that a tap may move
  let kind = 0;
  let made = [];
  let rings = [];

  const outcomeColour = (name) => colour(name);

  function legend(items) {
    return el("span", { class: "legend" }, ...items.map(([text, fill, shape]) => {
      const icon = svg("svg", { viewBox: "0 0 14 10", "aria-hidden": "true" });
      icon.append(shape === "ring" ? svg("circle", { cx: 7, cy: 5, r: 3.6, fill: "none", stroke: fill, "stroke-width": "1.8" }) : shape ? svg("path", { d: markPath(shape, 7, 5, 3.6), fill })
        : svg("path", { d: "M0 5H14", stroke: fill, "stroke-width": "2.4" }));
      return el("span", {}, icon, text);
    }));
  }

  function panel(title, note, items) {
    const head = el("h3", {}, title, ...(note ? [el("small", {}, note)] : []), legend(items));
    const box = el("div", { class: "panel" }, head);
    host.append(box);
    return box;
  }

  // Draws tints while faults are active, and a line at the start of the final polls.
  function ground(u) {
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    for (const fault of Run.faults) {
      ctx.fillStyle = onGround(fault.colour);
      ctx.globalAlpha = Number(colour("fault"));
      for (const span of fault.spans) {
        const from = u.valToPos(span.begin, "x", true);
        ctx.fillRect(from, top, Math.max(2, u.valToPos(span.end, "x", true) - from), height);
      }
    }
    ctx.globalAlpha = 1;
    if (Run.final !== null) {
      const at = Math.round(u.valToPos(Run.final, "x", true)) + 0.5;
      ctx.strokeStyle = colour("faint");
      ctx.setLineDash([5, 4]);
      ctx.beginPath();
      ctx.moveTo(at, top);
      ctx.lineTo(at, top + height);
      ctx.stroke();
    }
    ctx.restore();
  }

  function tooltip(text) {
    const tip = el("div", { class: "tip", hidden: "" });
    return {
      init: (u) => u.over.append(tip),
      setCursor: (u) => {
        const { idx, left } = u.cursor;
        const parts = left < 0 || idx === null || idx === undefined ? null : text(u, idx);
        tip.hidden = !parts || !u.over.matches(":hover");
        if (tip.hidden) return;
        tip.replaceChildren(...parts);
        const right = left > u.over.clientWidth / 2;
        tip.style.left = right ? "auto" : left + 14 + "px";
        tip.style.right = right ? u.over.clientWidth - left + 14 + "px" : "auto";
        tip.style.top = "6px";
      },
    };
  }

  function tipParts(u, idx, lines, show) {
    const parts = [el("span", {}, seconds(u.data[0][idx]))];
    lines.forEach((line, n) => {
      const value = u.data[n + 1][idx];
      if (value !== null && value !== undefined) parts.push(el("br"), line.name + " ", el("b", {}, show(value)));
    });
    return parts;
  }

  // Lets a finger or a pen select a range, like the mouse. Vertical movement still scrolls (touch-action in page.css).
  function brushed(u) {
    let from = null;
    const place = (event) => Math.max(0, Math.min(u.over.clientWidth, event.clientX - u.over.getBoundingClientRect().left));
    const show = (left, width) => u.setSelect({ left, top: 0, width, height: width ? u.over.clientHeight : 0 }, false);
    u.over.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" && event.isPrimary) from = place(event);
    });
    u.over.addEventListener("pointermove", (event) => {
      if (from === null || !event.isPrimary) return;
      const to = place(event);
      if (Math.abs(to - from) < TOUCH) return;
      u.over.setPointerCapture(event.pointerId);
      show(Math.min(from, to), Math.abs(to - from));
    });
    u.over.addEventListener("pointerup", (event) => {
      if (from === null || !event.isPrimary) return;
      const [begin, end] = [from, place(event)].sort((one, two) => one - two);
      from = null;
      if (end - begin < TOUCH) return;
      show(0, 0);
      Range.set(u.posToVal(begin, "x"), u.posToVal(end, "x"));
    });
    u.over.addEventListener("pointercancel", () => {
      if (from !== null) show(0, 0);
      from = null;
    });
  }

  function chart(box, height, series, data, y, hooks, tip) {
    const axis = { stroke: () => colour("faint"), grid: { stroke: () => colour("grid"), width: 1 },
      ticks: { stroke: () => colour("line"), width: 1, size: 4 }, font: "11.5px system-ui,sans-serif" };
    const bubble = tip ? tooltip(tip) : { init: () => 0, setCursor: () => 0 };
    const [from, to] = Range.get();
    const u = new uPlot({
      width: Math.max(280, roomIn(host) - 6), height, series: [{}, ...series], legend: { show: false },
      padding: [6, RIGHT, 0, 0],
      scales: { x: { time: false, min: from, max: to, range: () => Range.get() }, y },
      axes: [
        { ...axis, size: 24, values: (_, at) => at.map((one) => Number(one.toFixed(6)) + " s") },
        { ...axis, size: LEFT, gap: 6, ...y.axis },
      ],
      cursor: { sync: { key: sync.key, setSeries: false }, drag: { x: true, y: false, setScale: false },
        points: { show: Boolean(tip), size: 6 }, focus: { prox: -1 }, bind: { dblclick: () => () => Range.all() } },
      hooks: {
        init: [bubble.init], setCursor: [bubble.setCursor], drawClear: [ground], ...hooks,
        setSelect: [(self) => {
          const { left, width } = self.select;
          if (width < 4) return;
          const ends = [self.posToVal(left, "x"), self.posToVal(left + width, "x")];
          self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          Range.set(ends[0], ends[1]);
        }],
      },
    }, data, box);
    brushed(u);
    made.push(u);
    return u;
  }

  function empty(title) {
    panel(title, "", []).append(el("p", { class: "none" }, "no data"));
  }

  function line(one, extra) {
    return { label: one.name, stroke: onGround(one.colour), width: one.colour ? 1.5 : 2, points: { show: false },
      spanGaps: false, ...extra };
  }

  const plainAxis = { values: (_, at) => at.map((one) => number(one)) };

  // A scale from zero, with space above the visible data.
  function upwards(u, low, high) {
    return [0, Math.max(high || 0, 1e-9) * 1.12];
  }

  function rate(operation) {
    const names = Run.outcomes.filter((name) => operation.rates[name]);
    if (!names.length) return empty("Rate");
    const width = Run.end / Run.windows;
    const times = Array.from({ length: Run.windows + 1 }, (_, n) => n * width);
    const lines = names.map((name) => ({ name, colour: "" }));
    const values = names.map((name) => [...operation.rates[name], operation.rates[name].at(-1)].map((count) => count / width));
    const box = panel("Rate", "operations completed per second",
      names.map((name) => [Run.outcome_names[name], outcomeColour(name)]));
    chart(box, 150,
      names.map((name) => ({ label: name, stroke: outcomeColour(name), width: 1.6, points: { show: false },
        paths: uPlot.paths.stepped({ align: 1 }), dash: name === "info" ? [6, 3] : name === "fail" ? [2, 2] : [] })),
      [times, ...values], { range: upwards, axis: plainAxis }, {},
      (u, idx) => tipParts(u, idx, lines, (value) => Number(value.toPrecision(3)) + "/s"));
  }

  // Used instead of uPlot's own ticks, whose computation does not terminate for some scales that begin below 100 us.
  function decades(_, axis, low, high) {
    const found = [];
    for (let n = Math.ceil(Math.log10(low) - 1e-9); n <= Math.log10(high) + 1e-9; n++) found.push(10 ** n);
    return found;
  }

  function logAxis(low, high) {
    return {
      distr: 3, log: 10, range: () => [low / 1.5, high * 2],
      axis: {
        splits: decades, values: (_, at) => at.map((one) => duration(one)),
        grid: { stroke: () => colour("grid"), width: 1 }, ticks: { show: false },
      },
    };
  }

  const pointTime = (column) => ((column + 0.5) / Run.columns) * Run.end;
  const pointLatency = (row) => Run.low * 10 ** (((row + 0.5) / Run.rows) * Run.decades);

  function witnessOps() {
    const found = [];
    for (const [slug, witness] of Object.entries(Run.witnesses)) {
      if (!witness.lanes) continue;
      for (const bar of witness.lanes.bars.flat()) {
        if (bar[6] && bar[2] !== null) found.push({ slug, x: bar[1], y: Math.max(bar[2] - bar[1], Run.low), f: bar[4] });
      }
    }
    return found;
  }

  function points(operation) {
    const names = Run.outcomes.filter((name) => operation.points[name]);
    if (!names.length) return empty("Latency");
    const rows = names.flatMap((name) => operation.points[name].y);
    let low = Infinity;
    let high = 0;
    for (const row of rows) {
      low = Math.min(low, pointLatency(row));
      high = Math.max(high, pointLatency(row));
    }
    const shown = names.reduce((sum, name) => sum + operation.points[name].x.length, 0);
    const sampled = names.filter((name) => operation.points[name].of > operation.points[name].x.length);
    const some = sampled.length ? `, a sample for outcome ${sampled.join(" and ")}` : "";
    rings = witnessOps().filter((one) => operation.name === "all" || Run.ops.length === 1 || one.f === operation.name);
    const note = `every operation at the time of its invocation: ${number(operation.count)} as ${number(shown)} dots${some}`;
    const items = names.map((name) => [Run.outcome_names[name], outcomeColour(name), name]);
    if (rings.length) items.push(["part of a witness (click)", colour("mark"), "ring"]);
    const draw = (u) => {
      const { ctx } = u;
      const scale = devicePixelRatio || 1;
      ctx.save();
      ctx.beginPath();
      ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
      ctx.clip();
      const [from, to] = Range.get();
      for (const name of names) {
        const { x, y } = operation.points[name];
        const few = x.length < 400;
        const r = (few ? 2.8 : 1.4) * scale;
        ctx.fillStyle = outcomeColour(name);
        ctx.globalAlpha = few ? 0.9 : 0.55;
        const path = new Path2D();
        for (let n = 0; n < x.length; n++) {
          const time = pointTime(x[n]);
          if (time < from || time > to) continue;
          const px = u.valToPos(time, "x", true);
          const py = u.valToPos(pointLatency(y[n]), "y", true);
          if (few) path.addPath(new Path2D(markPath(name, px, py, r)));
          else path.rect(px - r, py - r, 2 * r, 2 * r);
        }
        ctx.fill(path);
      }
      ctx.globalAlpha = 1;
      ctx.strokeStyle = colour("mark");
      ctx.lineWidth = 1.8 * scale;
      for (const one of rings) {
        ctx.beginPath();
        ctx.arc(u.valToPos(one.x, "x", true), u.valToPos(one.y, "y", true), 5 * scale, 0, 7);
        ctx.stroke();
      }
      ctx.restore();
    };
    const box = panel("Latency", note, items);
    const u = chart(box, 210, [{ paths: () => null, points: { show: false } }], [[0, Run.end], [null, null]],
      logAxis(low, high), { draw: [draw] }, null);
    u.over.addEventListener("click", (event) => {
      const near = rings
        .map((one) => [Math.hypot(u.valToPos(one.x, "x") - event.offsetX, u.valToPos(one.y, "y") - event.offsetY), one])
        .sort((one, two) => one[0] - two[0])[0];
      if (near && near[0] < 12) location.hash = near[1].slug;
    });
  }

  function quantiles(operation) {
    const lines = operation.quantiles;
    const values = lines.flatMap((one) => one.values).filter((value) => value !== null);
    if (!values.length) return empty("Latency quantiles");
    const width = Run.end / lines[0].values.length;
    const times = lines[0].values.map((_, n) => (n + 0.5) * width);
    const order = [...lines].reverse();
    const box = panel("Latency quantiles", `of the operations that completed in each ${duration(Number(width.toPrecision(2)))}`,
      order.map((one) => [one.name, onGround(one.colour)]));
    chart(box, 150, lines.map((one) => line(one, { points: { show: true, size: 4 } })),
      [times, ...lines.map((one) => one.values)],
      logAxis(Math.min(...values), Math.max(...values)), {}, (u, idx) => tipParts(u, idx, lines, duration));
  }

  function cells(title, note, series, show, axis) {
    if (!series) return empty(title);
    const times = Array.from({ length: series.cells + 1 }, (_, n) => (n / series.cells) * Run.end);
    const lines = [...series.lines].reverse();  // draws the first line on top
    const box = panel(title, note, series.lines.map((one) => [one.name, onGround(one.colour)]));
    chart(box, 140, lines.map((one) => line(one, { paths: uPlot.paths.stepped({ align: 1 }) })),
      [times, ...lines.map((one) => [...one.values, one.values.at(-1)])],
      { range: upwards, axis }, {},
      (u, idx) => tipParts(u, idx, lines.slice().reverse(), show).length > 1
        ? [el("span", {}, seconds(u.data[0][idx])), ...series.lines.flatMap((one) => {
          const value = one.values[Math.min(idx, series.cells - 1)];
          return value === null ? [] : [el("br"), one.name + " ", el("b", {}, show(value))];
        })] : null);
  }

  function draw() {
    for (const u of made) u.destroy();
    made = [];
    host.replaceChildren();
    Tracks.draw(host);
    const operation = Run.ops[kind];
    if (operation) {
      rate(operation);
      points(operation);
      quantiles(operation);
    }
    cells("Unseen", "acknowledged records that no client has read yet", Run.unseen, number, plainAxis);
    cells("Realtime lag", "time since the acknowledgement of the oldest record that a client has not read yet", Run.lag, duration,
      { values: (_, at) => at.map((one) => (one ? duration(one) : "0")) });
  }

  Range.listen((from, to) => {
    for (const u of made) u.setScale("x", { min: from, max: to });
  });

  return {
    draw,
    kinds: () => Run.ops.map((operation) => operation.name),
    choose(n) {
      kind = n;
      draw();
    },
    count: () => made.length,
    rings: () => rings,
  };
})();
