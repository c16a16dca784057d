"use strict";
// Draws the offsets of a key around a witness: the writer of each, the number of polls, and the passes of readers.
const Strip = (() => {
  const SIDE = 96;
  const CELL = 50;
  const HOLE = 62;
  const PASS = 20;

  function layout(cells, left) {
    const places = [];
    let at = left;
    for (const cell of cells) {
      const width = cell.length === 2 ? HOLE : CELL;
      places.push([at, width]);
      at += width;
    }
    return [places, at];
  }

  function hole(made, [first, last], [x, width]) {
    const text = first === last ? `${first}` : `${first}–${last}`;
    made.append(titled(`no known record at offset ${text}: a transaction marker, or a lost record`,
      svg("rect", { x: x + 2, y: 22, width: width - 4, height: 44, rx: 4, class: "hole" })));
    made.append(svg("text", { x: x + width / 2, y: 15, "text-anchor": "middle", class: "f num", "font-size": "11" }, cut(text, 10)));
    made.append(svg("text", { x: x + width / 2, y: 48, "text-anchor": "middle", class: "f", "font-size": "11" }, "none"));
  }

  function cellOf(made, cell, [x, width], polled) {
    const [offset, value, writer, polls, own] = cell;
    const middle = x + width / 2;
    const group = svg("g", {});
    const box = svg("rect", { x: x + 2, y: 22, width: width - 4, height: 44, rx: 4, class: "cellbox" });
    group.append(svg("text", { x: middle, y: 15, "text-anchor": "middle", class: "f num", "font-size": "11" }, offset), box);
    group.append(svg("text", { x: middle, y: 39, "text-anchor": "middle", class: "num", "font-size": "12.5" }, cut(value, 6)));
    let title = `offset ${offset}: value ${value}; no known send`;
    if (writer) {
      const [type, process, op, begin, end, count] = writer;
      title = `offset ${offset}: value ${value}, sent by process ${process} (op ${op}, ${seconds(begin)}), ${end === null ? "never completed" : type}${count > 1 ? `, and by ${count - 1} more` : ""}`;
      group.append(svg("path", { d: markPath(type, x + 12, 55, 3.6), class: type }));
      group.append(svg("text", { x: x + 20, y: 59, class: "f", "font-size": "11" }, "p" + process));
    } else group.append(svg("text", { x: middle, y: 59, "text-anchor": "middle", class: "lost", "font-size": "11" }, "no send"));
    const wrong = polled && writer && (polls ? writer[0] === "fail" : writer[0] === "ok");
    if (polled) title += polls ? `; polled ${polls} times` : "; never polled";
    if (polled) group.append(svg("text", { x: middle, y: 81, "text-anchor": "middle", class: wrong ? "lost" : "f num", "font-size": "11" }, polls ? `${number(polls)} ×` : "never"));
    if (own) group.append(svg("rect", { x: x + 1, y: 21, width: width - 2, height: 46, rx: 5, class: "mark" }));
    made.append(titled(title, group));
  }

  function pass(made, [process, begin, polled], places, y, names) {
    const group = svg("g", {});
    const at = polled.map(([place]) => places[place][0] + places[place][1] / 2);
    if (at.length > 1) group.append(svg("path", { d: `M${at[0]} ${y}H${at.at(-1)}`, class: "pass " + polled[0][1] }));
    polled.forEach(([, type, op], n) => {
      group.append(svg("path", { d: markPath(type, at[n], y, names[op] ? 5 : 3.6), class: type + (names[op] ? " mark-op" : "") }));
    });
    made.append(titled(`process ${process}, from ${seconds(begin)}: polled ${polled.length} of these records in operations ${[...new Set(polled.map((one) => one[2]))].slice(0, 6).join(", ")}`, group));
    made.append(svg("text", { x: 10, y: y + 4, class: polled.some((one) => names[one[2]]) ? "" : "f", "font-size": "11" }, `p${process}, ${Number(begin.toFixed(2))} s`));
  }

  // polled: whether the history contains the polls, which it does not for a pipeline.
  function section(part, names, polled) {
    const [places, width] = layout(part.cells, SIDE);
    const height = (polled ? 96 : 74) + part.passes.length * PASS + 4;
    const made = svg("svg", { width: width + 12, height, role: "img", "aria-label": "the log of the key, offset by offset" });
    for (const [y, text] of [[15, "offset"], [39, "value"], [59, "written by"], ...(polled ? [[81, "polled"]] : [])]) {
      made.append(svg("text", { x: 10, y, class: "f", "font-size": "11" }, text));
    }
    part.cells.forEach((cell, n) => (cell.length === 2 ? hole : cellOf)(made, cell, places[n], polled));
    part.passes.forEach((one, n) => {
      const y = 102 + n * PASS;
      made.append(svg("path", { d: `M${SIDE} ${y}H${width}`, class: "grid" }));
      pass(made, one, places, y, names);
    });
    return made;
  }

  function draw(into, witness) {
    for (const strip of witness.strips) {
      if (!strip.sections.length) continue;
      const omitted = strip.sections.reduce((sum, one) => sum + one.left, 0);
      into.append(el("h4", {}, `The log of key ${strip.key} `, el("small", {},
        !witness.polls ? "the history's number for the input partition; framed: records of the witness" : `framed: records of the witness; below: a row for each pass of a reader${strip.cut ? ", from only some of the polls" : ""}${omitted ? `; ${number(omitted)} more passes omitted` : ""}`)));
      for (const one of strip.sections) into.append(el("div", { class: "scroll" }, section(one, witness.names, witness.polls)));
    }
  }

  return { draw };
})();
