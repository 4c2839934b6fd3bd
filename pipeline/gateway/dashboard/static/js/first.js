// Before anything is drawn: the chosen theme, so that the page does not flash in the other one.
const chosen = localStorage.getItem("turnmill.theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
// Under LANG=C browsers name a language that Intl refuses, and the charts' library asks for it as it loads.
try {
  Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en-US" });
}
