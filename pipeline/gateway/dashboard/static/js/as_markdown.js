// A conversation as Markdown, for a ticket or a mail.

import { inFull } from "./format.js";

const RESULTS = new Set(["tool-return", "builtin-tool-return", "retry-prompt"]);

/** A thread document, or one with some of its turns -> Markdown. */
export function asMarkdown(found, title) {
  const names = (id) => found.agents?.[id]?.agent_name ?? id;
  return [`# ${title}`, ...found.turns.map((turn) => turnText(turn, names))].join("\n\n") + "\n";
}

function turnText(turn, names) {
  const isUser = turn.turn_type === "user";
  const at = inFull(isUser ? turn.submitted_at : turn.started_at);
  const parts = isUser ? turn.parts : (turn.messages ?? []).flatMap((message) => message.parts ?? []);
  const shown = (turn["meta:partial"]?.messages ?? []).flatMap((message) => message.parts ?? []);
  const blocks = [`## ${isUser ? "User" : names(turn.agent_id)}, ${at}`, ...parts.map(partText)];
  if (shown.length) blocks.push("_Not finished:_", ...shown.map(partText));
  if (turn.completion_status === "interrupted") blocks.push(`_Interrupted: ${turn.interruption?.reason ?? "unknown"}_`);
  return blocks.filter(Boolean).join("\n\n");
}

function partText(part) {
  const kind = String(part.part_kind);
  if (kind === "text") return String(part.content ?? "").trim();
  if (kind === "thinking") return quoted(String(part.content ?? ""));
  if (kind === "user-prompt") return [part.content].flat().map(pieceText).join("\n\n");
  if (kind.endsWith("tool-call")) return `**${part.tool_name}**\n\n${fenced(part.args)}`;
  if (RESULTS.has(kind)) return `**${part.tool_name ?? "retry"}** ${kind === "retry-prompt" ? "again" : "→"}\n\n${fenced(part.content_ref ?? part.content)}`;
  return pieceText(part);
}

function pieceText(piece) {
  if (typeof piece === "string") return piece.trim();
  const address = piece?.url ?? piece?.content?.url ?? piece?.content_ref?.uri;
  if (address) return `[${piece.kind ?? piece.part_kind}](<${address}>)`;
  return `_${piece?.media_type ?? piece?.content?.media_type ?? piece?.part_kind ?? piece?.kind ?? "something else"}_`;
}

function quoted(text) {
  return text.trim() && text.trim().split("\n").map((line) => `> ${line}`).join("\n");
}

/** A value between fences that are longer than any in it. */
function fenced(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value ?? null, null, 2);
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((one) => one[0].length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${typeof value === "string" ? "" : "json"}\n${text}\n${fence}`;
}
