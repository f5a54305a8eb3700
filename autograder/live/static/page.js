// The live book's page: each answer cell gets an editor with Check, Hint and Reset, and each given cell that prints or draws one
// with Run and Reset.
// Without this script the page is the book: the task as code, and every hint below it.
import { download, given, stubs, withAnswers } from "./notebook.js";
import { Runner, TimeoutError } from "./runner.js";
import { Store } from "./store.js";

const make = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

/** Give a button its word, and for a screen reader the exercise that it belongs to. */
const name = (button, label, of) => {
  button.textContent = label;
  button.setAttribute("aria-label", `${label}: ${of}`);
  return button;
};

const button = (label, of, onclick) => name(make("button", { type: "button", className: "live-button", onclick }), label, of);

/** What the page says where Python did not start, or where `error` ended what ran; `again` is the button to press then. */
function problem(error, again) {
  const stopped = error instanceof TimeoutError;
  const headline = stopped
    ? error.message === "stopped"
      ? "You stopped this."
      : `Your code was still running after ${error.message}, so the page ended it.`
    : "Python could not start in this browser.";
  const advice = stopped
    ? `Look for a loop that never ends: does its condition ever become false? Your text is kept, and the next ${again} starts Python again.`
    : location.protocol === "file:"
      ? "A page that is opened as a file may not start Python. Serve the folder: attn book --live --serve."
      : `Press ${again} to try again. The browser said: ${error.message}`;
  const box = make("div", { className: "live-problem" }, make("p", {}, make("b", { textContent: headline })));
  box.append(make("p", { textContent: advice }));
  return box;
}

/** What code printed. */
function printout(text) {
  const said = make("pre", { className: "live-printed", textContent: text, tabIndex: 0 });
  said.setAttribute("aria-label", "Printed by your code");
  return said;
}

const MARKS = { pass: "✓ passed", noted: "• noted" }; // a prediction that is not so is noted, and gets its marks
const LONGEST = 60_000; // characters of a panel that is kept; a browser keeps some megabytes for a whole site

class Exercise {
  constructor(element, lesson) {
    this.element = element;
    this.lesson = lesson;
    this.name = element.dataset.exercise;
    this.words = element.dataset.kind === "words";
    this.stub = lesson.stubs[this.name];
    this.hints = [...element.querySelectorAll(":scope > details.hint")];
    this.build();
  }

  get text() {
    return this.lesson.store.get("answers", this.name) ?? this.stub;
  }

  build() {
    const { store, editor } = this.lesson;
    this.element.querySelector(":scope > .highlight-python, :scope > [class*=highlight]")?.remove();
    const frame = make("div", { className: "live-editor" });
    this.stage = make("p", { className: "live-stage", role: "status" });
    this.panel = make("div", { className: "live-panel" });
    this.panel.setAttribute("aria-live", "polite");
    this.bar = make("div", { className: "live-bar" });
    this.done = make("span", { className: "live-done" });
    if (!this.words) {
      this.checkButton = button("Check", this.name, () => this.check());
      this.checkButton.classList.add("live-main");
      this.stopButton = button("Stop", this.name, () => this.lesson.runner.stop());
      this.stopButton.hidden = true;
      this.bar.append(this.checkButton, this.stopButton);
    }
    if (this.hints.length) {
      this.hintButton = button("Hint", this.name, () => this.hint());
      this.bar.append(this.hintButton);
    }
    this.bar.append(button("Reset", this.name, () => this.reset()), this.done);
    this.element.prepend(frame, this.bar, this.stage, this.panel);
    const label = this.words ? `Your answer to ${this.name}, in words` : `Your code for ${this.name}`;
    this.view = editor.makeEditor({
      parent: frame,
      text: this.words && this.text === this.stub ? "" : this.text,
      label,
      plain: this.words,
      onChange: (text) => this.changed(text),
      onRun: () => this.words || this.check(),
    });
    this.showHints();
    this.foldResult();
    const kept = store.get("panels", this.name);
    if (kept?.text === this.text) this.show(kept);
    this.showDone();
    this.element.classList.add("live-on");
  }

  /** Fold what follows a prediction, up to the next heading or exercise: it would give the answer away. */
  foldResult() {
    if (!/^predict\w* *= *None\b/.test(this.stub)) return;
    const below = [];
    for (let next = this.element.nextElementSibling; next; next = next.nextElementSibling) {
      if (next.matches("section, h1, h2, h3, h4, .live-exercise, .live-cell")) break;
      if (!next.matches("details.solution, details.check")) below.push(next);
    }
    if (!below.length) return;
    this.result = make("details", { className: "live-result" }, make("summary", { textContent: "What happens: predict first" }));
    below[0].before(this.result);
    this.result.append(...below);
    if (this.passed) this.openResult();
  }

