// The page's frame: which view the address names, signing in, and the state of the connection.

import { send, token, whenRefused } from "./api.js";
import { audit } from "./audit.js";
import { budgets } from "./budgets.js";
import { dataset, datasets } from "./datasets.js";
import { deadLetters } from "./dead_letters.js";
import { fill, h } from "./dom.js";
import { shortcuts } from "./keys.js";
import { overview } from "./overview.js";
import { person } from "./person.js";
import { pipeline } from "./pipeline.js";
import { search } from "./search.js";
import { sharedThread } from "./shared.js";
import { signIn } from "./sign_in.js";
import { themeButton } from "./theme.js";
import { thread } from "./thread.js";
import { threads } from "./threads.js";
import { tokens } from "./tokens.js";
import { savedViews } from "./views.js";

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const signOut = document.getElementById("sign-out");
const STATES = { live: "Live", connecting: "Connecting", catching: "Reading the last 15 minutes", lost: "Reconnecting", failing: "Not all of it answers" };
const VIEWS = [
  [/^\/$/, "overview", overview],
  [/^\/threads$/, "threads", threads],
  [/^\/threads\/(.+)$/, "threads", thread],
  [/^\/search$/, "threads", search],
  [/^\/shared\/(.+)$/, "shared", sharedThread],
  [/^\/datasets$/, "datasets", datasets],
  [/^\/datasets\/(.+)$/, "datasets", dataset],
  [/^\/pipeline$/, "pipeline", pipeline],
  [/^\/dead-letters$/, "dead-letters", deadLetters],
  [/^\/budgets$/, "budgets", budgets],
  [/^\/tokens$/, "tokens", tokens],
  [/^\/audit$/, "audit", audit],
];
const SAVED = new Set([overview, threads, search]); // those whose filters can be saved
const TITLES = { overview: "Overview", threads: "Threads", datasets: "Data sets", pipeline: "Pipeline", "dead-letters": "Dead letters", budgets: "Budgets and webhooks", tokens: "Tokens", audit: "Audit" };

let view = null; // AbortController of what is shown
let shown = null; // its path

function show() {
  const [path, query] = (location.hash.slice(1) || "/").split(/\?(.*)/s);
  view?.abort();
  view = new AbortController();
  state(null);
  const [match, name, draw] = VIEWS.map(([pattern, ...rest]) => [pattern.exec(path), ...rest]).find(([found]) => found)
    ?? [null, null, nothing];
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${TITLES[name] ?? "Not here"} · Turnmill`;
  signOut.hidden = !token.get() && !person.signedIn();
  const focused = document.activeElement?.dataset?.focus; // what was chosen in this view is drawn anew
  main.className = "";
  document.body.classList.toggle("alone", name === "shared"); // whoever has only a link can go nowhere else
  draw(main, view.signal, new URLSearchParams(query ?? ""), state, match?.[1] && decoded(match[1]));
  if (SAVED.has(draw)) main.querySelector(".controls")?.after(savedViews(view.signal));
  if (shown !== null && shown !== path) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  } else if (focused) {
    main.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }
  shown = path;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function state(name) {
  connection.textContent = STATES[name] ?? "";
  connection.dataset.state = name ?? "";
}

function nothing(element) {
  fill(element, h("section.card.message", h("h1", "There is nothing here"), h("p.muted", "No view of the dashboard has this address: it may have been cut off on its way."), h("p", h("a", { href: "#/" }, "To the overview"))));
}

whenRefused((problem, used) => {
  if (document.body.classList.contains("alone")) return;
  if (used === token.get() && !document.getElementById("sign-in")) {
    view?.abort();
    state(null);
    signIn(main, used ? problem.message : "", () => show(), problem.signIn);
  }
});
signOut.addEventListener("click", async () => {
  if (token.get()) {
    token.set(null);
    show();
  } else {
    location.assign((await send("POST", "/sign-out", null)).to);
  }
});
addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the view
  main.focus();
});
themeButton(document.getElementById("theme"));
shortcuts(document.getElementById("keys"));
await person.show(document.getElementById("person"));
show();
