// The landing page: the theme's button, which keeps the reader's choice where the book's pages look for it, and how far a reader
// who comes back has got.
import { Store } from "./store.js";

const order = ["auto", "light", "dark"];
const button = document.getElementById("theme");

function show(theme) {
  document.body.dataset.theme = document.documentElement.dataset.theme = theme; // drawings ask the root element
  button.textContent = `Theme: ${theme}`;
}

button.hidden = false;
show(order.includes(document.body.dataset.theme) ? document.body.dataset.theme : "auto");
button.addEventListener("click", () => {
  const next = order[(order.indexOf(document.body.dataset.theme) + 1) % order.length];
  try {
    localStorage.setItem("theme", next);
  } catch {
    // a private window keeps nothing
  }
  show(next);
});

const { course } = document.querySelector(".live-lesson").dataset;
const lessons = [...document.querySelectorAll("[data-checks]")].map((place) => {
  const store = new Store(course, place.dataset.lesson);
  const [answers, checks] = [store.all("answers"), Number(place.dataset.checks)];
  // an answer that was changed since it passed is open again
  const passed = Object.entries(store.all("passed")).filter(([name, text]) => answers[name] === text).length;
  const begun = Object.keys(answers).length > 0;
  if (begun) place.append(passed < checks ? ` · ${passed} of ${checks} checks done` : " · ✓ all checks done");
  return { link: place.previousElementSibling, begun, open: passed < checks, core: place.closest(".core") !== null };
});
if (lessons.some(({ begun }) => begun)) {
  const next = lessons.findLast(({ begun, open }) => begun && open) ?? lessons.find(({ core, open }) => core && open);
  if (next) {
    const go = document.querySelector(".door-go");
    go.href = next.link.href;
    go.textContent = `Go on with “${next.link.textContent}”`;
  }
}
