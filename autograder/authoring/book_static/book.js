// What a keyboard and a screen reader need and the theme does not give.
// Formulas stand in the page as MathML, and KaTeX draws them; one that it cannot read stays as it is.
function draw(formula) {
  const drawn = document.createElement("span");
  try {
    window.katex.render(formula.dataset.tex, drawn, { displayMode: formula.classList.contains("formula") });
    formula.replaceChildren(drawn);
  } catch (error) {
    console.info(`KaTeX: ${error.message}`);
  }
}

// Drawings ask the root element which theme the reader has chosen; the book's theme notes it at the body.
function passOn() {
  document.documentElement.dataset.theme = document.body.dataset.theme ?? "auto";
}

document.addEventListener("DOMContentLoaded", () => {
  passOn();
  new MutationObserver(passOn).observe(document.body, { attributeFilter: ["data-theme"] });
  if (window.katex) document.querySelectorAll("article [data-tex]").forEach(draw);
  for (const wide of document.querySelectorAll("article pre, article .table-wrapper")) wide.tabIndex = 0;
  for (const drawing of document.querySelectorAll("article .output > svg[width]")) {
    // one that is not much wider than a phone is shown whole
    const least = drawing.classList.contains("plot") ? 0.85 : 0.72;
    if (parseFloat(drawing.getAttribute("width")) * least <= drawing.parentElement.clientWidth) drawing.classList.add("whole");
  }
  for (const wide of document.querySelectorAll("article .output, article .formula")) {
    if (wide.scrollWidth <= wide.clientWidth + 1) continue;
    wide.tabIndex = 0;
    wide.classList.add("scrolls");
  }
  for (const pre of document.querySelectorAll("article .printed.aligned pre")) {
    if (pre.scrollWidth > pre.clientWidth + 1) pre.closest(".printed").classList.add("scrolls");
  }
  for (const formula of document.querySelectorAll("article th .tex")) {
    // the head of a column needs words: the formula's own text, read aloud in its place
    formula.setAttribute("aria-hidden", "true");
    formula.before(Object.assign(document.createElement("span"), { className: "read-aloud", textContent: formula.dataset.tex }));
  }
  for (const formula of document.querySelectorAll("article p .tex, article li .tex")) {
    const line = formula.closest("p, li");
    if (line.clientWidth === 0 || formula.getBoundingClientRect().width <= line.clientWidth) continue;
    // a formula within a sentence that is wider than a phone scrolls on a line of its own
    const scrolled = Object.assign(document.createElement("span"), { className: "wide-formula", tabIndex: 0 });
    scrolled.setAttribute("role", "group");
    scrolled.setAttribute("aria-label", "formula");
    formula.replaceWith(scrolled);
    scrolled.append(formula);
  }
  for (const caption of document.querySelectorAll("p.caption[role=heading]")) caption.setAttribute("aria-level", "2");
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Lessons");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
  const article = document.querySelector("article");
  if (article && !article.querySelector("h1")) {
    article.prepend(Object.assign(document.createElement("h1"), { textContent: "Search" }));
  }
});
