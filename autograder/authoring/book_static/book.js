// What a keyboard and a screen reader need and the theme does not give.
document.addEventListener("DOMContentLoaded", () => {
  for (const wide of document.querySelectorAll("article pre, article .table-wrapper")) wide.tabIndex = 0;
  for (const formula of document.querySelectorAll("article th math")) {
    // the head of a column needs words: the formula's own signs, read aloud in its place
    formula.setAttribute("aria-hidden", "true");
    formula.before(Object.assign(document.createElement("span"), { className: "read-aloud", textContent: formula.textContent }));
  }
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Lessons");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
  const article = document.querySelector("article");
  if (article && !article.querySelector("h1")) {
    article.prepend(Object.assign(document.createElement("h1"), { textContent: "Search" }));
  }
});
