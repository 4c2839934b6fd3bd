// Links to a thread, for people without a token: made, copied, and ended.

import * as api from "./api.js";
import { attempt } from "./attempt.js";
import { copyButton } from "./buttons.js";
import { fill, h } from "./dom.js";
import { inFull, many } from "./format.js";
import { person } from "./person.js";

/** What opens where the operator allows links, and makes and ends those of the thread at this path. */
export function sharing(path, whose, signal) {
  const refused = person.refused("feedback");
  const said = h("p.state.small", { role: "status" });
  const button = (text, doing) => h("button.quiet.small", { type: "button", onclick: () => attempt(said, signal, doing), disabled: refused !== null, title: refused ?? "" }, text);
  const make = button("Make a link", async () => {
    const { address, expires_at: until } = await api.send("POST", api.url(`${path}/share`, whose), null, signal);
    const link = `${location.origin}${address}`;
    fill(said, h("input", { readonly: true, value: link, "aria-label": "The link", size: 60 }), copyButton("Copy", () => link), ` until ${inFull(until)}. It is shown this once.`);
  });
  const end = button("End all links", async () => {
    const { ended } = await api.send("DELETE", api.url(`${path}/share`, whose), null, signal);
    return `Ended ${many(ended, "link")}`;
  });
  const fold = h("details.adding", { hidden: true }, h("summary", "Share this thread by a link"), h("p.muted.small", "Whoever has the link reads this thread, and nothing else."), h("div.actions", make, end), said);
  api.json("/static/features.json", {}, signal).then(({ share }) => (fold.hidden = !share)).catch(() => {});
  return fold;
}
