// The theme's button of the landing page. It keeps the reader's choice where the book's pages look for it.
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
