// The search page: a field of its own, and below each result the sections that hold the words, with what they say there.
// Sphinx finds the pages; `window.excerpts` holds {page: [[anchor, heading, text], …]} (see autograder/authoring/excerpts.py).
"use strict";
document.addEventListener("DOMContentLoaded", () => { // Sphinx's own scripts follow this one
  const SECTIONS = 2; // of a page, in the list of results
  const [BEFORE, LENGTH] = [60, 200]; // characters of an excerpt: before the word that is found, and in all
  const WORD = /[\p{L}\p{N}_]+/gu;

  const element = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };

  const query = (new URLSearchParams(location.search).get("q") ?? "").trim();
  const stemmer = new Stemmer();
  const stems = new Map();
  const stem = (word) => {
    const small = word.toLowerCase();
    if (!stems.has(small)) stems.set(small, stemmer.stemWord(small));
    return stems.get(small);
  };
  const terms = [...new Set((query.toLowerCase().match(WORD) ?? []).filter((word) => !stopwords.has(word)))]; // as Sphinx does

  /** The term that `word` answers to: the same word in another form, or one that begins like it. */
  const termOf = (word) => terms.find((term) => stem(term) === stem(word) || (term.length > 2 && word.toLowerCase().startsWith(term)));

  /** Where `text` holds a term: [{term, from, to}]. */
  const hits = (text) =>
    [...text.matchAll(WORD)]
      .map((found) => ({ term: termOf(found[0]), from: found.index, to: found.index + found[0].length }))
      .filter(({ term }) => term);

  /** `text` from `from` to `to`, with the terms marked. */
  function marked(text, from, to) {
    const parts = [];
    let at = from;
    for (const hit of hits(text)) {
      if (hit.from < at || hit.to > to) continue;
      parts.push(text.slice(at, hit.from), element("mark", { textContent: text.slice(hit.from, hit.to) }));
      at = hit.to;
    }
    return [...parts, text.slice(at, to)];
  }

  /** What the section says around the first place that holds a term. */
  function excerpt(text) {
    const first = hits(text)[0]?.from ?? 0;
    const sentence = Math.max(0, ...[...text.slice(0, first).matchAll(/[.?!] /g)].map((end) => end.index + 2));
    const near = first - sentence <= LENGTH / 2;
    const from = near ? sentence : text.indexOf(" ", first - BEFORE) + 1;
    const end = text.lastIndexOf(" ", from + LENGTH);
    const to = text.length <= from + LENGTH ? text.length : Math.max(end, first);
    return [near ? "" : "… ", ...marked(text, from, to), to < text.length ? " …" : ""];
  }

  /** The best sections of a page: all terms before some, a heading before a paragraph, many before few. */
  function best(sections) {
    const scored = sections.map(([anchor, heading, text]) => {
      const [above, below] = [hits(heading), hits(text)];
      const terms = new Set([...above, ...below].map((hit) => hit.term)).size;
      return { anchor, heading, text, score: terms * 1000 + above.length * 50 + Math.min(below.length, 40) };
    });
    return scored.filter(({ score }) => score).sort((one, other) => other.score - one.score).slice(0, SECTIONS);
  }

  function explain(item) {
    const link = item.querySelector("a");
    const address = new URL(link.href);
    const page = address.pathname.split("/").at(-1);
    const sections = window.excerpts[page.replace(/\.html$/, "")] ?? [];
    const asked = address.hash.slice(1);
    const found = best(asked ? sections.filter(([anchor]) => anchor === asked) : sections);
    for (const { anchor, heading, text } of found) {
      const into = element("a", { href: `${page}#${anchor}` }, ...marked(heading, 0, heading.length));
      const lead = heading === link.textContent.split(" > ").at(-1) ? [] : [into, text ? ": " : ""];
      if (lead.length || text) item.append(element("p", { className: "excerpt" }, ...lead, ...excerpt(text)));
    }
    if (!found.length) item.append(element("p", { className: "excerpt", textContent: "In code, in a figure or in a folded part of this page." }));
  }

  const results = document.getElementById("search-results");
  const field = element("input", { type: "search", name: "q", value: query });
  field.setAttribute("aria-label", "Search the course");
  results.before(element("form", { className: "search-field" }, field, element("button", { textContent: "Search" })));
  if (!query) field.focus();
  const seen = new WeakSet();
  new MutationObserver(() => {
    const summary = results.querySelector(".search-summary");
    const nothing = "No page of the course has these words. Try fewer of them, or another one.";
    if (summary?.textContent.startsWith("Your search did not match")) summary.textContent = nothing; // Sphinx speaks of categories
    for (const item of results.querySelectorAll("ul.search > li")) {
      if (seen.has(item)) continue;
      seen.add(item);
      explain(item);
    }
  }).observe(results, { childList: true, subtree: true });
});
