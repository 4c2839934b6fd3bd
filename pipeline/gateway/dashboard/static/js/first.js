// Before anything is drawn: the chosen theme, so that the page does not flash in the other one.
const chosen = localStorage.getItem("turnmill.theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