  openResult() {
    if (!this.result) return;
    this.result.open = true;
    this.result.querySelector("summary").textContent = "What happens";
  }

  changed(text) {
    const blank = text === this.stub || (this.words && !text.trim());
    this.lesson.store.set("answers", this.name, blank ? undefined : text);
    if (!this.words && !blank) this.lesson.start(this); // Reset needs no Python
    this.lesson.showProgress();
  }

  async check() {
    const { runner, store, data } = this.lesson;
    if (this.checkButton.disabled) return;
    this.lesson.stageAt = this;
    this.checkButton.disabled = true;
    this.stopButton.hidden = false;
    this.say("Checking…");
    try {
      const result = await runner.check({
        lesson: data.lesson,
        pack: data.pack,
        exercise: this.name,
        answers: this.lesson.answers(),
      });
      // an answer that passed once keeps its mark while it is the answer that passed
      store.set("passed", this.name, result.status in MARKS ? this.text : undefined);
      const { html, printed, status } = result;
      const short = html.length + printed.length <= LONGEST;
      store.set("panels", this.name, short ? { text: this.text, html, printed, status } : undefined);
      this.show(result);
    } catch (error) {
      this.showProblem(error);
    }
    this.say("");
    this.checkButton.disabled = false;
    this.stopButton.hidden = true;
    this.showDone();
    this.lesson.showProgress();
  }

  show({ html, printed, status }) {
    this.panel.innerHTML = html; // made by the engine, which escapes whatever came from an answer
    this.panel.dataset.shown = "checked";
    if (printed.trim()) this.panel.append(printout(printed));
    if (status in MARKS) {
      const next = this.lesson.next(this);
      if (next) this.panel.append(next);
      this.openResult();
    }
    for (const wide of this.panel.querySelectorAll("pre, div[style*='overflow-x']")) wide.tabIndex = 0;
  }

  showProblem(error) {
    this.panel.replaceChildren(problem(error, "Check"));
    this.panel.dataset.shown = "problem";
  }

  hint() {
    const level = Math.min((this.lesson.store.get("hints", this.name) ?? 0) + 1, this.hints.length);
    this.lesson.store.set("hints", this.name, level);
    this.showHints();
    this.hints[level - 1].open = true;
    this.hints[level - 1].querySelector("summary").focus();
  }

  showHints() {
    const read = this.lesson.store.get("hints", this.name) ?? 0;
    this.hints.forEach((hint, index) => (hint.hidden = index >= read));
    if (this.hintButton) {
      name(this.hintButton, read ? `Hint ${Math.min(read + 1, this.hints.length)} of ${this.hints.length}` : "Hint", this.name);
      this.hintButton.disabled = read >= this.hints.length;
    }
  }

  reset() {
    this.lesson.editor.setText(this.view, this.words ? "" : this.stub);
    this.panel.replaceChildren();
    for (const part of ["passed", "panels"]) this.lesson.store.set(part, this.name, undefined);
    this.showDone();
    this.say("The released text is back. Ctrl+Z in the editor brings yours back.");
    this.lesson.showProgress();
  }

  get passed() {
    const kept = this.lesson.store.get("passed", this.name);
    return this.words ? this.text !== this.stub : kept !== undefined && kept === this.text;
  }

  showDone() {
    const status = this.lesson.store.get("panels", this.name)?.status;
    this.done.textContent = !this.words && this.passed ? (MARKS[status] ?? MARKS.pass) : "";
  }

  say(text) {
    this.stage.textContent = text;
  }
}

/** A given cell that a reader may change and run; what it printed or drew stands below it from the start. */
class Given {
  constructor(element, lesson) {
    this.element = element;
    this.lesson = lesson;
    this.name = element.dataset.cell;
    this.released = lesson.given[this.name];
    const { store, editor } = lesson;
    element.querySelector(":scope > [class*=highlight]").remove();
    const frame = make("div", { className: "live-editor" });
    this.output = make("div", { className: "live-output" }, ...element.children);
    this.output.setAttribute("aria-live", "polite");
    this.first = [...this.output.childNodes];
    this.stage = make("p", { className: "live-stage", role: "status" });
    this.checkButton = button("Run", "this cell", () => this.run());
    this.stopButton = button("Stop", "this cell", () => lesson.runner.stop());
    this.stopButton.hidden = true;
    const bar = make("div", { className: "live-bar" }, this.checkButton, this.stopButton, button("Reset", "this cell", () => this.reset()));
    element.append(frame, bar, this.stage, this.output);
    this.view = editor.makeEditor({
      parent: frame,
      text: this.text,
      label: "Code that you may change and run",
      onChange: (text) => {
        store.set("cells", this.name, text === this.released ? undefined : { released: this.released, text });
        if (text !== this.released) lesson.start(this);
      },
      onRun: () => this.run(),
    });
  }

