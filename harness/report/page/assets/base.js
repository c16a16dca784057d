"use strict";
// Shared helpers: the page's data, creating elements, formatting numbers, and the theme's colours.
const Run = JSON.parse(document.getElementById("data").textContent);
const LEFT = 66;   // margin of every chart and track, so that their time axes are aligned
const RIGHT = 18;

function el(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes || {})) {
    made.setAttribute(key, typeof value === "number" ? String(Math.round(value * 10) / 10) : value);
  }
  // With a viewBox, a drawing that is too wide for paper is scaled down as a whole.
  if (name === "svg" && attributes.width && !attributes.viewBox) made.setAttribute("viewBox", `0 0 ${made.getAttribute("width")} ${made.getAttribute("height")}`);
  made.append(...children);
  return made;
}

// The available width for a drawing in an element: the width of the element, or of the paper when printing.
const Paper = { width: 0 };
function roomIn(element) {
  return Paper.width ? Math.min(Paper.width, element.clientWidth || Paper.width) : element.clientWidth;
}

function titled(text, made) {
  made.prepend(svg("title", {}, text));
  return made;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

// The colour of a line in the current theme: colours that are too dark for a dark background are lightened.
function onGround(hex) {
  if (!hex) return colour("text");
  if (!isDark()) return hex;
  const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const light = (0.3 * parts[0] + 0.59 * parts[1] + 0.11 * parts[2]) / 255;
  const mix = light < 0.62 ? 0.42 : 0.1;
  return "rgb(" + parts.map((part) => Math.round(part + (255 - part) * mix)).join(",") + ")";
}

function number(value) {
  return value.toLocaleString("en-US");
}

function seconds(value, width) {
  const digits = width === undefined ? 3 : Math.min(6, Math.max(0, Math.ceil(2 - Math.log10(width))));
  return value.toFixed(digits) + " s";
}

function duration(value) {
  if (value === null || value === undefined) return "–";
  for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) {
    if (value >= size) return Number((value / size).toPrecision(3)) + " " + unit;
  }
  return Number((value / 1e-6).toPrecision(2)) + " µs";
}

// About `count` ticks at round values for an axis from low to high.
function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= rough * 0.999);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-6; n++) found.push(n * step);
  return { step, at: found };
}

function cut(text, length) {
  return text.length <= length ? text : text.slice(0, Math.max(0, length - 1)) + "…";
}

// The path of an outcome's mark around a point. Each outcome has its own shape, besides its colour.
function markPath(outcome, x, y, r) {
  if (outcome === "ok") return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
  if (outcome === "info") return `M${x} ${y - r * 1.3}L${x + r * 1.3} ${y}L${x} ${y + r * 1.3}L${x - r * 1.3} ${y}z`;
  if (outcome === "fail") return `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`;
  return `M${x} ${y - r * 1.3}L${x + r * 1.2} ${y + r}L${x - r * 1.2} ${y + r}z`;
}
