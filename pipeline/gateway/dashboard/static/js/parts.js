// The parts of messages as elements. Whatever a part holds, it ends as text, as an image of a harmless kind, or as a
// file to be saved.

import { h, icon } from "./dom.js";
import { bytes } from "./format.js";
import { jsonView, longText } from "./json_view.js";
import { markdown } from "./markdown.js";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);
/** Kinds of parts that answer a call. */
export const RETURNS = new Set(["tool-return", "retry-prompt", "builtin-tool-return"]);
const LARGE = 20_000; // characters; a longer text is shown as it is

/** A part -> element. `returns`: tool_call_id -> tool-return or retry-prompt; those that are shown are taken out. */
export function partView(part, returns, signal) {
  const view = KNOWN.get(part.part_kind) ?? unknown;
  try {
    return view(part, returns, signal);
  } catch {
    return unknown(part); // not of the shape that its kind should have: shown as it is
  }
}

export function said(content) {
  return content.length > LARGE ? longText(content) : markdown(content);
}

function text(part) {
  return said(part.content);
}

function thinking(part) {
  const content = part.content ?? "";
  return h(
    "details.fold.thinking",
    h("summary", icon("thought"), h("b", "Thinking"), h("span.muted.cut", content ? firstLine(content) : "not disclosed")),
    content ? longText(content) : h("p.muted", "The provider keeps this thinking to itself."),
  );
}

function toolCall(part, returns) {
  const answer = returns.get(part.tool_call_id);
  returns.delete(part.tool_call_id);
  const status = answer ? answer.status ?? "retry" : "no result";
  return h(
    "details.fold.tool",
    h(
      "summary", icon("tool"), h("b", part.tool_name), h("span.muted.cut", firstLine(JSON.stringify(part.args) ?? "")),
      status !== "success" && h(answer ? "span.chip.bad" : "span.chip.warn", status.replace("_", " ")),
    ),
    h("p.part-title", "Arguments"),
    jsonView(part.args),
    answer && result(answer),
    h("p.muted.small", h("code", part.tool_call_id)),
  );
}

function result(part) {
  return [
    h("p.part-title", part.part_kind === "retry-prompt" ? "Asked to try again" : "Result"),
    part.content_ref ? reference(part.content_ref) : jsonView(part.content ?? null),
  ];
}

function toolReturn(part) {
  const bad = part.status && part.status !== "success";
  return h(
    "details.fold.tool",
    h("summary", icon("tool"), h("b", part.tool_name), h("span.muted.cut", "result without its call"), bad && h("span.chip.bad", part.status)),
    result(part),
  );
}

function retry(part) {
  return h(
    "details.fold.tool",
    h("summary", icon("alert"), h("b", part.tool_name ?? "Retry"), h("span.muted.cut", "asked to try again")),
    jsonView(part.content),
  );
}

function prompt(part, _returns, signal) {
  const pieces = typeof part.content === "string" ? [part.content] : part.content;
  const author = part["meta:steered_by"]?.by;
  return h("div.pieces", author && h("p.muted.small", `${author}, while it ran`), pieces.map((piece) => {
    if (typeof piece === "string") return said(piece);
    if (piece.kind === "binary") return fileView(piece.data, piece.media_type, piece.identifier, signal);
    if (typeof piece.url === "string") return address(piece.url, piece.kind);
    return jsonView(piece);
  }));
}

function file(part, _returns, signal) {
  if (part.content_ref) return reference(part.content_ref);
  const content = part.content ?? {};
  if (typeof content.data === "string") {
    return fileView(content.data, content.media_type, content.identifier ?? part.filename ?? part.name, signal);
  }
  if (typeof content.url === "string") return address(content.url, content.content_type ?? content.media_type);
  return unknown(part);
}

/** Base64 -> an image of a kind that can't hold scripts, or a button that saves it; nothing is opened by its own type. */
function fileView(data, type, name, signal) {
  const raw = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
  const title = name || "file";
  const kind = String(type ?? "").toLowerCase();
  const image = IMAGES.has(kind);
  const url = URL.createObjectURL(new Blob([raw], { type: image ? kind : "application/octet-stream" }));
  signal.addEventListener("abort", () => URL.revokeObjectURL(url));
  const link = h("a.file", { href: url, download: title.replace(/[^\w.-]+/g, "_") }, icon("file"), h("span", title), h("span.muted", `${kind || "unknown type"}, ${bytes(raw.length)}`));
  return image ? h("figure.image", h("img", { src: url, alt: title }), h("figcaption", link)) : link;
}

function reference(ref) {
  return h("div.file", icon("file"), h("span", "Kept elsewhere: "), h("code", String(ref.uri)), h("span.muted", [ref.media_type, ref.size_bytes && bytes(ref.size_bytes)].filter(Boolean).join(", ")));
}

/** An address: a link only where it leads to the web, and never fetched by the page. */
export function address(url, note, title) {
  const web = /^https?:\/\//i.test(url);
  const shown = title || url;
  return h(
    "span.file", icon("link"),
    web ? h("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow" }, shown) : h("code", shown),
    title && h("span.muted.cut", url), note && h("span.muted", String(note)),
  );
}

export function unknown(part) {
  return h(
    "details.fold",
    h("summary", icon("event"), h("b", String(part?.part_kind ?? part?.event_type ?? "part")), h("span.muted.cut", "of a kind that this page does not know")),
    jsonView(part),
  );
}

const KNOWN = new Map(Object.entries({
  text, thinking, file, "user-prompt": prompt, "tool-call": toolCall, "builtin-tool-call": toolCall,
  "tool-return": toolReturn, "builtin-tool-return": toolReturn, "retry-prompt": retry,
}));

export function systemEvent(message) {
  const { event_type: type, event_data: data } = message;
  if (typeof data?.url === "string" && String(type).startsWith("source.")) return address(data.url, "source", data.title);
  if (type === "source.document") {
    return h("span.file", icon("file"), h("span", String(data?.title ?? data?.filename ?? "Document")), h("span.muted", `source, ${data?.media_type ?? data?.mediaType ?? ""}`));
  }
  const bad = String(type).includes("error");
  const words = typeof data === "string" ? data : data?.message ?? data?.error ?? data?.text ?? data?.errorText;
  return h(
    "details.fold.event",
    h("summary", icon(bad ? "alert" : "event"), h("b", String(type)), h("span.muted.cut", firstLine(typeof words === "string" ? words : JSON.stringify(data) ?? ""))),
    jsonView(data),
  );
}

function firstLine(text) {
  return text.trim().replace(/\s+/g, " ").slice(0, 140);
}
