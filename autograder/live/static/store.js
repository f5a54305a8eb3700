// What a reader wrote and passed in one lesson, kept in this browser: {answers, passed, hints}, each by exercise; `panels` are
// what the last check of an answer said, `cells` the given cells that were changed, by their name.
export class Store {
  #key;
  #kept = { answers: {}, passed: {}, hints: {}, panels: {}, cells: {} };
  lasts = true; // whether the browser keeps it: a private window may not

  constructor(course, lesson) {
    this.#key = `attn live: ${course}: ${lesson}`; // sites of one host share a storage
    try {
      const found = JSON.parse(localStorage.getItem(this.#key) ?? "{}");
      for (const part of Object.keys(this.#kept)) this.#kept[part] = { ...found[part] };
    } catch {
      this.lasts = false;
    }
  }

  get(part, exercise) {
    return this.#kept[part][exercise];
  }

  all(part) {
    return { ...this.#kept[part] };
  }

  set(part, exercise, value) {
    if (value === undefined) delete this.#kept[part][exercise];
    else this.#kept[part][exercise] = value;
    try {
      localStorage.setItem(this.#key, JSON.stringify(this.#kept));
    } catch {
      this.lasts = false;
    }
  }
}
