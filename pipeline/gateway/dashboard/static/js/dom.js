// Elements out of data. Text only ever becomes text: nothing here, nor elsewhere in this page, parses markup.

/** h("a.chip", {href: "#/", onclick: f}, "text", [more]) -> an element; null, undefined and false children are left out. */
export function h(what, ...rest) {
  const [tag, ...classes] = what.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  const [first] = rest;
  if (first !== null && typeof first === "object" && !(first instanceof Node) && !Array.isArray(first)) {
    for (const [name, value] of Object.entries(rest.shift())) set(element, name, value);
  }
  element.append(...nodes(rest));
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else element.setAttribute(name, value === true ? "" : String(value));
}

function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Puts other children into an element. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/** Hands a blob to the reader as a file. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const SVG = "http://www.w3.org/2000/svg";

/** An icon of 16 x 16 out of one path. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "glyph");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

const PATHS = {
  sun: "M8 4.8a3.2 3.2 0 1 0 0 6.4 3.2 3.2 0 0 0 0-6.4M8 1v1.4M8 13.6V15M1 8h1.4M13.6 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13.4 9.6A5.8 5.8 0 0 1 6.4 2.6a5.8 5.8 0 1 0 7 7Z",
  system: "M2 3h12v8H2zM5.5 14h5M8 11v3",
  tool: "M9.6 3.2a3.2 3.2 0 0 0-4 4L2.4 10.4a1.5 1.5 0 0 0 2.1 2.1l3.2-3.2a3.2 3.2 0 0 0 4-4L9.8 7.2 8.3 5.7z",
  thought: "M8 2.5c-3 0-5.5 1.8-5.5 4.3 0 1.4.8 2.6 2 3.4v2.3l2.2-1.5c.4.1.9.1 1.3.1 3 0 5.5-1.8 5.5-4.3S11 2.5 8 2.5Z",
  link: "M6.5 9.5l3-3M7 4.8l1.6-1.6a2.5 2.5 0 0 1 3.6 3.6L10.6 8.4M5.4 7.6 3.8 9.2a2.5 2.5 0 0 0 3.6 3.6L9 11.2",
  file: "M4 1.8h5l3 3v9.4H4zM9 1.8v3h3",
  event: "M9 1.8 3.8 9H8l-1 5.2L12.2 7H8z",
  agent: "M3.5 13.5c.5-2.4 2.3-3.6 4.5-3.6s4 1.2 4.5 3.6M8 7.6a2.6 2.6 0 1 0 0-5.2 2.6 2.6 0 0 0 0 5.2Z",
  fold: "M4.5 6 8 2.5 11.5 6M4.5 10 8 13.5l3.5-3.5",
  keys: "M1.5 4h13v8h-13zM4 6.5h.1M6.7 6.5h.1M9.3 6.5h.1M12 6.5h.1M5 9.5h6",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
  up: "M5.5 7 8 2c1 0 1.7.8 1.5 1.8L9.1 6h3.4c.8 0 1.4.8 1.2 1.6l-1.1 4.8c-.2.7-.8 1.1-1.4 1.1H5.5zM2.5 7h3v6.5h-3z",
  down: "M5.5 9 8 14c1 0 1.7-.8 1.5-1.8L9.1 10h3.4c.8 0 1.4-.8 1.2-1.6l-1.1-4.8c-.2-.7-.8-1.1-1.4-1.1H5.5zM2.5 9h3V2.5h-3z",
  alert: "M8 2.2 14.2 13H1.8zM8 6.4v3.2M8 11.3v.1",
};