  get text() {
    const kept = this.lesson.store.get("cells", this.name);
    return kept?.released === this.released ? kept.text : this.released; // another version of the lesson has other cells
  }

  async run() {
    const { runner, data } = this.lesson;
    if (this.checkButton.disabled) return;
    this.lesson.stageAt = this;
    this.checkButton.disabled = true;
    this.stopButton.hidden = false;
    this.say("Running…");
    try {
      const asked = { lesson: data.lesson, pack: data.pack, cell: this.name, source: this.text, answers: this.lesson.answers() };
      const { html, printed } = await runner.check(asked);
      const shown = make("div", { className: "output", innerHTML: html }); // made by the engine and the course's own drawings
      this.output.replaceChildren(...(printed.trim() ? [printout(printed)] : []), ...(html ? [shown] : []));
    } catch (error) {
      this.showProblem(error);
    }
    this.say("");
    this.checkButton.disabled = false;
    this.stopButton.hidden = true;
  }

  showProblem(error) {
    this.output.replaceChildren(problem(error, "Run"));
  }

  reset() {
    this.lesson.editor.setText(this.view, this.released);
    this.output.replaceChildren(...this.first);
    this.say("The released text is back. Ctrl+Z in the editor brings yours back.");
  }

  say(text) {
    this.stage.textContent = text;
  }
}

class Lesson {
  constructor(element, editor, notebook) {
    this.data = element.dataset;
    this.editor = editor;
    this.notebook = notebook;
    this.stubs = stubs(notebook);
    this.given = given(notebook);
    this.store = new Store(this.data.course, this.data.lesson);
    const files = new URL(this.data.files, location.href).href;
    const pyodide = new URL(this.data.pyodide, location.href).href;
    this.runner = new Runner({ pyodide, files, bundle: "engine.zip" }, (text) => this.stageAt?.say(text || this.waiting()));
    this.exercises = [];
    for (const each of document.querySelectorAll(".live-exercise")) this.exercises.push(new Exercise(each, this));
    this.cells = [...document.querySelectorAll(".live-cell")].map((each) => new Given(each, this));
    this.progress = make("p", { className: "live-progress", role: "status" });
    if ("alone" in this.data) return; // one exercise on its own, as on the landing page: nothing to take home
    const home = button("Take my answers home", "download this notebook", () => this.takeHome());
    this.note = make("p", { className: "live-note", role: "status" });
    element.append(make("div", { className: "live-bar" }, home, this.progress), this.note);
    this.showProgress();
  }

  waiting() {
    if (!this.stageAt?.checkButton.disabled) return "";
    return this.stageAt instanceof Given ? "Running…" : "Checking…";
  }

  /** Where to go after `exercise`: from the landing page to the first lesson, from a lesson's last exercise to the next page. */
  next(exercise) {
    const { next, title } = this.data;
    const last = exercise.element === [...document.querySelectorAll(".live-exercise")].at(-1);
    const beside = last ? document.querySelector(".related-pages .next-page") : null;
    const address = next ?? beside?.href;
    if (!address) return null;
    const words = title ?? beside.querySelector(".title").textContent;
    return make("p", { className: "live-next" }, "Next: ", make("a", { href: address, textContent: words }));
  }

  /** Start Python because a reader types in `exercise`, which shows how far the start is. */
  start(exercise) {
    this.stageAt ??= exercise;
    this.runner.start().catch((error) => exercise.showProblem(error));
  }

  answers() {
    return { ...this.stubs, ...this.store.all("answers") };
  }

  showProgress() {
    const checked = this.exercises.filter((each) => !each.words);
    const passed = checked.filter((each) => each.passed).length;
    const kept = this.store.lasts ? "Kept in this browser." : "This browser keeps nothing: take your answers home before you leave.";
    this.progress.textContent = `${passed} of ${checked.length} checks done. ${kept}`;
    for (const each of checked) each.showDone();
  }

  takeHome() {
    const name = `${this.data.lesson}.ipynb`;
    download(name, `${JSON.stringify(withAnswers(this.notebook, this.store.all("answers")), null, 1)}\n`);
    this.note.textContent =
      `Saved as ${name}. On your machine, put it into work/${this.data.lesson}/ in place of the notebook there; ` +
      "attn lab opens it, and attn submit accepts it.";
  }
}

async function begin() {
  const element = document.querySelector(".live-lesson");
  if (!element) return;
  const { lesson, files } = element.dataset;
  try {
    const [editor, answer] = await Promise.all([import("./editor.min.js"), fetch(`${files}lessons/${lesson}/${lesson}.ipynb`)]);
    new Lesson(element, editor, await answer.json());
    document.documentElement.dataset.live = "on";
  } catch (error) {
    element.append(make("p", { className: "live-note", textContent: `The editors could not be loaded (${error.message}). You can still read.` }));
  }
}

begin();
