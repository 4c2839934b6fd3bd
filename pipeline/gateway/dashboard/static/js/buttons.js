// Buttons that copy, save and unfold.

import { h, icon, save } from "./dom.js";

const SHOWN = 2000; // ms for which a button says what it has done

/** Opens all that is folded in these places, or closes it. */
export function foldButton(...places) {
  const label = h("span", "Unfold all");
  const button = h("button.quiet.small", { type: "button", "data-key": "e" }, icon("fold"), label);
  button.addEventListener("click", () => {
    const folds = places.flatMap((place) => [...place.querySelectorAll("details.fold")]);
    const open = folds.some((one) => !one.open);
    for (const one of folds) one.open = open;
    label.textContent = open ? "Fold all" : "Unfold all";
  });
  return button;
}

/** Saves the very bytes that `fetched` brings. */
export function saveButton(text, name, fetched) {
  const label = h("span", text);
  const button = h("button.quiet.small", { type: "button" }, icon("file"), label);
  button.addEventListener("click", async () => {
    try {
      save(await fetched(), name);
    } catch (error) {
      if (error.name !== "AbortError") label.textContent = error.message;
    }
  });
  return button;
}

/** Copies the text that `made` gives, or promises. */
export function copyButton(text, made) {
  const label = h("span", text);
  const button = h("button.quiet.small", { type: "button" }, icon("copy"), label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(await made());
      label.textContent = "Copied";
    } catch (error) {
      label.textContent = error.name === "NotAllowedError" || !navigator.clipboard ? "The browser does not allow it" : error.message;
    }
    setTimeout(() => { label.textContent = text; }, SHOWN);
  });
  return button;
}
