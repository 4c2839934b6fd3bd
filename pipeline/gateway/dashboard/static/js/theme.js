// Light, dark, or as the system has it.

import { fill, icon } from "./dom.js";

const KEY = "turnmill.theme";
const NEXT = { system: "light", light: "dark", dark: "system" };
const ICONS = { system: "system", light: "sun", dark: "moon" };
const system = matchMedia("(prefers-color-scheme: dark)");

export function theme() {
  return document.documentElement.dataset.theme ?? "system";
}

export function themeButton(button) {
  const show = () => {
    const text = `Theme: ${theme()}. Change to ${NEXT[theme()]}`;
    button.setAttribute("aria-label", text);
    button.setAttribute("title", text);
    fill(button, icon(ICONS[theme()]));
  };
  button.addEventListener("click", () => {
    const next = NEXT[theme()];
    if (next === "system") {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem(KEY);
    } else {
      document.documentElement.dataset.theme = next;
      localStorage.setItem(KEY, next);
    }
    show();
    document.dispatchEvent(new Event("theme"));
  });
  show();
}

/** Calls back after a change, for what is painted on a canvas. */
export function onTheme(signal, changed) {
  document.addEventListener("theme", changed, { signal });
  system.addEventListener("change", changed, { signal });
}
