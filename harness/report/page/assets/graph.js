"use strict";
// Draws a cycle: its operations on a circle, and an edge for each step, labelled with its type and key.
const Graph = (() => {
  const MOST = 16;
  let count = 0;

  function arrow(id, kind) {
    return svg("marker", { id, viewBox: "0 0 8 8", refX: "7", refY: "4", markerWidth: "7", markerHeight: "7", orient: "auto-start-reverse" },
      svg("path", { d: "M0 0.5L8 4L0 7.5z", fill: colour({ ww: "ok", wr: "good", rw: "mark" }[kind] || "faint") }));
  }

  function draw(into, witness, chain) {
    const graph = witness.graph;
    if (!graph) return;
    const many = graph.nodes.length;
    if (many > MOST) {
      into.append(el("p", { class: "faint" }, `A cycle of ${many} operations is too long for a picture; the steps describe it.`));
      return;
    }
    const width = Math.max(280, Math.min(440, into.closest(".open").clientWidth));
    const radius = many === 1 ? 0 : Math.min(width / 2 - 66, 52 + many * 22);
    const height = many === 2 ? 150 : 2 * radius + 96;
    const middle = [width / 2, height / 2];
    const made = svg("svg", { width, height, role: "img", "aria-label": "the cycle as a graph" });
    const defs = svg("defs", {});
    made.append(defs);
    const prefix = "arrow" + count++;
    for (const kind of new Set(graph.edges.map((edge) => edge[2]))) defs.append(arrow(`${prefix}-${kind.replace(/\W/g, "")}`, kind));
    const start = many === 2 ? Math.PI : -Math.PI / 2;
    const at = graph.nodes.map((_, n) => {
      const angle = start + (2 * Math.PI * n) / many;
      return [middle[0] + radius * Math.cos(angle), middle[1] + (many === 2 ? 0 : radius * Math.sin(angle))];
    });
    const texts = [];
    graph.edges.forEach(([from, to, kind, key], n) => {
      const [a, b] = [at[from], at[to]];
      const [dx, dy] = [b[0] - a[0], b[1] - a[1]];
      const length = Math.hypot(dx, dy) || 1;
      const bend = many === 2 ? 74 : 26 + 16 * (n >= many ? 1 : 0);
      const control = [(a[0] + b[0]) / 2 + (dy / length) * bend, (a[1] + b[1]) / 2 - (dx / length) * bend];
      const off = (end) => {
        const [ex, ey] = [control[0] - end[0], control[1] - end[1]];
        const scale = Math.min(44 / (Math.abs(ex) || 1e-9), 22 / (Math.abs(ey) || 1e-9));
        return [end[0] + ex * scale, end[1] + ey * scale];
      };
      const [s, e] = [off(a), off(b)];
      const group = svg("g", { class: "step", "data-step": String(n) });
      const type = kind.replace(/\W/g, "");
      group.append(svg("path", { d: `M${s[0]} ${s[1]}Q${control[0]} ${control[1]} ${e[0]} ${e[1]}`, class: "edge " + type, "marker-end": `url(#${prefix}-${type})` }));
      const tx = (s[0] + 2 * control[0] + e[0]) / 4;
      const ty = (s[1] + 2 * control[1] + e[1]) / 4;
      group.append(svg("text", { x: tx, y: ty + 4, "text-anchor": "middle", class: "label", "font-size": "11.5" }, cut(kind, 10) + (key ? `, key ${cut(key, 10)}` : "")));
      if (chain) {
        const line = chain.querySelector(`[data-step="${n}"]`);
        const light = (on) => () => line && line.classList.toggle("on", on);
        group.addEventListener("mouseenter", light(true));
        group.addEventListener("mouseleave", light(false));
        if (line) {
          line.addEventListener("mouseenter", () => group.classList.add("on"));
          line.addEventListener("mouseleave", () => group.classList.remove("on"));
        }
      }
      texts.push(group);
    });
    made.append(...texts);
    graph.nodes.forEach(([name, op, process, type], n) => {
      const [x, y] = at[n];
      made.append(svg("g", {}, svg("rect", { x: x - 44, y: y - 20, width: 88, height: 40, rx: 8, class: "node" }),
        svg("text", { x, y: y - 3, "text-anchor": "middle", "font-weight": "600" }, name),
        ...(type ? [svg("path", { d: markPath(type, x - 34, y - 7, 3.8), class: type })] : []),
        svg("text", { x, y: y + 13, "text-anchor": "middle", class: "f", "font-size": "11" }, `op ${op}${process === null ? "" : ", p" + process}`)));
    });
    into.append(made);
  }

  return { draw };
})();
