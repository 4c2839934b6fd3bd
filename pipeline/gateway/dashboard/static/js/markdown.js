// A little Markdown, straight into elements: paragraphs, headings, lists, tables, code, bold, italics. What is anything else,
// links and markup among it, stays the text that it is.

import { h } from "./dom.js";

const FENCE = /^\s*(```|~~~)/;
const RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/; // below the heads of a table
const INLINE = /(`+)([^`]+?)\1(?!`)|\*\*(?=\S)([^*]+?)\*\*|(?<![\w*])\*(?=\S)([^*\n]+?)\*(?![\w*])/g;

export function markdown(text) {
  const root = h("div.text");
  const lines = text.split("\n");
  let paragraph = [];
  let list = null;

  const flush = () => {
    if (paragraph.length) root.append(h("p", inline(paragraph.join("\n"))));
    paragraph = [];
  };
  for (let n = 0; n < lines.length; n += 1) {
    const line = lines[n];
    const fence = FENCE.exec(line);
    const item = /^\s{0,6}([-*+]|\d{1,4}[.)])\s+(.*)$/.exec(line);
    const heading = /^#{1,6}\s+(.*)$/.exec(line);
    if (fence) {
      flush();
      list = null;
      const code = [];
      for (n += 1; n < lines.length && !lines[n].trimStart().startsWith(fence[1]); n += 1) code.push(lines[n]);
      root.append(h("pre.code", { tabindex: "0" }, code.join("\n")));
    } else if (line.includes("|") && RULE.test(lines[n + 1] ?? "") && cells(line).length === cells(lines[n + 1]).length) {
      flush();
      list = null;
      const [heads, rows] = [cells(line), []];
      for (n += 2; n < lines.length && lines[n].includes("|") && lines[n].trim(); n += 1) rows.push(cells(lines[n]));
      n -= 1;
      root.append(table(heads, rows));
    } else if (item) {
      flush();
      const tag = /\d/.test(item[1]) ? "ol" : "ul";
      if (list?.localName !== tag) {
        list = h(tag, tag === "ol" ? { start: parseInt(item[1], 10) } : {});
        root.append(list);
      }
      list.append(h("li", inline(item[2])));
    } else if (heading) {
      flush();
      list = null;
      root.append(h("p.heading", inline(heading[1])));
    } else if (!line.trim()) {
      flush();
      if (!/^\s{0,6}([-*+]|\d{1,4}[.)])\s/.test(lines[n + 1] ?? "")) list = null;
    } else if (list && /^\s{2,}/.test(line)) {
      list.lastChild.append("\n", ...inline(line.trim()));
    } else {
      list = null;
      paragraph.push(line);
    }
  }
  flush();
  return root;
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function table(heads, rows) {
  const row = (tag, some) => h("tr", heads.map((_, n) => h(tag, tag === "th" ? { scope: "col" } : {}, inline(some[n] ?? ""))));
  return h(
    "div.scroll", { tabindex: "0", role: "region", "aria-label": "Table" },
    h("table.said-table", h("thead", row("th", heads)), h("tbody", rows.map((some) => row("td", some)))),
  );
}

function inline(text) {
  const found = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    found.push(text.slice(from, match.index));
    if (match[2] !== undefined) found.push(h("code", match[2]));
    else if (match[3] !== undefined) found.push(h("strong", match[3]));
    else found.push(h("em", match[4]));
    from = match.index + match[0].length;
  }
  return [...found, text.slice(from)];
}
