"use strict";
// The page itself: the theme, the selected range and its filters, opening witnesses, links and keyboard shortcuts.
(() => {
  const root = document.documentElement;
  const prefers = matchMedia("(prefers-color-scheme: dark)");
  const byId = (id) => document.getElementById(id);
  const all = (selector, within) => [...(within || document).querySelectorAll(selector)];

  // --- theme ---
  let printing = "";  // the theme to restore after printing

  function redraw() {
    if (byId("charts")) Charts.draw();
    for (const one of all("details.witness[open]")) paint(one, true);
  }

  function theme(name) {
    root.dataset.theme = name;
    redraw();
  }

  // --- witnesses ---
  function paint(details, again) {
    const witness = Run.witnesses[details.id];
    if (!witness || (details.dataset.painted && !again)) return;
    details.dataset.painted = "yes";
    for (const place of all("[data-draw]", details)) {
      place.replaceChildren();
      const kind = place.dataset.draw;
      if (kind === "lanes") Lanes.draw(place, witness);
      else if (kind === "strips") Strip.draw(place, witness);
      else Graph.draw(place, witness, details.querySelector(".chain"));
    }
  }

  function follow() {
    let id = location.hash.slice(1);
    try {
      id = decodeURIComponent(id);
    } catch {
      return;
    }
    const target = id && byId(id);
    if (!target) return;
    if (target.matches("details.witness")) {
      target.hidden = false;
      target.open = true;
      paint(target);
      target.querySelector("summary").focus({ preventScroll: true });
    }
    target.scrollIntoView({ block: "start" });
  }

  async function copy(text, button) {
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const field = el("textarea", { readonly: "", "aria-hidden": "true" });
      field.value = text;
      button.after(field);
      field.select();
      done = document.execCommand("copy");
      field.remove();
    }
    const before = button.dataset.text || button.textContent;
    button.dataset.text = before;
    button.textContent = done ? "copied" : "copying is not allowed";
    setTimeout(() => { button.textContent = before; }, 1500);
  }

  // --- the range ---
  // Whether a table row (a fault) or a witness is in the range: a fault while it is active; a witness if its first
  // operation began or its last one ended in the range; the witness of a pipeline anomaly by its time.
  function inside(one) {
    const [begin, end] = [Number(one.dataset.begin), Number(one.dataset.end)];
    if (one.matches("tr")) return Range.touches(begin, end);
    if (one.dataset.at !== undefined) return Range.touches(Number(one.dataset.at), Number(one.dataset.at));
    return Range.touches(begin, begin) || Range.touches(end, end);
  }

  // Lists the witnesses of a group that have one line each and are in the range; a sample if there are many.
  const LINES = 60;
  function lines(group, anomaly, whole) {
    const place = group.querySelector(".lines");
    const found = whole || !anomaly ? [] : anomaly.listed.filter(([, at]) => Range.touches(at, at));
    place.replaceChildren();
    place.hidden = !found.length;
    if (!found.length) return 0;
    const few = found.filter((_, n) => found.length <= LINES || Math.floor((n * LINES) / found.length) !== Math.floor(((n - 1) * LINES) / found.length));
    const rows = few.map(([n, at, text]) => el("li", {}, el("b", {}, "#" + n), " ", el("span", { class: "when" }, seconds(at)), " ", text, " ",
      el("code", {}, `${Run.explain} '${anomaly.name}#${n}'`)));
    place.append(el("p", { class: "faint" }, `${few.length < found.length ? `${number(few.length)} of ${number(found.length)}` : number(found.length)} more in the selected range; to read one, run in a terminal:`), el("ul", {}, ...rows));
    return found.length;
  }

  function show(from, to, whole) {
    const [first, last] = Range.cells();
    for (const row of all("#counts tbody tr")) {
      const kind = Run.ops.find((one) => one.name === row.dataset.f);
      for (const cell of kind ? all("td", row) : []) {
        const counts = kind.rates[cell.dataset.outcome] || [];
        cell.textContent = number(counts.slice(first, last).reduce((one, two) => one + two, 0));
      }
      row.hidden = !kind && !whole;
    }
    byId("counted").textContent = whole ? "of the whole run" : `that completed from ${seconds(from)} to ${seconds(to)}`;
    for (const one of all("[data-begin]")) one.hidden = !whole && !inside(one);
    for (const one of all("details.witness:not([data-begin])")) one.hidden = !whole;
    for (const group of all(".group")) {
      const anomaly = Run.anomalies.find((one) => one.slug === group.id);
      const per = Run.cells / Run.windows;
      const count = anomaly ? anomaly.cells.reduce((sum, cell, n) => sum + (cell >= first * per && cell < last * per ? anomaly.counts[n] : 0), 0) : 0;
      const shown = all("details.witness", group);
      // A joined witness is about records of many times.
      if (anomaly && anomaly.joined && anomaly.known) for (const one of shown) one.hidden = !whole && !count;
      const more = lines(group, anomaly, whole);
      group.querySelector(".inrange").textContent = whole ? "" : anomaly && anomaly.known
        ? `${number(count)} of ${number(anomaly.known)}${anomaly.known < anomaly.count ? " whose time is known" : ""} ${anomaly.verb} in the selected range` : "time not known";
      group.querySelector(".nothing").hidden = whole || more > 0 || !shown.length || shown.some((one) => !one.hidden);
    }
    const faults = byId("faults");
    if (faults) faults.querySelector(".nothing").hidden = all("tbody tr", faults).some((row) => !row.hidden);
    byId("from").value = Number(from.toFixed(3));
    byId("to").value = Number(to.toFixed(3));
    byId("reset").disabled = whole;
    byId("said").textContent = whole ? "Drag across a chart to select a range of time."
      : `Shown: ${seconds(from)} to ${seconds(to)} of ${seconds(Run.end)}, with the counts, faults and witnesses of that range.`;
  }

  function controls() {
    byId("controls").hidden = false;
    const names = Charts.kinds();
    const group = byId("kinds");
    names.forEach((name, n) => {
      const button = el("button", { type: "button", "aria-pressed": String(n === 0) }, name);
      button.addEventListener("click", () => {
        for (const one of all("button", group)) one.setAttribute("aria-pressed", String(one === button));
        Charts.choose(n);
      });
      group.append(button);
    });
    group.hidden = names.length < 2;
    byId("range").addEventListener("submit", (event) => {
      event.preventDefault();
      Range.set(byId("from").valueAsNumber, byId("to").valueAsNumber);
    });
    byId("reset").addEventListener("click", Range.all);
    Range.listen((from, to) => show(from, to, Range.whole()));
    const keys = { ArrowLeft: () => Range.move(-0.25), ArrowRight: () => Range.move(0.25), "+": () => Range.widen(0.5),
      "=": () => Range.widen(0.5), "-": () => Range.widen(2), Escape: Range.all, Home: Range.all };
    byId("charts").addEventListener("keydown", (event) => {
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    show(0, Run.end, true);
  }

  // --- start ---
  root.dataset.theme = prefers.matches ? "dark" : "light";
  prefers.addEventListener("change", () => theme(prefers.matches ? "dark" : "light"));
  const toggle = byId("theme");
  toggle.hidden = false;
  toggle.addEventListener("click", () => theme(isDark() ? "light" : "dark"));
  if (byId("charts")) {
    controls();
    Charts.draw();
  }
  for (const one of all("details.witness")) {
    one.addEventListener("toggle", () => one.open && paint(one));
    const zoom = one.querySelector(".zoom");
    if (one.dataset.begin !== undefined && byId("charts")) {
      zoom.hidden = false;
      zoom.addEventListener("click", () => {
        const [begin, end] = [Number(one.dataset.begin), Number(one.dataset.end)];
        const around = Math.max((end - begin) * 0.25, Run.end / 40);
        Range.set(begin - around, end + around);
        byId("timeline").scrollIntoView();
      });
    }
  }
  for (const button of all(".copy")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(byId(button.dataset.copy).textContent, button));
  }
  for (const button of all(".copylink")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(location.href.split("#")[0] + "#" + button.dataset.slug, button));
  }
  let width = innerWidth;
  let waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width || printing) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 120);
  });
  // For printing, everything is redrawn in the light theme at the width of paper; afterwards it is restored.
  addEventListener("beforeprint", () => {
    printing = isDark() ? "dark" : "light";
    Paper.width = 1000;
    theme("light");
  });
  addEventListener("afterprint", () => {
    if (!printing) return;
    Paper.width = 0;
    theme(printing);
    printing = "";
  });
  addEventListener("hashchange", follow);
  // Repeat this after the layout, because the browser scrolls to the fragment by itself and takes the focus away.
  addEventListener("load", () => setTimeout(() => {
    follow();
    root.dataset.ready = "yes";
  }));
  follow();
})();
