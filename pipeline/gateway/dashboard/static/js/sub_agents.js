// The threads that a thread is linked with: who started it, and whom it has started.

import { threadAddress } from "./api.js";
import { fill, h } from "./dom.js";

/** Shows them in `aside`, or hides it where there are none. */
export function showTree(aside, tree, found, tenant) {
  const links = found.relationships?.links ?? [];
  const parents = links.filter((link) => link.relation === "spawned_from");
  const others = links.filter((link) => link.relation !== "spawned_from");
  const spawned = tree?.spawned ?? [];
  aside.hidden = !parents.length && !spawned.length && !others.length;
  if (aside.hidden) return;
  const linked = (link) => h("li", h("a", { href: threadAddress(link.thread_id, tenant ?? tree?.thread.tenant) }, `${link.relation.replaceAll("_", " ")} ${link.thread_id.slice(0, 8)}…`));
  fill(
    aside,
    h("section.card", h("h2", "Sub-agents"),
      parents.length > 0 && h("ul.tree", parents.map(linked)),
      h("ul.tree", twig({ thread: tree?.thread ?? { thread_id: found.thread_id }, spawned, more: tree?.more }, found.thread_id)),
      others.length > 0 && h("ul.tree", others.map(linked)),
    ),
  );
}

function twig(node, current) {
  const { thread: one, spawned } = node;
  const name = h("span.cut", one.title || one.external_id || one.thread_id);
  return h(
    "li",
    one.thread_id === current
      ? h("span.here", { "aria-current": "true" }, name)
      : h("a", { href: threadAddress(one.thread_id, one.tenant) }, name, h("span.muted.small", one.agents.join(", ")), one.status === "interrupted" && h("span.chip.warn", "interrupted")),
    (spawned.length > 0 || node.more) && h("ul", spawned.map((child) => twig(child, current)), node.more && h("li.muted", "and more")),
  );
}
